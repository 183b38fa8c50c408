"""Claims about the books of a run: no group lost or doubled, none too old, no more than there is room for."""

from typing import Any

import orjson
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from paddock.errors import BugError, ConfigError
from paddock.training.core.admission import GroupAdmission, RunningGroup
from paddock.training.core.buffer import ReplayBuffer
from paddock.training.core.ledger import Ledger, LostGroup
from paddock.training.core.order import RowOrder, all_rows
from paddock.training.core.records import Group
from paddock.training.core.settings import AgePolicyName, AsyncGrpoSettings, GroupSettings, GrpoSettings
from paddock.training.core.testing import group, member, sample


def retries(count: int, policy: AgePolicyName = "cancel") -> GroupSettings:
    return GroupSettings(max_retries=count, age_policy=policy)


def grpo(prompts: int, age: int) -> GrpoSettings:
    asynchronous = AsyncGrpoSettings(max_trajectory_age_steps=age)
    return GrpoSettings(
        num_prompts_per_step=prompts,
        max_num_epochs=2,
        async_grpo=asynchronous,
        use_dynamic_sampling=True,
        dynamic_sampling_max_gen_batches=2,
    )


def order(n_rows: int = 15) -> RowOrder:
    return RowOrder(all_rows(n_rows), seed=3, shuffle=True, max_epochs=2)


def end_group(started: RunningGroup, oldest: int | None = None) -> Group:
    version = started.version if oldest is None else oldest
    samples = [sample((("a", 2, 4, str(version)),))]
    whole = group(member(0, samples=samples), member(1, 0.0, samples=samples))
    return whole._replace(id=started.id, row=started.row, epoch=started.epoch, version=started.version)


def begin(ledger: Ledger, count: int) -> list[RunningGroup]:
    started = [ledger.begin() for _ in range(count)]
    return [one for one in started if one is not None]


