"""What `measure_token_advantages.py` found where torch is: the advantages that are trained on."""

import json
import os
import subprocess
from pathlib import Path
from statistics import fmean, pvariance
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def cases(vllm_python: str) -> Any:
    command = [vllm_python, str(HERE / "measure_token_advantages.py")]
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def tokens(case: Any) -> list[float]:
    return [value for row in case["advantages"].values() for value in row]


@pytest.mark.parametrize("name", ["plain", "masked", "token", "reward_to_go"])
def test_reinforce_plus_plus_is_normalised_over_the_tokens_that_are_trained_on(cases: Any, name: str) -> None:
    case = cases[name]
    assert fmean(tokens(case)) == pytest.approx(0, abs=1e-6)
    assert pvariance(tokens(case)) == pytest.approx(1, abs=1e-5)
    assert case["elsewhere"] == 0
    assert case["metrics"]["train/advantages/mean"] == pytest.approx(0, abs=1e-6)
    assert case["metrics"]["train/advantages/max"] == pytest.approx(max(tokens(case)))


def test_a_row_that_disagrees_has_no_part_in_the_mean(cases: Any) -> None:
    assert cases["masked"]["masked"] == [0]
    assert "0" not in cases["masked"]["advantages"]
    assert all(row != cases["plain"]["advantages"][nth] for nth, row in cases["masked"]["advantages"].items())


@pytest.mark.parametrize("name", ["token", "reward_to_go"])
def test_the_kl_is_taken_off_each_tokens_reward(cases: Any, name: str) -> None:
    """k1 times 0.5 is 0.05 times a token's place in its row."""
    case = cases[name]
    charged: list[float] = []
    for raw, n in zip(case["raw"], case["tokens"], strict=True):
        off = [0.05 * at for at in range(1, n + 1)]
        charged += [raw - (sum(off[at:]) if name == "reward_to_go" else off[at]) for at in range(n)]
    scale = pvariance(charged) ** 0.5
    assert tokens(case) == pytest.approx([(value - fmean(charged)) / scale for value in charged], abs=1e-5)
    off = [0.05 * at for n in case["tokens"] for at in range(1, n + 1)]
    assert case["metrics"]["train/kl_in_reward"] == pytest.approx(fmean(off), rel=1e-5)
    assert case["references"] == 1


def test_a_critic_is_given_the_kl(cases: Any) -> None:
    case = cases["critic"]
    given = [case["metrics"][f"returns/{nth}"] for nth in range(len(case["tokens"]))]
    assert given == pytest.approx([0.05 * n * (n + 1) / 2 for n in case["tokens"]], rel=1e-5)


def test_advantages_of_a_group_stay_as_they_are(cases: Any) -> None:
    case = cases["grpo"]
    assert [row[0] for row in case["advantages"].values()] == case["raw"]
    assert not [name for name in case["metrics"] if "advantages" in name or "kl_in_reward" in name]
    assert case["references"] == 0
