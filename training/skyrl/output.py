"""Groups of rollouts as SkyRL's `GeneratorOutput`.

Law     a rollout that failed moves neither baseline nor loss. SkyRL's estimators know no mask: what a group's rows say
        enters its baseline. Step-wise, a failed member has no rows. Else SkyRL wants as many rows as prompts: it has a
        masked row with the mean reward of the others, which leaves the mean as it is (not the standard deviation).
Alone   SkyRL takes the reward of a row that is alone in its group for its advantage. So a group of several of which
        one member is left has a masked row with the same reward beside it: both advantages are 0. A group of which
        none is left is one masked row.
Experts a row for each id but the last; a masked row has one, of the width of the others.
Rows    prompt: up to the first id that is trained on; response: the rest, with the environment's ids masked.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from paddock.rollouts import RolloutGroup, TrainingRollout
from paddock.tokens.export import RolloutSample
from paddock.training.core.experts import expert_array, placeholder_array
from paddock.types import JsonObject


class OutputRow(NamedTuple):
    """A row of a generator's output."""

    trajectory: Any
    """SkyRL's `TrajectoryID`."""
    prompt: list[int]
    response: list[int]
    mask: list[int]
    log_probs: list[float]
    reward: float
    stop_reason: str
    last: bool
    """It is its trajectory's last."""
    total_s: float
    """Seconds that its rollout took."""
    experts: Any = None
    """Array of the experts of prompt and response; None: not recorded."""


def group_rows(group: RolloutGroup, trajectories: Sequence[Any], *, step_wise: bool, filler: int) -> list[OutputRow]:
    """The rows of a group. `trajectories`: the ids of its members, in order. `filler`: the id that masked rows are made
    of."""
    live = group.trainable
    neutral = fmean(member.reward or 0.0 for member in live) if live else 0.0
    failed = [member.member for member in group.members if member.mask is not None]
    masked = failed if not step_wise else failed[: 1 if len(live) < 2 else 0]
    rows: list[OutputRow] = []
    for member, trajectory in zip(group.members, trajectories, strict=True):
        if member.mask is None:
            rows += _sample_rows(member, trajectory)
        elif member.member in masked:
            rows.append(_masked_row(member, trajectory, neutral, filler))
    return rows


def columns(rows: Sequence[OutputRow], *, step_wise: bool) -> JsonObject:
    """Rows as a `GeneratorOutput`, without its metrics."""
    width = next((row.experts.shape[1:] for row in rows if row.experts is not None), None)
    experts = [placeholder_array(1, *width) if row.experts is None else row.experts for row in rows] if width else None
    return {
        "prompt_token_ids": [row.prompt for row in rows],
        "response_ids": [row.response for row in rows],
        "rewards": [row.reward for row in rows],
        "loss_masks": [row.mask for row in rows],
        "stop_reasons": [row.stop_reason for row in rows],
        "rollout_metrics": None,
        "rollout_logprobs": [row.log_probs for row in rows],
        "trajectory_ids": [row.trajectory for row in rows],
        "trajectory_generation_times": [row.total_s for row in rows],
        "trajectory_time_splits": None,
        "rollout_expert_indices": experts,
        "rollout_sample_support": None,
        "is_last_step": [row.last for row in rows] if step_wise else None,
        "env_metrics": None,
        "pixel_values": None,
        "image_grid_thw": None,
    }


def group_metrics(groups: Sequence[RolloutGroup]) -> dict[str, float]:
    """What is logged beside SkyRL's own metrics: the share of rollouts that failed, how many failed for each reason,
    and the means of what verifiers measured."""
    members = [member for group in groups for member in group.members]
    masks = Counter(member.mask for member in members if member.mask is not None)
    metrics = {"paddock/failed_mean": masks.total() / len(members)}
    metrics |= {f"paddock/failed_{mask}_sum": float(count) for mask, count in masks.items()}
    names = sorted({name for member in members for name in member.metrics})
    for name in names:
        metrics[f"paddock/{name}_mean"] = fmean(member.metrics[name] for member in members if name in member.metrics)
    return metrics


def _sample_rows(member: TrainingRollout, trajectory: Any) -> Iterator[OutputRow]:
    for nth, entry in enumerate(member.samples):
        yield _sample_row(member, entry, trajectory, last=nth == len(member.samples) - 1)


def _sample_row(member: TrainingRollout, entry: RolloutSample, trajectory: Any, *, last: bool) -> OutputRow:
    sample = entry.sample
    start = sample.prompt_length
    return OutputRow(
        trajectory,
        sample.ids[:start],
        sample.ids[start:],
        sample.loss_mask[start:],
        sample.log_probs[start:],
        float(member.reward or 0.0),
        "length" if entry.cut else "stop",
        last,
        member.total_s,
        None if sample.routed_experts is None else expert_array(sample.routed_experts),
    )


def _masked_row(member: TrainingRollout, trajectory: Any, reward: float, filler: int) -> OutputRow:
    return OutputRow(trajectory, [filler], [filler], [0], [0.0], reward, "abort", last=True, total_s=member.total_s)
