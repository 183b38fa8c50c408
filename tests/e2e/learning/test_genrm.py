"""The claim that the loop learns what a judge prefers, from groups whose members are compared with each other alone.

Two of the small task's four calls are on the parser, so that half of a beginner's calls are. Rewards say nothing of
that by themselves: their mean over a group stays where it is. What is counted is what the policy did.
"""

import json
from pathlib import Path

import pytest
from tests.e2e.learning import runs

from paddock.cli import main

STEPS = 60
PREFERRED = "parser"
BEGINNER = 2
"""First steps, of a policy that has learned nothing yet, whatever the machine's speed: 128 calls."""
pytestmark = [pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(2 * runs.RUN_S)]


def test_what_the_judge_prefers_becomes_frequent(small_task: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    state = f"+env.nemo_gym.genrm.resources_servers.genrm.state_dir={tmp_path / 'state'}"
    runs.train(out, "tests/e2e/learning/genrm.yaml", *runs.data(small_task), state, f"grpo.max_num_steps={STEPS}")
    assert main(["samples", "check", str(out)]) == 0
    found = rates(out)
    assert runs.mean(found[:BEGINNER]) < 0.65, found
    assert runs.mean(found[-runs.ENDS :]) > 0.85, found
    # It went away from the model that it began with, and the KL term was there to see it.
    assert runs.lines(out)[-1]["metrics"]["train/kl_penalty"] > 0


def rates(out: Path) -> list[float]:
    """Of each step's rollouts, how many did what the judge prefers."""
    lines = (out / "rollouts.jsonl").read_text().splitlines()
    preferred = [PREFERRED in json.dumps(json.loads(line)["response"]["output"]) for line in lines]
    size = 4 * 16
    return [runs.mean(preferred[start : start + size]) for start in range(0, len(preferred) - size + 1, size)]
