"""Tallies of rollout results: the running numbers of a collection, and its `summary.json`.

Law     only a result with a reward enters a mean, a rate, a token or a time; every result is counted by outcome.
Shapes  a summary is a list of runs, one per agent: {environment, harness, agent, model, ...}. `reasons` and `ended` are
        counts. `labels` has the numbers by the verdicts' labels and their values, `variants` by the agent's variants,
        where there were several; both are of rollouts with a verdict. `n_weak` counts those of rows that a verdict says
        little of (`weak_row`). `comparisons` has this run's agent or variants against those of this run and of later
        ones that worked on the same rows (`comparison`).
Units   seconds, mean per rollout with a verdict; `wall` and `rollouts_per_s` are of all commands in which rollouts
        ended (of shards that were merged: of the slowest, and of all together). Tokens are sums, `cached` a part of
        `input` and `reasoning` of `output`; `cost_usd` is a sum in USD, absent where a rollout has no cost. `turns`,
        `tokens_per_rollout`, `cost_usd_per_rollout` and `malformed_per_rollout` are means per rollout, the last over
        those whose agent says what ended its harness.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from paddock.collect.comparison import Arm, compare_all
from paddock.collect.identity import AgentIdentity
from paddock.collect.results import FailedAttempt, RolloutResult
from paddock.collect.statistics import RowScore, interval95, mean, pass_rate, pass_table
from paddock.types import OUTCOMES, JsonObject, Usage
from paddock.types.records import WEAK_ROW
from paddock.types.step_rewards import OUTCOME_REWARD

STAGES = ("total", "seed", "sandbox", "model", "tools", "verify_wait", "verify")
SHOWN_FAILURES = 3
REPOSITORY = "repo"
"""The label of a verdict that names the row's repository."""
OLD_SUMMARY_KEYS = {
    "malformed_each": "malformed_per_rollout",
    "tokens_each": "tokens_per_rollout",
    "compared": "comparisons",
}
"""Keys of a run by the names that the version before gave them."""


class Pace(NamedTuple):
    """How fast a run went, over all its commands."""

    wall_s: float
    n_ended: int
    """Rollouts that ended in that time."""

    def plus(self, wall_s: float, n_ended: int) -> "Pace":
        """The pace with one more command, which is left out if nothing ended in it."""
        return Pace(self.wall_s + wall_s, self.n_ended + n_ended) if n_ended else self


class Score:
    """Rewards of rollouts by row, and how many turns they took; holds three numbers per row."""

    def __init__(self) -> None:
        self.scores: dict[int, RowScore] = {}
        self.turns = 0
        self.n_rewarded = 0

    def add(self, result: RolloutResult) -> None:
        if result.reward is None:
            return
        before = self.scores.get(result.group_id, RowScore())
        self.scores[result.group_id] = before.plus(result.reward, outcome=result.metrics.get(OUTCOME_REWARD))
        self.turns += result.turns
        self.n_rewarded += 1

    @property
    def mean_reward(self) -> float | None:
        return mean(self.scores.values())

    def score(self) -> JsonObject:
        interval = interval95(self.scores.values())
        rate = pass_rate(self.scores.values())
        return {
            "mean_reward": self.mean_reward,
            "reward_ci95": list(interval) if interval else None,
            "pass_rate": rate.value if rate else None,
            "pass_rate_ci95": list(rate.ci95) if rate and rate.ci95 else None,
            "turns": self.turns / self.n_rewarded if self.n_rewarded else None,
        }

    def brief(self) -> JsonObject:
        """The numbers that are given of a part of an agent's rollouts."""
        return {"n_rows": len(self.scores), "n_rollouts": self.n_rewarded, **self.score()}