class LedgerMachine(RuleBasedStateMachine):
    """Groups end in any order and at any time, steps are trained, weights sent, and the run is killed in between."""

    @initialize(
        prompts=st.integers(1, 3),
        age=st.integers(0, 3),
        again=st.integers(0, 2),
        policy=st.sampled_from(["target_step", "accept_late", "cancel"]),
    )
    def start(self, prompts: int, age: int, again: int, policy: AgePolicyName) -> None:
        self.grpo = grpo(prompts, age)
        self.groups = retries(again, policy)
        self.ledger = Ledger(self.grpo, order(), self.groups)
        self.lagged: set[int] = set()
        self.seen: dict[int, RunningGroup] = {}
        self.trained: dict[int, int] = {}
        self.lost: set[int] = set()
        self.n_late = self.n_skipped = 0
        self.sent = True
        self.store()

    @rule(most=st.integers(1, 12))
    def begin(self, most: int) -> None:
        for _ in range(most):
            started = self.ledger.begin()
            if started is None:
                return
            assert started.id not in self.seen
            assert started.version == self.ledger.version
            self.seen[started.id] = started

    @precondition(lambda self: self.ledger.running)
    @rule(places=st.lists(st.integers(0, 11), min_size=1, max_size=12), lag=st.sampled_from([0, 0, 0, 1]))
    def end(self, places: list[int], lag: int) -> None:
        for place in places:
            running = list(self.ledger.running.values())
            if running:
                started = running[place % len(running)]
                self.ledger.end(end_group(started, max(0, started.version - lag)))
                self.lagged |= {started.id} if lag else set()

    @precondition(lambda self: self.ledger.running)
    @rule(place=st.integers(0, 11), failed=st.booleans())
    def drop(self, place: int, failed: bool) -> None:
        running = list(self.ledger.running.values())
        ended = end_group(running[place % len(running)])
        if failed:
            ended = ended._replace(members=(member(0, None, outcome="infra"), member(1)))
        lost = self.ledger.drop(ended)
        self.lose(lost.id)
        assert lost.again is (failed and not self.is_last_try(lost))

    @precondition(lambda self: self.ledger.running and self.ledger.may_skip)
    @rule(place=st.integers(0, 11))
    def skip(self, place: int) -> None:
        running = list(self.ledger.running.values())
        lost = self.ledger.skip(end_group(running[place % len(running)]))
        assert (lost.why, lost.again, lost.reward) == ("no_advantage", False, 0.5)
        self.lose(lost.id)
        self.n_skipped += 1

    @precondition(lambda self: self.sent and self.ledger.ready)
    @rule()
    def train(self) -> None:
        step = self.ledger.step
        taken = self.ledger.take()
        assert taken is not None
        self.n_skipped = 0
        assert len(taken) == self.grpo.num_prompts_per_step
        for each in taken:
            late = step - each.oldest_version > self.grpo.max_age
            assert not late or self.groups.age_policy == "accept_late"
            self.n_late += late
            assert each.id not in self.trained
            self.trained[each.id] = step
        assert len(self.ledger.running) + len(self.ledger.waiting) <= self.grpo.max_age * len(taken)
        self.ledger.finish_step()
        self.sent = False
        self.give_up()

    @rule(slow=st.integers(0, 2), send=st.booleans())
    def whole_step(self, slow: int, send: bool) -> None:
        """What runs do most, but for the oldest that run on: without it few would get far, and none be slow."""
        self.begin(12)
        self.end([slow] * (len(self.ledger.running) - slow), 0)
        if self.sent and self.ledger.ready:
            self.train()
        if send:
            self.send()

    @rule()
    def give_up(self) -> None:
        for lost in self.ledger.give_up():
            assert lost.why in ("slow", "too_old")
            self.lose(lost.id)
            last = self.is_last_try(lost)
            assert lost.again is not last
            assert self.groups.age_policy != "accept_late"
            if (last or self.groups.age_policy == "target_step") and not self.lagged:
                raise AssertionError("a row is lost to its length")
        for started in self.ledger.running.values():
            young = self.ledger.step - started.version <= self.grpo.max_age
            assert young or self.groups.age_policy == "accept_late"

    @precondition(lambda self: not self.sent)
    @rule()
    def send(self) -> None:
        self.ledger.finish_sending()
        self.sent = True

    @precondition(lambda self: self.sent)
    @rule()
    def store(self) -> None:
        wire = orjson.dumps(self.ledger.to_wire())
        history = (dict(self.seen), dict(self.trained), set(self.lost), self.n_late, self.n_skipped)
        self.stored: tuple[Any, ...] = (wire, self.ledger.waiting.groups, *history)

    @precondition(lambda self: self.ledger.step > 1)
    @rule()
    def kill(self) -> None:
        wire, waiting, seen, trained, lost, self.n_late, self.n_skipped = self.stored
        self.ledger = Ledger.from_wire(orjson.loads(wire), waiting, grpo=self.grpo, order=order(), groups=self.groups)
        self.seen, self.trained, self.lost, self.sent = dict(seen), dict(trained), set(lost), True

    def turns(self, row: int, epoch: int) -> list[int]:
        """Groups of a row's turn, in order."""
        return [one for one, started in sorted(self.seen.items()) if (started.row, started.epoch) == (row, epoch)]

    def is_last_try(self, lost: LostGroup) -> bool:
        return self.turns(lost.row, lost.epoch).index(lost.id) == self.groups.max_retries

    def lose(self, group_id: int) -> None:
        assert group_id not in self.lost
        self.lost.add(group_id)

    @invariant()
    def each_group_is_at_one_place(self) -> None:
        places = [*self.ledger.running, *(each.id for each in self.ledger.waiting.groups), *self.trained, *self.lost]
        assert sorted(places) == list(range(self.ledger.n_started)) == sorted(self.seen)
        assert sum(self.ledger.lost.values()) == len(self.lost)
        assert (self.ledger.n_late, self.ledger.n_skipped) == (self.n_late, self.n_skipped)
        assert self.n_skipped <= self.grpo.num_prompts_per_step, "at most two batches are run for a step"
        assert self.ledger.n_trained == len(self.trained) == self.ledger.step * self.grpo.num_prompts_per_step

    @invariant()
    def no_more_than_there_is_room_for(self) -> None:
        prompts, age = self.grpo.num_prompts_per_step, self.grpo.max_age
        assert self.ledger.n_alive <= self.ledger.admission.capacity
        assert self.ledger.n_started <= (self.ledger.version + age + 1) * prompts + len(self.lost)

    @invariant()
    def rows_come_in_their_order(self) -> None:
        whole = order()
        first = list(dict.fromkeys((each.epoch, each.row) for _, each in sorted(self.seen.items())))
        assert first == [whole.take() for _ in first]
        for epoch, row in first:
            groups = self.turns(row, epoch)
            assert all(one in self.lost for one in groups[:-1]), "one at a time"
            assert len(groups) <= 1 + self.groups.max_retries


