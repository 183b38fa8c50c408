"""What a policy does with a batch, whatever computes it: scoring, leaving out, optimiser steps, agreement.

Law     every process gets the whole batch and the same answer. The loss is divided by the trained tokens (or rows) of
        the whole optimiser step, so that neither the number of processes nor micro-batches change it.
        The log-probs before the step are those of the gradient's own forward pass where a batch is one optimiser step;
        where it is several, or rows may be left out for disagreeing, they are computed first.
Metrics `train/*`: those of each step (means over the optimiser steps, but of extremes), agreement with the engine over
        all rows, also those left out for it, `optimizer_steps`, `rows`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch

from paddock.training.core.agreement import Agreements, agreements, disagreeing_rows
from paddock.training.core.loss import policy_loss
from paddock.training.core.loss_inputs import BatchTotals, TrainedTokens
from paddock.training.core.loss_metrics import LossMetrics
from paddock.training.core.records import Batch, TrainRow
from paddock.training.core.settings import LossSettings
from paddock.training.grpo.microbatches import MicroBatch, check, step_parts, trained
from paddock.training.grpo.policy_settings import PolicySettings
from paddock.training.grpo.roles import Trained
from paddock.training.grpo.torch_arrays import TorchArrays

LogProbs = dict[int, torch.Tensor]
"""By the row's index in the batch: of its trained tokens, on the CPU."""
ARRAYS = TorchArrays()


class Known(NamedTuple):
    """Log-probs that were computed before the gradient; None: not needed."""

    before: LogProbs | None
    reference: LogProbs | None


class Stepped(NamedTuple):
    """One optimiser step."""

    metrics: Mapping[str, float]
    log_probs: LogProbs
    """Of its rows, with the weights that it began with."""


class Backend(Protocol):
    """What computes. Each answers the same on every process."""

    def scored(self, rows: Sequence[TrainRow], indices: Sequence[int], *, reference: bool = False) -> LogProbs:
        """Log-probs of those rows; `reference`: under the policy's first weights."""
        ...

    def step(self, rows: Sequence[TrainRow], part: Sequence[int], known: Known) -> Stepped:
        """One optimiser step with those rows. A gradient that is not finite changes nothing, and is counted."""
        ...


def train(backend: Backend, batch: Batch, settings: PolicySettings) -> Trained:
    rows, threshold = batch.rows, settings.seq_logprob_error_threshold
    check(rows, settings.policy.max_total_sequence_length)
    active = [nth for nth, row in enumerate(rows) if any(row.loss_mask)]
    n_steps = settings.optimizer_steps(len(active))
    before = backend.scored(rows, active) if n_steps > 1 or threshold is not None else None
    masked: set[int] = set()
    if before is not None:
        own = [_per_id(rows[nth], before[nth]) for nth in active]
        masked = {active[nth] for nth in disagreeing_rows([rows[nth] for nth in active], own, threshold)}
    kept = [nth for nth in active if nth not in masked]
    reference = backend.scored(rows, kept, reference=True) if settings.loss.reference_policy_kl_penalty else None
    told: list[Mapping[str, float]] = []
    found: LogProbs = before or {}
    for part in step_parts(kept, n_steps):
        stepped = backend.step(rows, part, Known(before, reference))
        told.append(stepped.metrics)
        found = found if before is not None else stepped.log_probs
    agreement = sum(
        (agreements(rows[nth], _per_id(rows[nth], one), batch.step) for nth, one in found.items()), Agreements()
    )
    counts = {"train/optimizer_steps": float(n_steps if kept else 0), "train/rows": float(len(kept))}
    return Trained({**_joined(told), **agreement.metrics(), **counts}, tuple(sorted(masked)))


def totals_of(rows: Sequence[TrainRow], part: Sequence[int]) -> BatchTotals:
    return BatchTotals(tokens=sum(sum(rows[nth].loss_mask) for nth in part), rows=len(part))


def loss_of(
    micro: MicroBatch, now: torch.Tensor, known: Known, totals: BatchTotals, settings: LossSettings
) -> tuple[torch.Tensor, LossMetrics]:
    """The micro-batch's part of the loss. `now`: log-probs of its trained tokens."""
    if settings.ratio_against == "generation":
        before: torch.Tensor | None = micro.engine_log_probs
    else:
        before = None if known.before is None else micro.flat(known.before)
    tokens = TrainedTokens(
        log_probs=now,
        engine_log_probs=micro.engine_log_probs,
        advantages=micro.advantages,
        rows=micro.row,
        n_rows=len(micro.rows),
        old_log_probs=before,
        reference_log_probs=None if known.reference is None else micro.flat(known.reference),
    )
    return policy_loss(tokens, totals, settings, ARRAYS)


def merged(parts: Iterable[Mapping[int, torch.Tensor]]) -> LogProbs:
    return {nth: one for part in parts for nth, one in part.items()}


def _per_id(row: TrainRow, log_probs: torch.Tensor) -> list[float]:
    values = [0.0] * len(row.ids)
    for at, value in zip(trained(row), log_probs.tolist(), strict=True):
        values[at] = value
    return values


def _joined(told: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Over optimiser steps: means, but of extremes."""
    names = {name: None for one in told for name in one}
    return {name: _over([one[name] for one in told if name in one], name) for name in names}


def _over(values: Sequence[float], name: str) -> float:
    if name.endswith("_min"):
        return min(values)
    return max(values) if name.endswith("_max") else sum(values) / len(values)
