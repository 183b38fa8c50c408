"""Claims about rows whose groups take long: each is trained on, however long it takes, and the counts tell the cost."""

import heapq
import math
import random
from typing import NamedTuple

import pytest

from paddock.training.core.ledger import Ledger, LostGroup, RunningGroup
from paddock.training.core.order import RowOrder, all_rows
from paddock.training.core.records import Group, Member
from paddock.training.core.settings import AsyncGrpoSettings, GroupSettings, GrpoSettings

ROWS, PROMPTS, SIZE, STEPS = 400, 16, 16, 100


def end_group(begun: RunningGroup) -> Group:
    members = (Member(0, "completed", 1.0), Member(1, "completed", 0.0))
    return Group(begun.id, begun.row, begun.epoch, members, SIZE, begun.version)


class LedgerRun:
    """Books in a clock of their own: a group takes as long as the longest of its members, whose time is log-normal
    around 600 s times what is its row's own."""

    def __init__(self, age: int, *, retries: int, train_s: float, spread_of_rows: float) -> None:
        self.draw = random.Random(0)
        self.hard = [math.exp(self.draw.gauss(0, spread_of_rows)) for _ in range(ROWS)]
        asynchronous = AsyncGrpoSettings(max_trajectory_age_steps=age, in_flight_weight_updates=True)
        grpo = GrpoSettings(num_prompts_per_step=PROMPTS, max_num_epochs=99, async_grpo=asynchronous)
        order = RowOrder(all_rows(ROWS), seed=0, shuffle=True, max_epochs=99)
        self.ledger = Ledger(grpo, order, GroupSettings(max_age_retries=retries))
        self.now = 0.0
        self.ends: list[tuple[float, int]] = []
        self.begun: dict[int, RunningGroup] = {}
        self.trained: list[Group] = []
        self.lost: list[LostGroup] = []
        self.train_s = train_s

    def run(self) -> None:
        self.ledger.finish_sending()
        self.fill()
        while self.ledger.step < STEPS:
            while not self.ledger.ready:
                self.until(self.ends[0][0])
            self.trained += self.ledger.take() or []
            self.until(self.now + self.train_s)
            self.ledger.finish_step()
            self.lost += self.ledger.give_up()
            self.ledger.finish_sending()
            self.fill()

    def fill(self) -> None:
        while (begun := self.ledger.begin()) is not None:
            longest = max(math.exp(self.draw.gauss(0, 0.5)) for _ in range(SIZE))
            self.begun[begun.id] = begun
            heapq.heappush(self.ends, (self.now + 600 * self.hard[begun.row] * longest, begun.id))

    def until(self, at: float) -> None:
        while self.ends and self.ends[0][0] <= at:
            self.now, group_id = heapq.heappop(self.ends)
            if group_id in self.ledger.running:
                self.ledger.end(end_group(self.begun[group_id]))
            self.fill()
        self.now = at


class AgesCase(NamedTuple):
    age: int
    train_s: float
    spread_of_rows: float


CASES = [
    AgesCase(1, 300, 0.5),
    AgesCase(2, 300, 0.5),
    AgesCase(4, 300, 0.5),
    AgesCase(1, 1000, 0.7),
    AgesCase(1, 300, 0.0),
]


@pytest.mark.parametrize("retries", [0, 1, 2])
@pytest.mark.parametrize("case", CASES)
def test_no_row_of_an_epoch_is_lost_to_its_length(case: AgesCase, retries: int) -> None:
    run = LedgerRun(case.age, retries=retries, train_s=case.train_s, spread_of_rows=case.spread_of_rows)
    run.run()
    turns = [(group.epoch, group.row) for group in run.trained]
    assert len(turns) == len(set(turns)) == STEPS * PROMPTS
    there = {*turns, *((begun.epoch, begun.row) for begun in run.ledger.running.values())}
    there |= {(group.epoch, group.row) for group in run.ledger.waiting.groups}
    there |= {(each.epoch, each.row) for each in run.ledger.retries}
    assert there == {(begun.epoch, begun.row) for begun in run.begun.values()}
    assert {(0, row) for row in range(ROWS)} <= set(turns)
    assert all(one.again for one in run.lost)
    assert (run.ledger.n_retries, sum(run.ledger.lost.values())) == (len(run.lost), len(run.lost))
    assert bool(run.lost) is (retries > 0)
    assert {one.why for one in run.lost} <= {"slow", "too_old"}


def test_what_is_waited_for_is_the_last_group_of_a_row() -> None:
    order = RowOrder(all_rows(9), seed=0, shuffle=False, max_epochs=1)
    grpo = GrpoSettings(num_prompts_per_step=1, async_grpo=AsyncGrpoSettings(max_trajectory_age_steps=1))
    ledger = Ledger(grpo, order, GroupSettings(max_age_retries=1))
    ledger.finish_sending()
    first = ledger.begin()
    assert first is not None
    lost = [one for _ in range(2) for one in quick_step(ledger)]
    assert [(one.id, one.row, one.why, one.again) for one in lost] == [(first.id, 0, "slow", True)]
    second = ledger.begin()
    assert second is not None and (second.row, second.version) == (0, 2)
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
