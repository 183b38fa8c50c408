"""Groups of rollouts as TRL's `RolloutSample`s: whole sequences with mask, log-probs, advantage and version.

Law     the advantage of a member is computed from those that have a reward; a member without one gives no sample, and
        neither does a group in which fewer than two have one: nothing can be compared.
Version the oldest weights that sampled an id which is trained on, where the engine names them as TRL counts them; else
        those that were announced when the group began: TRL drops a sample by it.
Unknown an engine that names weights by number and then by something else was restarted, or was left with half of an
        update: what it sampled so is of weights that nobody knows, and gives no sample.
"""

from collections.abc import Iterable, Mapping
from statistics import pstdev
from typing import Any

import numpy as np
from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

from paddock.rollouts import RolloutGroup, TrainingRollout
from paddock.tokens.export import Sample
from paddock.training.core.advantages import group_advantages
from paddock.training.core.settings import GrpoSettings


class WeightLabels:
    """The names of weights that an engine has given so far."""

    def __init__(self) -> None:
        self._numbered = False

    def read(self, group: RolloutGroup) -> None:
        """Note those of a group."""
        labels = {label for member in group.members for entry in member.samples for label in _labels(entry.sample)}
        self._numbered = self._numbered or any(label.isdecimal() for label in labels)

    def are_unknown(self, sample: Sample) -> bool:
        """Whether a sample has ids of weights that nobody knows."""
        return self._numbered and not all(label.isdecimal() for label in _labels(sample))


def group_samples(
    group: RolloutGroup,
    grpo: GrpoSettings,
    *,
    newest: int,
    labels: WeightLabels,
    prompt: Iterable[Mapping[str, Any]] = (),
) -> list[RolloutSample]:
    """All samples of a group, in the order of its members. `newest`: the version that was announced last. `prompt`:
    messages for TRL's traces."""
    labels.read(group)
    given = [reward for reward in group.rewards if reward is not None]
    if len(given) < 2:
        return []
    began = int(group.weight_version or 0)
    return [
        RolloutSample(
            prompt=list(prompt),
            completion=[],
            input_ids=np.array(entry.sample.ids, dtype=np.int64),
            completion_mask=np.array(entry.sample.loss_mask, dtype=np.int64),
            old_log_probs=np.array(entry.sample.log_probs, dtype=np.float32),
            advantage=advantage,
            model_version=sample_version(entry.sample, began, newest),
            group_id=group.row_index,
            metrics={"reward": member.reward, "reward_std": pstdev(given), **_metrics(member)},
        )
        for member, advantage in zip(group.members, group_advantages(group.rewards, grpo), strict=True)
        if advantage is not None
        for entry in member.samples
        if not labels.are_unknown(entry.sample)
    ]


def sample_version(sample: Sample, began: int, newest: int) -> int:
    """The oldest version of a sample's ids. `began`: that which was announced when its group began. `newest`: last."""
    versions = {span.weight_version for span in sample.spans if span.trained}
    numbers = [int(version) for version in versions if version is not None and version.isdecimal()]
    if len(numbers) < len(versions) or not numbers or max(numbers) > newest:
        return began
    return min(numbers)


def _labels(sample: Sample) -> set[str]:
    return {span.weight_version for span in sample.spans if span.trained and span.weight_version is not None}


def _metrics(member: TrainingRollout) -> dict[str, float]:
    return {f"rewards/{name}": float(value) for name, value in member.metrics.items()}
