"""Claims about the table of sampled rollouts: which there are, and what is on a line of it."""

import random
from pathlib import Path

import pytest

from paddock.training.core.records import Batch, Group, Member
from paddock.training.grpo.config import LoggerConfig
from paddock.training.grpo.sample_table import RolloutLinks, markdown_table, sample_rollouts


def batch(step: int, groups: int = 4) -> Batch:
    members = (Member(0, "completed", 0.5, reason="match", agent="a", turns=2), Member(1, "infra", None, reason="lost"))
    return Batch(step, [], [], [Group(100 + nth, nth, 0, members, 2, 0) for nth in range(groups)], [])


def test_samples_are_the_same_for_a_step_that_comes_again_and_others_for_another() -> None:
    links = RolloutLinks(None, Path("runs/mine"))
    random.seed(1)
    first = sample_rollouts(batch(7, 50), 8, links)
    random.seed(2)
    assert sample_rollouts(batch(7, 50), 8, links) == first
    assert sample_rollouts(batch(8, 50), 8, links) != first
    assert len({sample.rollout for sample in first}) == 8


def test_a_step_of_few_rollouts_has_them_all_failures_too() -> None:
    samples = sample_rollouts(batch(0, 2), 8, RolloutLinks(None, Path("runs/mine")))
    assert [(one.rollout, one.outcome, one.reward) for one in samples] == [
        ("100-0", "completed", 0.5),
        ("100-1", "infra", None),
        ("101-0", "completed", 0.5),
        ("101-1", "infra", None),
    ]


def test_without_an_address_a_line_has_the_command_that_shows_the_rollout() -> None:
    samples = sample_rollouts(batch(0, 1), 8, RolloutLinks(None, Path("runs/my run")))
    assert samples[0].link == "paddock show 'runs/my run' 100-0"
    assert markdown_table(samples).splitlines()[2].endswith("| `paddock show 'runs/my run' 100-0` |")


def test_names_are_shown_as_they_are() -> None:
    sample = sample_rollouts(batch(0, 1), 1, RolloutLinks("http://host", Path("runs/a")))[0]
    line = markdown_table([sample._replace(row="a|b_[x](javascript:1)<img>`", reason="*")]).splitlines()[2]
    assert r"| a\|b\_\[x\](javascript:1)\<img\>\` |" in line and r"| \* |" in line


@pytest.mark.parametrize("wrong", ["localhost:7000", "http://host/#token=secret", "javascript:alert(1)"])
def test_an_address_is_one_and_has_no_token(wrong: str) -> None:
    with pytest.raises(ValueError, match="view_url"):
        LoggerConfig(view_url=wrong)
