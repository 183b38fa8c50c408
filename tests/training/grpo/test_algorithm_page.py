"""Each preset of the page of algorithms is a config of a run, and sets something."""

import math
import re
from pathlib import Path

import pytest
import yaml
from tests.training.grpo.test_config import SMALL

from paddock.training.grpo.config import TrainConfig
from paddock.types import JsonObject

PAGE = Path(__file__).parents[3] / "docs/algorithms.md"
BLOCKS = re.compile(r"^```yaml title=\"run.yaml\"\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAPERS = (
    "GRPO",
    "Dr. GRPO",
    "DAPO",
    "RLOO",
    "GSPO",
    "CISPO",
    "SAPO",
    "REINFORCE++",
    "MaxRL",
    "Pass@k",
    "Off-policy",
    "Clip-Cov",
    "KL-Cov",
)


def presets() -> list[tuple[str, JsonObject]]:
    """The presets of the page, by the paragraph above each."""
    text = PAGE.read_text()
    return [
        (text[: found.start()].rstrip().rsplit("\n\n", 1)[-1].split(" (")[0], yaml.safe_load(found[1]))
        for found in BLOCKS.finditer(text)
    ]


def test_the_page_has_each_paper() -> None:
    names = [name for name, _ in presets()]
    assert [paper for paper in PAPERS if not any(name.startswith(paper) for name in names)] == []


@pytest.mark.parametrize("preset", [preset for _, preset in presets()], ids=[name for name, _ in presets()])
def test_a_preset_is_a_config(preset: JsonObject) -> None:
    tree = {**SMALL, **{name: {**SMALL.get(name, {}), **block} for name, block in preset.items()}}
    read = TrainConfig.model_validate(tree)
    cap = read.loss_fn.truncated_importance_sampling_ratio
    assert cap is not None, "no preset leaves sampling weights without a bound"
    assert cap < math.inf
    default = TrainConfig.model_validate(SMALL)
    assert (read.grpo, read.loss_fn) != (default.grpo, default.loss_fn)