class Tally(Score):
    """Numbers of one agent's rollouts."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: Counter[str] = Counter()
        self.rows: set[int] = set()
        self.usage = Usage()
        self._cost_usd = 0.0
        self._n_priced = 0
        self.variants: defaultdict[str, Tally] = defaultdict(Tally)
        self._labels: defaultdict[str, defaultdict[str, Score]] = defaultdict(lambda: defaultdict(Score))
        self._reasons: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._malformed: Counter[str] = Counter()
        self._seconds: Counter[str] = Counter()
        self._metrics: dict[str, tuple[float, int]] = {}

    def add(self, result: RolloutResult) -> None:
        super().add(result)
        self.outcomes[result.outcome] += 1
        self.rows.add(result.group_id)
        if result.reward is None:
            return
        self.usage += result.usage
        if result.cost_usd is not None:
            self._cost_usd += result.cost_usd
            self._n_priced += 1
        if result.reason is not None:
            self._reasons[result.reason] += 1
        if result.ended is not None:
            self._ended[result.ended] += 1
            self._malformed.update(result.malformed)
        for stage in STAGES:
            self._seconds[stage] += getattr(result.timing, f"{stage}_s")
        for name, value in result.metrics.items():
            total, n = self._metrics.get(name, (0.0, 0))
            self._metrics[name] = (total + value, n + 1)
        for label, word in result.labels.items():
            self._labels[label][word].add(result)
        if result.variant is not None:
            part = result.model_copy(update={"variant": None, "labels": {}})
            self.variants[result.variant].add(part)

    def numbers(self) -> JsonObject:
        n, n_reported = self.n_rewarded, self._ended.total()
        usage = {name.removesuffix("_tokens"): count for name, count in self.usage.model_dump().items()}
        return {
            "outcomes": {outcome: self.outcomes[outcome] for outcome in OUTCOMES if self.outcomes[outcome]},
            "n_rows": len(self.rows),
            "n_rollouts": self.outcomes.total(),
            **self.score(),
            "pass_at_k": pass_table(self.scores.values()),
            "reasons": dict(self._reasons.most_common()),
            "ended": dict(self._ended.most_common()),
            "malformed_per_rollout": (
                {kind: count / n_reported for kind, count in self._malformed.most_common()} if n_reported else {}
            ),
            "tokens": usage,
            "tokens_per_rollout": {side: count / n if n else None for side, count in usage.items()},
            "seconds": {stage: self._seconds[stage] / n if n else None for stage in STAGES},
            "metrics": {name: total / count for name, (total, count) in sorted(self._metrics.items())},
            **self._cost(),
            **self._weak(),
            **self._parts(),
        }

    def _cost(self) -> JsonObject:
        """The cost; nothing where that of a rollout is not known: the sum would be of the others."""
        if not self.n_rewarded or self._n_priced < self.n_rewarded:
            return {}
        return {"cost_usd": self._cost_usd, "cost_usd_per_rollout": self._cost_usd / self.n_rewarded}

    def _weak(self) -> JsonObject:
        """How many rollouts were of rows whose verdicts say little; nothing where there are none."""
        total, _ = self._metrics.get(WEAK_ROW, (0.0, 0))
        return {"n_weak": round(total)} if total else {}

    def _parts(self) -> JsonObject:
        parts: JsonObject = {}
        if self._labels:
            parts["labels"] = {
                label: {word: scores.brief() for word, scores in sorted(words.items())}
                for label, words in sorted(self._labels.items())
            }
        if len(self.variants) > 1:
            parts["variants"] = {name: tally.numbers() for name, tally in sorted(self.variants.items())}
        return parts


class _AgentArm(NamedTuple):
    """An arm and the agent that it is of."""

    agent: str
    arm: Arm


class Board:
    """The tallies of a run, by agent; rollouts of rows without an agent are counted under the empty name."""

    def __init__(self) -> None:
        self.tallies: defaultdict[str, Tally] = defaultdict(Tally)
        self.outcomes: Counter[str] = Counter()
        self.last_failures: deque[FailedAttempt] = deque(maxlen=SHOWN_FAILURES)
        """The latest attempts of this command that gave no verdict, the latest last."""
        self._rewards = RowScore()
        self._names: dict[int, str] = {}
        self._repositories: dict[str, str] = {}

    def add(self, result: RolloutResult) -> None:
        if result.row_name is not None:
            self._names[result.group_id] = result.row_name
            if REPOSITORY in result.labels:
                self._repositories[result.row_name] = result.labels[REPOSITORY]
        self.tallies[result.agent].add(result)
        self.outcomes[result.outcome] += 1
        if result.reward is not None:
            self._rewards = self._rewards.plus(result.reward, outcome=result.metrics.get(OUTCOME_REWARD))

    def add_all(self, results: Iterable[RolloutResult]) -> None:
        for result in results:
            self.add(result)

    @property
    def mean_reward(self) -> float | None:
        return mean([self._rewards])

    def summary(self, agents: Mapping[str, AgentIdentity], pace: Pace) -> list[JsonObject]:
        """The runs of `summary.json`."""
        share = pace.n_ended / pace.wall_s if pace.wall_s > 0 else 0.0
        names = sorted(self.tallies, key=lambda name: (name == "", name))
        relative = {name for name, who in agents.items() if who.relative}
        arms = [
            _AgentArm(name, arm) for name in names if name not in relative for arm in self._arms(name, agents.get(name))
        ]
        owner = {of_agent.arm.name: of_agent.agent for of_agent in arms}
        compared = list(compare_all([of_agent.arm for of_agent in arms])) if len(arms) > 1 else []
        runs = []
        for name in names:
            numbers = self.tallies[name].numbers()
            numbers["seconds"] |= {"wall": pace.wall_s}
            if name in relative:
                numbers |= {"pass_rate": None, "pass_rate_ci95": None, "pass_at_k": {}}
            own = [comparison.to_json() for comparison in compared if owner[comparison.first] == name]
            more = {"comparisons": own} if own else {}
            runs.append({**_who(name, agents.get(name)), **numbers, **more, "rollouts_per_s": share})
        return runs

    def _arms(self, name: str, who: AgentIdentity | None) -> Iterator[Arm]:
        """The arms of an agent: itself, or each of its variants where it has several."""
        tally = self.tallies[name]
        parts = {f"{name}/{variant}": part for variant, part in sorted(tally.variants.items())}
        for arm, part in (parts if len(parts) > 1 else {name: tally}).items():
            yield Arm(arm, who.environment if who else None, self._by_name(part.scores), self._repositories)

    def _by_name(self, scores: Mapping[int, RowScore]) -> dict[str, RowScore]:
        """Scores of rows that have names; those of one name together."""
        by_name: dict[str, RowScore] = {}
        for group_id, score in scores.items():
            name = self._names.get(group_id)
            if name is not None:
                by_name[name] = by_name[name].and_(score) if name in by_name else score
        return by_name


def _who(name: str, who: AgentIdentity | None) -> JsonObject:
    return {
        "environment": who.environment if who else None,
        "harness": who.harness if who else None,
        "agent": name or None,
        "model": who.model if who else None,
        "relative": who is not None and who.relative,
    }
