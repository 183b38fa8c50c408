"""The claim that the loop learns, and that it would be seen if it did not: with the sign of the advantage turned, or
rewards drawn anew within groups, the same test fails.
"""

import json
from pathlib import Path

import pytest
import yaml
from tests.e2e.learning import runs

from paddock.cli import main

STEPS = 100
ROOMS_STEPS = 120
MODES = ("whole", "dynamic_history")
CONTROLS = ("turned", "shuffled")
pytestmark = [pytest.mark.vllm, pytest.mark.timeout(2 * runs.RUN_S)]


def test_the_statistic_is_that_of_its_source() -> None:
    """Against the exact distribution: of the 252 ways to draw 5 of 10 ranks one has the five highest."""
    low, high = [1.0, 2, 3, 4, 5], [6.0, 7, 8, 9, 10]
    assert runs.p_of_rise(low, high) == pytest.approx(1 / 252, abs=3e-3)
    assert runs.p_of_rise(high, low) == pytest.approx(1, abs=1e-2)
    assert runs.p_of_rise([1.0] * 5, [1.0] * 5) == 0.5


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight rows of three rooms, and a model that takes any door."""
    folder = tmp_path_factory.mktemp("rooms")
    runs.call("-m", "tests.e2e.learning.driver", "--make-rooms", folder)
    return folder


@pytest.mark.long
def test_an_answer_of_the_demonstration_ends_with_its_call(small_task: Path) -> None:
    tokenizer = json.loads((small_task / "model" / "tokenizer.json").read_text())
    ends = [token["id"] for token in tokenizer["added_tokens"] if token["content"] == "</tool_call>"]
    config = yaml.safe_load((runs.ROOT / "configs" / "train_demo.yaml").read_text())
    assert config["policy"]["generation"]["stop_token_ids"] == ends


@pytest.mark.long
def test_the_reward_rises(small_task: Path, tmp_path: Path) -> None:
    runs.train(tmp_path / "run", *runs.SMALL, *runs.data(small_task), f"grpo.max_num_steps={STEPS}")
    assert runs.rise(tmp_path / "run") < 0.01, runs.rewards(tmp_path / "run")
    assert main(["samples", "check", str(tmp_path / "run")]) == 0


@pytest.mark.long
@pytest.mark.parametrize("control", CONTROLS)
def test_without_what_is_learnt_from_it_does_not(small_task: Path, tmp_path: Path, control: str) -> None:
    out = tmp_path / control
    runs.train(out, *runs.SMALL, *runs.data(small_task), f"grpo.max_num_steps={STEPS}", control=control)
    assert runs.rise(out) >= 0.01, runs.rewards(out)


def train_in_rooms(out: Path, rooms: Path, mode: str, control: str = "none") -> None:
    steps, samples = f"grpo.max_num_steps={ROOMS_STEPS}", f"+paddock.groups.sample_mode={mode}"
    runs.train(out, *runs.ROOMS, *runs.data(rooms), steps, samples, control=control)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_a_task_of_several_turns_is_learnt_from_its_end(rooms: Path, tmp_path: Path, mode: str) -> None:
    out = tmp_path / mode
    train_in_rooms(out, rooms, mode)
    found, turns = runs.rewards(out), runs.lines(out)[-1]["metrics"]["train/turns_per_sample/mean"]
    assert turns == pytest.approx(3, abs=0.2)
    assert runs.mean(found[: runs.ENDS]) <= 0.25, found
    assert runs.mean(found[-runs.ENDS :]) >= 0.6, found
    assert runs.rise(out) < 0.01, found


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("control", CONTROLS)
def test_nor_is_one_of_several_turns(rooms: Path, tmp_path: Path, control: str, mode: str) -> None:
    out = tmp_path / control
    train_in_rooms(out, rooms, mode, control)
    assert runs.rise(out) >= 0.01, runs.rewards(out)
