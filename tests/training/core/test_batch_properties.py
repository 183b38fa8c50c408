"""Claims about any batch: masked is masked, a failure teaches nothing, and every member's end is accounted for."""

import random
from statistics import fmean

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paddock.training.core.metrics import batch_metrics
from paddock.training.core.records import Flaw, Group, Member
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.core.testing import FAILED_OUTCOMES, as_lists, batch, group, member, sample

REWARDS = st.sampled_from([0.0, 0.25, 1.0])
VERSIONS = st.sampled_from(["0", "1", "2", "9", None])


@st.composite
def members(draw: st.DrawFn, nth: int) -> Member:
    if draw(st.integers(0, 3)) == 0:
        return member(nth, None, outcome=draw(st.sampled_from(FAILED_OUTCOMES)))
    parts = [
        sample(
            [("a", 1, 3, draw(VERSIONS)), ("b", 4, 6, draw(VERSIONS))],
            index=index,
            length=draw(st.sampled_from([6, 20])),
            cut=draw(st.booleans()),
            trained=draw(st.integers(0, 4)) > 0,
        )
        for index in range(draw(st.integers(0, 2)))
    ]
    flaws = [Flaw(draw(st.sampled_from("ab")), "invalid_tool_call")] if draw(st.booleans()) else []
    return member(nth, draw(REWARDS), samples=parts, flaws=flaws)


@st.composite
def groups(draw: st.DrawFn) -> list[Group]:
    sizes = draw(st.lists(st.integers(0, 5), max_size=3))
    return [
        group(*(draw(members(nth)) for nth in range(size)), group_id=number, size=5)
        for number, size in enumerate(sizes)
    ]


SETTINGS = st.builds(
    GrpoSettings,
    overlong_filtering=st.booleans(),
    normalize_rewards=st.booleans(),
    use_leave_one_out_baseline=st.booleans(),
    invalid_tool_call_strategy=st.sampled_from(["mask", ""]),
)


@given(groups(), SETTINGS)
def test_every_verdict_of_a_kept_group_is_trained_on_or_masked_with_a_reason(
    some: list[Group], grpo: GrpoSettings
) -> None:
    found = batch(*some, grpo=grpo, max_length=10)
    trained = {(row.group, row.member) for row in found.rows}
    told = {(one.group, one.member) for one in found.masked}
    for one in some:
        for each in one.members:
            place = (one.id, each.nth)
            if each.reward is None:
                assert place in told - trained
            elif one.id in found.dropped:
                assert place not in trained
            else:
                assert place in trained | told


@given(groups(), SETTINGS)
def test_only_what_is_proven_known_and_short_enough_is_trained_on(some: list[Group], grpo: GrpoSettings) -> None:
    found = batch(*some, grpo=grpo, max_length=10)
    there = {one.id: {each.nth: each for each in one.members} for one in some}
    for row in found.rows:
        own = there[row.group][row.member]
        given_sample = own.samples[row.sample]
        assert row.reward == own.reward
        assert len(row.ids) <= 10
        assert not (grpo.overlong_filtering and given_sample.cut)
        on = np.flatnonzero(row.loss_mask).tolist()
        assert on == [at for span in row.versions for at in range(span.start, span.end)]
        assert on
        assert all(given_sample.loss_mask[at] for at in on)
        assert all(span.version in (0, 1, 2) for span in row.versions)
        assert all(row.advantages[at] == 0 == row.generation_log_probs[at] for at in range(6) if at not in on)


@given(groups(), SETTINGS)
def test_members_without_a_verdict_change_no_row(some: list[Group], grpo: GrpoSettings) -> None:
    without = [one._replace(members=tuple(each for each in one.members if each.reward is not None)) for one in some]
    assert as_lists(batch(*some, grpo=grpo).rows) == as_lists(batch(*without, grpo=grpo).rows)


@given(groups(), SETTINGS)
def test_masked_tokens_keep_their_verdict_in_the_baseline(some: list[Group], grpo: GrpoSettings) -> None:
    """What a member's tokens become changes no other member's advantage."""
    found = batch(*some, grpo=grpo, max_length=10)
    bare = [one._replace(members=tuple(each._replace(samples=()) for each in one.members)) for one in some]
    for number, one in enumerate(some):
        for nth, each in enumerate(one.members):
            alone = list(bare[number].members)
            alone[nth] = each
            expected = batch(one._replace(members=tuple(alone)), grpo=grpo, max_length=10).rows
            rows = [row for row in found.rows if (row.group, row.member) == (one.id, each.nth)]
            assert as_lists(rows) == as_lists(expected)


@given(groups())
def test_a_failure_enters_no_mean(some: list[Group]) -> None:
    found = batch_metrics(batch(*some))
    rewards = [each.reward for one in some for each in one.members if each.reward is not None]
    assert found.get("train/total_reward/mean") == (fmean(rewards) if rewards else None)


def test_with_a_fifth_of_rollouts_failing_the_others_learn_as_in_a_smaller_group() -> None:
    draw = random.Random(7)

    def member_of_group(nth: int) -> Member:
        if draw.random() < 0.2:
            return member(nth, None, outcome=draw.choice(["infra", "verifier"]))
        return member(nth, float(draw.random() < 0.3))

    broken = [[member_of_group(nth) for nth in range(8)] for _ in range(64)]
    smaller = [[each for each in one if each.reward is not None] for one in broken]
    failed = sum(each.reward is None for one in broken for each in one)
    assert 60 < failed < 145
    found = batch(*(group(*one, group_id=number) for number, one in enumerate(broken)))
    alone = batch(*(group(*one, group_id=number) for number, one in enumerate(smaller)))
    assert as_lists(found.rows) == as_lists(alone.rows)
    assert len(found.masked) == failed
    assert {one.reason for one in found.masked} == {"infra", "verifier"}
    assert batch_metrics(found)["train/total_reward/mean"] == batch_metrics(alone)["train/total_reward/mean"]


@given(groups())
def test_dropped_is_whom_too_few_verdicts_are_left_of(some: list[Group]) -> None:
    for settings in (GroupSettings(), GroupSettings(repair="drop"), GroupSettings(min_members=4)):
        dropped = batch(*some, settings=settings).dropped
        for one in some:
            verdicts = sum(each.reward is not None for each in one.members)
            needed = 5 if settings.repair == "drop" else settings.min_members
            assert (one.id in dropped) == (verdicts < needed)
