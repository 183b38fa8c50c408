"""Claims about advantages by a teacher's log-probs."""

import numpy as np
import pytest

from paddock.training.core.distillation import DistillationSettings
from paddock.training.core.metrics import batch_metrics
from paddock.training.core.records import MemberSample
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.core.testing import batch, group, member, sample

ALONE = DistillationSettings(coefficient=0.5)
ADDED = DistillationSettings(coefficient=0.5, with_rewards=True)
GRPO = GrpoSettings(normalize_rewards=False)


def scored(*theirs: float) -> MemberSample:
    """Six ids, of which those at 2 and 3 are trained on; the policy's log-prob of each is -0.25."""
    return sample()._replace(teacher_log_probs=np.array(theirs, np.float32))


NEAR, FAR = scored(9, 9, -0.25, -1.25, 9, 9), scored(9, 9, -0.05, -4.25, 9, 9)


def test_alone_the_advantage_is_the_coefficient_times_how_much_likelier_the_teacher_holds_the_token() -> None:
    members = [member(0, 1.0, samples=[NEAR]), member(1, 0.0, samples=[FAR])]
    made = batch(group(*members), grpo=GRPO, distillation=ALONE)
    assert [row.advantages.tolist() for row in made.rows] == [
        pytest.approx([0, 0, 0, -0.5, 0, 0]),
        pytest.approx([0, 0, 0.1, -2.0, 0, 0]),
    ]
    assert [row.reward for row in made.rows] == [1.0, 0.0], "rewards are measured all the same"


def test_added_to_the_rewards_each_token_has_both() -> None:
    members = [member(0, 1.0, samples=[NEAR]), member(1, 0.0, samples=[FAR])]
    made = batch(group(*members), grpo=GRPO, distillation=ADDED)
    assert [row.advantages.tolist() for row in made.rows] == [
        pytest.approx([0, 0, 1, 0.5, 0, 0]),
        pytest.approx([0, 0, -0.9, -3.0, 0, 0]),
    ]


@pytest.mark.parametrize(("settings", "second"), [(ALONE, [0.1, -1.5]), (ADDED, [-0.9, -1.5])])
def test_bounds_of_advantages_hold_for_a_teachers_too(settings: DistillationSettings, second: list[float]) -> None:
    """A token that the teacher holds for impossible has an advantage of -10 and less, which outweighs all others."""
    grpo = GrpoSettings(normalize_rewards=False, advantage_clip_low=-1.5, advantage_clip_high=0.5)
    members = [member(0, 1.0, samples=[NEAR]), member(1, 0.0, samples=[FAR])]
    made = batch(group(*members), grpo=grpo, distillation=settings)
    assert made.rows[1].advantages.tolist() == pytest.approx([0, 0, *second, 0, 0])
    assert made.rows[0].advantages.max() <= 0.5


def test_a_sample_that_no_teacher_scored_is_masked_and_moves_no_other() -> None:
    members = [member(0, 1.0, samples=[NEAR]), member(1, 0.0, samples=[sample()])]
    made = batch(group(*members), grpo=GRPO, distillation=ADDED)
    assert [(row.member, row.advantages.tolist()) for row in made.rows] == [(0, pytest.approx([0, 0, 1, 0.5, 0, 0]))]
    assert [(entry.member, entry.reason) for entry in made.masked] == [(1, "teacher_failed")]
    assert batch_metrics(made)["train/masked/teacher_failed"] == 1


def test_without_distillation_scores_change_nothing() -> None:
    with_scores, without = (batch(group(member(0, 1.0, samples=[one]), member(1, 0.0))) for one in (NEAR, sample()))
    assert [row.advantages.tolist() for row in with_scores.rows] == [row.advantages.tolist() for row in without.rows]


def test_a_group_of_one_is_enough_for_a_teacher() -> None:
    grpo = GrpoSettings(num_generations_per_prompt=1, use_leave_one_out_baseline=False)
    made = batch(
        group(member(0, 0.0, samples=[FAR])), grpo=grpo, settings=GroupSettings(min_members=1), distillation=ALONE
    )
    assert [row.advantages.tolist() for row in made.rows] == [pytest.approx([0, 0, 0.1, -2.0, 0, 0])]


def test_the_distance_from_the_teacher_is_measured_over_trained_tokens() -> None:
    members = [member(0, 1.0, samples=[NEAR]), member(1, 0.0, samples=[FAR])]
    measured = batch_metrics(batch(group(*members), distillation=ALONE))
    assert measured["train/teacher/reverse_kl"] == pytest.approx((0 + 1 - 0.2 + 4) / 4)
    assert "train/teacher/reverse_kl" not in batch_metrics(batch(group(member(0), member(1))))