TestBooks = LedgerMachine.TestCase
TestBooks.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_room_is_for_a_step_s_groups_per_version_of_age() -> None:
    admission = GroupAdmission(num_prompts_per_step=4, max_age=2)
    assert admission.capacity == 12
    assert admission.room(step=0, version=0, alive=0) == 12
    assert admission.room(step=0, version=0, alive=11) == 1
    assert admission.room(step=1, version=0, alive=8) == 0, "trained, but not sent"
    assert admission.room(step=1, version=1, alive=8) == 4
    assert admission.room(step=0, version=0, alive=40) == 0


def test_on_policy_nothing_begins_before_weights_are_sent() -> None:
    ledger = Ledger(grpo(2, 0), order())
    first = [ledger.begin(), ledger.begin()]
    assert ledger.begin() is None
    for started in first:
        assert started is not None
        ledger.end(end_group(started))
    assert ledger.take() is not None
    assert ledger.begin() is None, "being trained on"
    ledger.finish_step()
    assert ledger.begin() is None, "not sent"
    ledger.finish_sending()
    started = ledger.begin()
    assert started is not None
    assert started.version == 1


def test_rows_that_are_used_up_starve_a_run() -> None:
    ledger = Ledger(grpo(2, 3), order(2))
    started = [ledger.begin() for _ in range(6)]
    assert started[4:] == [None, None]
    assert not ledger.starved
    for each in started[:3]:
        assert each is not None
        ledger.drop(end_group(each))
    assert ledger.starved


def test_waiting_groups_are_in_the_order_of_their_age() -> None:
    buffer = ReplayBuffer()
    for group_id, version in ((3, 1), (4, 0), (1, 2), (0, 2)):
        buffer.put(end_group(RunningGroup(group_id, 0, 0, version)))
    assert [each.id for each in buffer.groups] == [4, 3, 0, 1]
    assert [each.id for each in buffer.take(buffer.waiting[1:3])] == [3, 0]
    assert [each.id for each in buffer.groups] == [4, 1]


def test_the_oldest_token_counts() -> None:
    spans = (("a", 0, 2, "4"), ("a", 2, 4, "5"))
    buffer = ReplayBuffer([group(member(0, samples=[sample(spans)]), version=5)])
    assert [each.oldest_version for each in buffer.waiting] == [4]


def test_a_lost_row_is_tried_again_only_where_that_may_help() -> None:
    ledger = Ledger(grpo(4, 0), order(), retries(1, "target_step"))
    started = begin(ledger, 4)
    infra, leak = member(1, None, outcome="infra"), member(1, None, outcome="leak")
    members = [(leak,), (infra, leak), (member(0, None, outcome="cancelled"), leak), ()]
    ended = [end_group(one)._replace(members=those) for one, those in zip(started, members, strict=True)]
    assert [ledger.drop(each).again for each in ended] == [False, True, True, True]
    again = begin(ledger, 3)
    assert [(one.row, one.tries) for one in again] == [(each.row, 1) for each in ended[1:]]
    assert not ledger.drop(end_group(again[0])._replace(members=(infra,))).again, "once is as often as is asked for"


def test_a_checkpoint_of_the_version_before_goes_on() -> None:
    ledger = Ledger(grpo(2, 1), order(), retries(1))
    started = begin(ledger, 3)
    ledger.end(end_group(started[1]))
    wire = ledger.to_wire()
    del wire["n_late"]
    wire["running"] = [{k: v for k, v in fields.items() if k != "tries"} for fields in wire["running"]]
    wire["tries"] = [[started[0].id, 1], [started[1].id, 1]]
    again = Ledger.from_wire(wire, ledger.waiting.groups, grpo=grpo(2, 1), order=order(), groups=retries(1))
    assert [one.tries for one in again.running.values()] == [1, 0]
    assert [one.tries for one in again.waiting.waiting] == [1]


def test_a_group_ends_once() -> None:
    buffer = ReplayBuffer([group(member(0))])
    with pytest.raises(BugError, match="group 0 ended twice"):
        buffer.put(group(member(0)))


def test_a_run_goes_on_with_its_own_rows() -> None:
    wire = Ledger(grpo(1, 1), order(15)).to_wire()
    with pytest.raises(ConfigError, match="over 15 rows, the dataset has 14"):
        Ledger.from_wire(wire, [], grpo=grpo(1, 1), order=order(14))
