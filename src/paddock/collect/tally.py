"""Counting endings: the running numbers of a collection, and its `summary.json`.

Law     only an ending with a reward enters a mean, a pass@k, a token or a time; every ending is counted by outcome.
Shapes  a summary is a list of runs, one per agent: {environment, harness, agent, model, ...}.
Units   seconds, mean per rollout with a verdict; `wall` and `rollouts_per_s` are those of the last command; tokens are
        sums. `turns` is a mean per rollout.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from paddock.collect.endings import Ending
from paddock.collect.identity import Who
from paddock.collect.statistics import RowScore, interval95, mean, pass_table
from paddock.types import OUTCOMES, REWARDED, JsonObject, Usage

STAGES = ("total", "seed", "sandbox", "model", "tools", "verify")


class Pace(NamedTuple):
    """How fast the last command went."""

    wall_s: float
    n_ended: int
    """Rollouts that ended in it."""


class Tally:
    """Numbers of one agent's rollouts; holds three numbers per row."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.scores: dict[int, RowScore] = {}
        self.rows: set[int] = set()
        self.usage = Usage()
        self.turns = 0
        self._seconds: Counter[str] = Counter()
        self._metrics: dict[str, tuple[float, int]] = {}

    def add(self, ending: Ending) -> None:
        self.outcomes[ending.outcome] += 1
        self.rows.add(ending.group_id)
        if ending.reward is None:
            return
        self.scores[ending.group_id] = self.scores.get(ending.group_id, RowScore()).plus(ending.reward)
        self.usage += ending.usage
        self.turns += ending.turns
        for stage in STAGES:
            self._seconds[stage] += getattr(ending.timing, f"{stage}_s")
        for name, value in ending.metrics.items():
            total, n = self._metrics.get(name, (0.0, 0))
            self._metrics[name] = (total + value, n + 1)

    @property
    def n_rewarded(self) -> int:
        return sum(self.outcomes[outcome] for outcome in REWARDED)

    @property
    def mean_reward(self) -> float | None:
        return mean(self.scores.values())

    def numbers(self) -> JsonObject:
        n = self.n_rewarded
        interval = interval95(self.scores.values())
        return {
            "outcomes": {outcome: self.outcomes[outcome] for outcome in OUTCOMES if self.outcomes[outcome]},
            "n_rows": len(self.rows),
            "n_rollouts": self.outcomes.total(),
            "mean_reward": self.mean_reward,
            "reward_ci95": list(interval) if interval else None,
            "pass_at_k": pass_table(self.scores.values()),
            "turns": self.turns / n if n else None,
            "tokens": {"input": self.usage.input_tokens, "output": self.usage.output_tokens},
            "seconds": {stage: self._seconds[stage] / n if n else None for stage in STAGES},
            "metrics": {name: total / count for name, (total, count) in sorted(self._metrics.items())},
        }


class Board:
    """The tallies of a run, by agent; rollouts of rows without an agent are counted under the empty name."""

    def __init__(self) -> None:
        self.tallies: dict[str, Tally] = {}
        self.outcomes: Counter[str] = Counter()
        self._rewards = RowScore()

    def add(self, ending: Ending) -> None:
        self.tallies.setdefault(ending.agent, Tally()).add(ending)
        self.outcomes[ending.outcome] += 1
        if ending.reward is not None:
            self._rewards = self._rewards.plus(ending.reward)

    def add_all(self, endings: Iterable[Ending]) -> None:
        for ending in endings:
            self.add(ending)

    @property
    def mean_reward(self) -> float | None:
        return mean([self._rewards])

    def summary(self, agents: Mapping[str, Who], pace: Pace) -> list[JsonObject]:
        """The runs of `summary.json`."""
        share = pace.n_ended / pace.wall_s if pace.wall_s > 0 else 0.0
        runs = []
        for name in sorted(self.tallies, key=lambda name: (name == "", name)):
            numbers = self.tallies[name].numbers()
            numbers["seconds"] |= {"wall": pace.wall_s}
            runs.append({**_who(name, agents.get(name)), **numbers, "rollouts_per_s": share})
        return runs


def _who(name: str, who: Who | None) -> JsonObject:
    return {
        "environment": who.environment if who else None,
        "harness": who.harness if who else None,
        "agent": name or None,
        "model": who.model if who else None,
    }
