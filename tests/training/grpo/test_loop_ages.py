"""Claims about groups that take long in a whole loop: waited for, trained on late, or cancelled, as the policy says."""

import pytest
from tests.training.grpo.scripted_loop import STEPS, LoopRun, settings, slow

from paddock.training.core.settings import GroupSettings
from paddock.training.grpo.loop_records import LoopSettings

CANCEL = GroupSettings(age_policy="cancel")
LATE = GroupSettings(age_policy="accept_late")
NONE_LOST = {"slow": 0, "too_old": 0, "dropped": 0, "no_advantage": 0}


@pytest.mark.parametrize("given", [settings(2), settings(2, in_flight=False)])
def test_a_slow_group_is_waited_for_by_its_step(given: LoopSettings) -> None:
    one = LoopRun(given, seconds=slow({1, 4}, 1000.0))
    ended = one.run()
    assert (ended.steps, ended.lost) == (STEPS, NONE_LOST)
    assert one.groups() == [[2 * step, 2 * step + 1] for step in range(STEPS)]
    assert one.world.at("train", 0) == 1000.0
    assert max(one.ages()) == 2


def test_what_is_late_is_trained_on_and_counted_where_it_is_accepted() -> None:
    quick, late = LoopRun(settings()), LoopRun(settings(groups=LATE), seconds=slow({1}, 3.5))
    quick.run()
    ended = late.run()
    assert (ended.steps, ended.lost) == (STEPS, NONE_LOST)
    assert late.world.at("trained", STEPS - 1) <= quick.world.at("trained", STEPS - 1) + 1
    assert [group for groups in late.groups() for group in groups].count(1) == 1
    assert max(late.ages()) > 1
    assert late.told[-1].metrics["buffer/late"] == 1.0
    assert quick.told[-1].metrics["buffer/late"] == 0.0


def test_a_slow_group_that_is_cancelled_holds_nobody_back() -> None:
    quick, held = LoopRun(settings()), LoopRun(settings(groups=CANCEL), seconds=slow({1, 4}, 1000.0))
    quick.run()
    ended = held.run()
    assert ended.steps == STEPS
    assert held.world.at("trained", STEPS - 1) <= quick.world.at("trained", STEPS - 1) + 4
    assert ended.lost == {"slow": 2, "too_old": 0, "dropped": 0, "no_advantage": 0}
    assert [(lost.id, lost.why) for told in held.told for lost in told.lost] == [(1, "slow"), (4, "slow")]
    assert held.world.of("cancel")[:2] == [1, 4]
    assert held.told[-1].metrics["buffer/retried"] == 2.0
    for one in held.told:
        assert ("lost/slow_s/mean" in one.metrics) is bool(one.lost)
        assert all(lost.again and lost.seconds == one.metrics["lost/slow_s/mean"] for lost in one.lost)
    rows = [group.row for batch in held.policy.batches for group in batch.groups]
    assert {lost.row for one in held.told for lost in one.lost} <= set(rows), "they were begun again"
    assert not {1, 4} & {group for groups in held.groups() for group in groups}


def test_a_group_is_given_up_as_soon_as_no_step_can_take_it() -> None:
    one = LoopRun(settings(2, groups=CANCEL), seconds=slow({0}, 1000.0))
    one.run()
    assert one.world.at("cancel", 0) == one.world.at("trained", 2)


def test_waiting_does_not_wait_for_what_will_be_too_old() -> None:
    one = LoopRun(settings(1, in_flight=False, groups=CANCEL), seconds=slow({1}, 1000.0))
    ended = one.run()
    # It still is of use to step 1, and so it is waited for before weights 1 are sent.
    assert one.world.at("send", 1) == 1000.0
    never = LoopRun(settings(0, in_flight=False, groups=CANCEL), seconds=slow({1}, 1000.0))
    assert never.run().steps == ended.steps == STEPS
