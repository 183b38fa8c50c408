"""Metrics of all groups that ended since the last report, whatever became of them: how long they took, what failed.

Names   `rollouts/group_s` (seconds of a group); `rollouts/count/*` and `rollouts/failed_rate/*`: of `all`, and of
        those that an agent ran (`agent/NAME`) or a resources server judged (`environment/NAME`).
        `rollouts/outcome/*` counts the failed ones by outcome, `missing` those that never ended.
Law     dropped groups count, and each group of a row that was run again: `train/*` has what was trained on alone, where
        an environment that fails looks well. Members of a group that was cancelled for its age failed in nothing: the
        group has a duration, and no failure.
Units   shares are 0 to 1 of the rollouts that were to be made; a rollout has failed that has no verdict.
"""

from collections import Counter
from collections.abc import Mapping

from paddock.training.core.metrics import durations
from paddock.training.core.records import Group
from paddock.types import REWARDED

_NO_ENVIRONMENTS: Mapping[str, str] = {}


class RolloutTally:
    """What ended since the last report."""

    def __init__(self, environments: Mapping[str, str] = _NO_ENVIRONMENTS) -> None:
        """`environments`: the resources server of each agent, by their names in the config."""
        self._environments = environments
        self._clear()

    def add(self, group: Group) -> None:
        """Count a group that has ended."""
        self._seconds.append(group.seconds)
        failed = [member.outcome for member in group.members if member.outcome not in REWARDED]
        n_missing = group.size - len(group.members)
        self._outcomes.update(failed)
        self._outcomes["missing"] += n_missing
        for name in self._names(group.agent):
            self._n_rollouts[name] += group.size
            self._n_failed[name] += len(failed) + n_missing

    def add_cancelled(self, seconds: float) -> None:
        """Count a group that was cancelled after so many seconds."""
        self._seconds.append(seconds)

    def take(self) -> dict[str, float]:
        """The metrics; what was counted is forgotten."""
        metrics = dict(durations("rollouts/group_s", self._seconds))
        for name, count in self._n_rollouts.items():
            metrics[f"rollouts/count/{name}"] = float(count)
            metrics[f"rollouts/failed_rate/{name}"] = self._n_failed[name] / count
        metrics.update({f"rollouts/outcome/{name}": float(count) for name, count in self._outcomes.items() if count})
        self._clear()
        return metrics

    def _clear(self) -> None:
        self._seconds: list[float] = []
        self._n_rollouts: Counter[str] = Counter()
        self._n_failed: Counter[str] = Counter()
        self._outcomes: Counter[str] = Counter()

    def _names(self, agent: str) -> list[str]:
        names = ["all"]
        if agent:
            names.append(f"agent/{agent}")
        if agent in self._environments:
            names.append(f"environment/{self._environments[agent]}")
        return names
