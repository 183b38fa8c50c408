"""Claims about rows whose groups take long: by default each is trained on as much as any other."""

import pytest
from benchmarks.training.ages import AGES, CASES, STEPS, AgesCase, AgesRun

from paddock.training.core.admission import GroupAdmission, RunningGroup
from paddock.training.core.age_policies import AcceptLate, Cancel, TargetStep
from paddock.training.core.buffer import ReplayBuffer, WaitingGroup
from paddock.training.core.ledger import Ledger, LostGroup
from paddock.training.core.order import RowOrder, all_rows
from paddock.training.core.records import Group, Member
from paddock.training.core.settings import AgePolicyName, AsyncGrpoSettings, GroupSettings, GrpoSettings

TOLERANCE = 0.02
"""The largest difference of the shares of the slowest fifth of the groups, and of the others, that is trained on."""


def end_group(begun: RunningGroup) -> Group:
    members = (Member(0, "completed", 1.0), Member(1, "completed", 0.0))
    return Group(begun.id, begun.row, begun.epoch, members, 16, begun.version)


@pytest.mark.parametrize("age", AGES)
@pytest.mark.parametrize("case", CASES)
def test_by_default_slow_groups_are_trained_on_as_much_as_others(case: AgesCase, age: int) -> None:
    run = AgesRun(GroupSettings().age_policy, age, case)
    run.run()
    figures = run.figures()
    assert abs(figures.lost_slowest_fifth - figures.lost_others) <= TOLERANCE
    assert (figures.lost, figures.wasted, figures.late) == (0, 0, 0)
    assert figures.trained_s == figures.started_s


@pytest.mark.parametrize("case", CASES)
def test_the_measure_shows_a_policy_that_loses_the_slow_ones(case: AgesCase) -> None:
    run = AgesRun("cancel", 1, case)
    run.run()
    figures = run.figures()
    assert figures.lost_slowest_fifth - figures.lost_others > 10 * TOLERANCE
    assert figures.trained_s < figures.started_s


def test_late_groups_are_taken_and_counted() -> None:
    run = AgesRun("accept_late", 1, CASES[0])
    run.run()
    assert (run.lost, run.figures().lost) == ([], 0)
    assert 0.1 < run.figures().late < 0.3
    waiting = AgesRun("target_step", 1, CASES[0])
    waiting.run()
    assert run.figures().steps_per_hour > 1.5 * waiting.figures().steps_per_hour


def test_each_step_has_the_rows_that_were_drawn_for_it() -> None:
    run = AgesRun("target_step", 4, CASES[0])
    run.run(20)
    assert [group.id for group in run.trained] == list(range(20 * 16))


@pytest.mark.parametrize("retries", [0, 1, 2])
@pytest.mark.parametrize("policy", ["target_step", "accept_late", "cancel"])
@pytest.mark.parametrize("case", CASES)
def test_no_row_of_an_epoch_is_lost_to_its_length(case: AgesCase, policy: AgePolicyName, retries: int) -> None:
    run = AgesRun(policy, 1, case, retries=retries, rows=400)
    run.run()
    turns = [(group.epoch, group.row) for group in run.trained]
    assert len(turns) == len(set(turns)) == STEPS * 16
    there = {*turns, *((begun.epoch, begun.row) for begun in run.ledger.running.values())}
    there |= {(group.epoch, group.row) for group in run.ledger.waiting.groups}
    there |= {(each.epoch, each.row) for each in run.ledger.retries}
    assert there == {(begun.epoch, begun.row) for begun in run.started.values()}
    assert run.ledger.n_retries == sum(run.ledger.lost.values()) == len(run.lost)
    assert bool(run.lost) is (policy == "cancel" and retries > 0)


def test_what_is_waited_for_is_the_last_group_of_a_row() -> None:
    order = RowOrder(all_rows(9), seed=0, shuffle=False, max_epochs=1)
    grpo = GrpoSettings(num_prompts_per_step=1, async_grpo=AsyncGrpoSettings(max_trajectory_age_steps=1))
    ledger = Ledger(grpo, order, GroupSettings(age_policy="cancel", max_retries=1))
    ledger.finish_sending()
    first = ledger.begin()
    assert first is not None
    lost = [one for _ in range(2) for one in quick_step(ledger)]
    assert [(one.id, one.row, one.why, one.again) for one in lost] == [(first.id, 0, "slow", True)]
    second = ledger.begin()
    assert second is not None and (second.row, second.version, second.tries) == (0, 2, 1)
    assert quick_step(ledger) == []
    quick = ledger.begin()
    assert quick is not None
    ledger.end(end_group(quick))
    assert not ledger.ready and ledger.take() is None, "after this step it would be too old"
    ledger.end(end_group(second))
    assert [group.row for group in ledger.take() or []] == [0]


def quick_step(ledger: Ledger) -> list[LostGroup]:
    """A step on a group that ends at once."""
    quick = ledger.begin()
    assert quick is not None
    ledger.end(end_group(quick))
    assert ledger.take() is not None
    ledger.finish_step()
    lost = ledger.give_up()
    ledger.finish_sending()
    return lost


ADMISSION = GroupAdmission(num_prompts_per_step=2, max_age=1)


def running(group_id: int, version: int, tries: int = 0) -> RunningGroup:
    return RunningGroup(group_id, 0, 0, version, tries)


def waiting(*groups: tuple[int, int]) -> list[WaitingGroup]:
    """Of pairs of id and version, in the buffer's order."""
    return ReplayBuffer(end_group(running(*group)) for group in groups).waiting


def ids(chosen: "list[WaitingGroup] | tuple[WaitingGroup, ...] | None") -> list[int] | None:
    return None if chosen is None else [group.id for group in chosen]


def test_a_step_takes_the_first_that_started_once_they_have_ended() -> None:
    policy = TargetStep(ADMISSION)
    ended = waiting((1, 0), (3, 1), (4, 1))
    assert policy.choose(0, [running(2, 0)], ended) is None, "3 and 4 are of the next step"
    assert ids(list(policy.choose(0, [running(5, 1)], ended) or [])) == [1, 3], "2 was lost, and 3 takes its place"
    assert policy.choose(0, [], ended[:1]) is None
    assert not policy.usable(0, 2)


def test_late_ones_come_first_where_they_are_accepted() -> None:
    policy = AcceptLate(ADMISSION)
    assert ids(list(policy.choose(7, [running(2, 0)], waiting((3, 6), (1, 0), (4, 6))) or [])) == [1, 3]
    assert policy.choose(7, [], waiting((1, 0))) is None
    assert policy.usable(0, 7)


def test_where_long_ones_are_cancelled_the_last_try_is_waited_for() -> None:
    policy = Cancel(ADMISSION, max_retries=1)
    ended = waiting((1, 1), (2, 1))
    assert policy.choose(1, [running(0, 0)], ended) is not None
    assert policy.choose(1, [running(0, 0, tries=1)], ended) is None
    assert policy.choose(0, [running(0, 0, tries=1)], ended) is not None, "the next step can take it"
