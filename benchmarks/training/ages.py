"""What each age policy costs when rollouts last unequally long: groups lost, seconds wasted, steps per hour.

The ledger is the loop's own, in virtual time. A member lasts a log-normal time around 600 s (deviation of the logarithm
0.5), times what is its row's own (deviation 0, 0.5 or 0.7); a group lasts as long as its longest member, however many
run beside it. All policies have the same rows, and draw from the same distribution.
Shares  are of the groups that were started early enough to be trained on by the end, each a group's share of its own
        fifth by duration: a policy is fair where the slowest fifth is trained on as much as the others.
"""

import heapq
import math
import random
from statistics import fmean
from typing import Any, NamedTuple, get_args

from paddock.training.core.admission import RunningGroup
from paddock.training.core.ledger import Ledger
from paddock.training.core.order import RowOrder, all_rows
from paddock.training.core.records import Group, Member
from paddock.training.core.settings import AgePolicyName, AsyncGrpoSettings, GroupSettings, GrpoSettings

ROWS, PROMPTS, MEMBERS, STEPS = 1000, 16, 16, 200
MEDIAN_S, SIGMA = 600.0, 0.5
AGES = range(5)
LAST_STEPS = 30
"""Groups started so many steps before the end, or later, may still run: they are in no share."""


class AgesCase(NamedTuple):
    """How rows differ, and how long a step trains."""

    spread_of_rows: float
    """Deviation of the logarithm of what a row's groups last."""
    train_s: float


CASES = (AgesCase(0.5, 300), AgesCase(0.7, 1000), AgesCase(0.0, 300))


class AgeFigures(NamedTuple):
    """The figures of one run; shares are 0 to 1."""

    lost: float
    """Share of the groups that were not trained on."""
    lost_slowest_fifth: float
    lost_others: float
    wasted: float
    """Share of the seconds of groups that were run for nothing."""
    steps_per_hour: float
    trained_s: float
    """Mean duration of what was trained on."""
    started_s: float
    """Mean duration of what was started."""
    staleness: float
    """Mean age of what was trained on, in versions."""
    late: float
    """Share of what was trained on that was older than the largest age."""


class AgesRun:
    """A run of the ledger in virtual time."""

    def __init__(self, policy: AgePolicyName, age: int, case: AgesCase, *, retries: int = 1, rows: int = ROWS) -> None:
        self._draw = random.Random(0)
        self._hard = [math.exp(self._draw.gauss(0, case.spread_of_rows)) for _ in range(rows)]
        asynchronous = AsyncGrpoSettings(max_trajectory_age_steps=age, in_flight_weight_updates=True)
        grpo = GrpoSettings(num_prompts_per_step=PROMPTS, max_num_epochs=99, async_grpo=asynchronous)
        order = RowOrder(all_rows(rows), seed=0, shuffle=True, max_epochs=99)
        self.ledger = Ledger(grpo, order, GroupSettings(age_policy=policy, max_retries=retries))
        self.started: dict[int, RunningGroup] = {}
        self.seconds: dict[int, float] = {}
        """Of each group that was started: how long it would run."""
        self.trained: list[Group] = []
        self.lost: list[int] = []
        self._age = age
        self._train_s = case.train_s
        self._now = 0.0
        self._ends: list[tuple[float, int]] = []
        self._began: dict[int, float] = {}
        self._wasted_s = 0.0
        self._ages: list[int] = []

    def run(self, steps: int = STEPS) -> None:
        self.ledger.finish_sending()
        self._fill()
        while self.ledger.step < steps:
            while not self.ledger.ready:
                self._until(self._ends[0][0])
            taken = self.ledger.take() or []
            self._ages += [self.ledger.step - group.version for group in taken]
            self.trained += taken
            self._until(self._now + self._train_s)
            self.ledger.finish_step()
            for one in self.ledger.give_up():
                self.lost.append(one.id)
                self._wasted_s += min(self._now - self._began[one.id], self.seconds[one.id])
            self.ledger.finish_sending()
            self._fill()

    def figures(self) -> AgeFigures:
        trained = {group.id for group in self.trained}
        settled = [one.id for one in self.started.values() if one.version <= self.ledger.step - LAST_STEPS]
        settled.sort(key=lambda group_id: self.seconds[group_id])
        cut = len(settled) * 4 // 5
        used_s = sum(self.seconds[group_id] for group_id in trained)
        return AgeFigures(
            lost=fmean(group_id not in trained for group_id in settled),
            lost_slowest_fifth=fmean(group_id not in trained for group_id in settled[cut:]),
            lost_others=fmean(group_id not in trained for group_id in settled[:cut]),
            wasted=self._wasted_s / (self._wasted_s + used_s),
            steps_per_hour=self.ledger.step * 3600 / self._now,
            trained_s=fmean(self.seconds[group_id] for group_id in settled if group_id in trained),
            started_s=fmean(self.seconds[group_id] for group_id in settled),
            staleness=fmean(self._ages),
            late=self.ledger.n_late / self.ledger.n_trained,
        )

    def _fill(self) -> None:
        while (started := self.ledger.begin()) is not None:
            longest = max(math.exp(self._draw.gauss(0, SIGMA)) for _ in range(MEMBERS))
            self.started[started.id] = started
            self.seconds[started.id] = MEDIAN_S * self._hard[started.row] * longest
            self._began[started.id] = self._now
            heapq.heappush(self._ends, (self._now + self.seconds[started.id], started.id))

    def _until(self, at: float) -> None:
        while self._ends and self._ends[0][0] <= at:
            self._now, group_id = heapq.heappop(self._ends)
            if group_id in self.ledger.running:
                self.ledger.end(_ended(self.started[group_id]))
            self._fill()
        self._now = at


def measure() -> list[dict[str, Any]]:
    return [
        {**case._asdict(), "age": age, "policy": policy, **_figures(policy, age, case)}
        for case in CASES
        for age in AGES
        for policy in get_args(AgePolicyName)
    ]


def _figures(policy: AgePolicyName, age: int, case: AgesCase) -> dict[str, float]:
    run = AgesRun(policy, age, case)
    run.run()
    return run.figures()._asdict()


def _ended(started: RunningGroup) -> Group:
    members = (Member(0, "completed", 1.0), Member(1, "completed", 0.0))
    return Group(started.id, started.row, started.epoch, members, MEMBERS, started.version)
