"""A short campaign of honest patches: the real command, and going on where it was stopped."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from paddock.sandbox.settings import HOME_VARIABLE

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
WORDS = ("faults", "honest", "--project", "pytest", "--seed", "7", "--runtime", "bubblewrap")


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("bwrap"), reason="no bubblewrap on this machine")
def test_a_campaign_hurts_no_honest_patch_and_grades_none_twice(tmp_path: Path) -> None:
    home = os.environ.get(HOME_VARIABLE) or f"/var/tmp/paddock-tests-{os.geteuid()}"
    Path(home).mkdir(parents=True, exist_ok=True)
    env = {**os.environ, HOME_VARIABLE: home, "PYTHONPATH": str(ROOT)}
    for count in (1, 2):
        subprocess.run(
            [sys.executable, "-m", "benchmarks", *WORDS, "--count", str(count)], cwd=tmp_path, env=env, check=True
        )
        lines = (tmp_path / "runs/bench/honest-7/cases.jsonl").read_bytes().splitlines()
        assert [orjson.loads(line)["number"] for line in lines] == list(range(count))
    figures = orjson.loads((tmp_path / "runs/bench/faults-honest.json").read_bytes())
    assert figures == {"seed": 7, "n": 2, "resolved": 2, "wrong": 0, "missing": 0, "defects": 0}
