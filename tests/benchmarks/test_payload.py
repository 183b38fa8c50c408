"""A short campaign of the payload that means harm: the real command, real sandboxes, real gradings beside them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from paddock.sandbox.settings import HOME_VARIABLE

pytestmark = [pytest.mark.sandbox, pytest.mark.long]
ROOT = Path(__file__).parents[2]
ROWS = "resources_servers/swe/data/example.jsonl"
WORDS = ("faults", "payload", "--sandboxes", "4", "--minutes", "0.25", "--runtime", "bubblewrap", "--seed", "1")

ZERO = ("wrong", "breaches", "hung", "traces", "leftovers", "over_bounds")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.skipif(not shutil.which("bwrap"), reason="no bubblewrap on this machine")
def test_a_quarter_of_a_minute_of_harm_changes_no_honest_verdict_and_leaves_nothing(tmp_path: Path) -> None:
    home = os.environ.get(HOME_VARIABLE) or f"/var/tmp/paddock-tests-{os.geteuid()}"
    env = {**os.environ, HOME_VARIABLE: home, "PYTHONPATH": str(ROOT)}
    build = [sys.executable, "-m", "paddock", "images", "build", "--rows", str(ROOT / ROWS)]
    subprocess.run(build, env=env, check=True, capture_output=True)
    (tmp_path / "resources_servers").symlink_to(ROOT / "resources_servers")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *WORDS], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = orjson.loads((tmp_path / "runs/bench/faults-payload.json").read_bytes())
    assert {name: figures[name] for name in ZERO} == dict.fromkeys(ZERO, 0)
    assert figures["right"] > 0
    assert figures["payload"]["payloads"] >= 4
