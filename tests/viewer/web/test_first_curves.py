"""The claim that a training run's page begins with curves that a run has: those that the page on metrics explains."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_first_curves_are_metrics_that_are_explained() -> None:
    script = (ROOT / "src/paddock/viewer/web/assets/training.js").read_text()
    explained = (ROOT / "docs/training_metrics.md").read_text()
    names = re.findall(r'"([^"]+)"', script.split("const FIRST = [")[1].split("]")[0])
    assert len(names) == 12
    assert [name for name in names if f"`{name}`" not in explained] == []
    prefix = re.findall(r'const ENVIRONMENTS = "([^"]+)"', script)
    assert prefix == ["rollouts/failed_rate/environment/"] and "`/environment/NAME`" in explained
