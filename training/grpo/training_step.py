"""One training step on a batch, whatever computes it: log-probs, masking, optimiser steps, agreement.

Law     every process gets the whole batch and the same answer. The loss is divided by the trained tokens (or rows) of
        the whole optimiser step, so that neither the number of processes nor micro-batches change it.
        The log-probs before the step are those of the gradient's own forward pass where a batch is one optimiser step;
        where it is several (`train_global_batch_size`, `ppo_epochs`), rows may be left out for disagreeing, or rewards
        have a KL term, they are computed first.
        Advantages that need all rows of the step, log-probs or a critic's values are made here, of rows not left out.
        A row whose advantages are all 0 is neither computed forwards nor backwards where it can't change a gradient; it
        stays in the divisors. One row of each optimiser step always is computed, so that the optimizer steps as ever.
Metrics `train/*`: those of each step (means over the optimiser steps, but of extremes), agreement with the engine over
        all rows that are computed, also those left out for it, `optimizer_steps`, `rows`, `computed_rows` of one pass;
        `kl_in_reward`, what was taken off the reward of a token, on average; `advantages/*` where they are made here.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from paddock.training.core import kl
from paddock.training.core.agreement import Agreements, agreements, disagreeing_rows
from paddock.training.core.covariance import StepTokens, chosen_tokens
from paddock.training.core.loss import policy_loss
from paddock.training.core.loss_inputs import BatchTotals, TrainedTokens
from paddock.training.core.loss_metrics import LossMetrics
from paddock.training.core.loss_settings import LossSettings, MeanOver
from paddock.training.core.metrics import advantage_metrics
from paddock.training.core.records import Batch, TrainRow
from paddock.training.core.token_advantages import (
    TokenNumbers,
    reinforce_plus_plus,
    with_advantages,
)
from paddock.training.grpo.microbatches import MicroBatch, require_trainable, step_parts
from paddock.training.grpo.policy_settings import PolicySettings
from paddock.training.grpo.roles import TokenNll, TrainResult
from paddock.training.grpo.token_scores import TokenScores
from paddock.training.grpo.torch_arrays import TorchArrays

LogProbs = dict[int, torch.Tensor]
"""By the row's index in the batch: the log-probs of its trained tokens, `[tokens]`, on the CPU."""
ARRAYS = TorchArrays()


class FixedLogProbs(NamedTuple):
    """What was computed before the gradient, and does not change; None where it is not needed."""

    old: LogProbs | None
    """Under the weights that the step began with."""
    reference: LogProbs | None
    """Under the reference policy."""
    chosen: LogProbs | None = None
    """1.0 where a token is chosen by its covariance, by row as log-probs are."""
    unit_tokens: Mapping[int, int] | None = None
    """By the row's index: the trained tokens of its rollout or prompt (`LossSettings.mean_over`)."""


class ValueTargets(NamedTuple):
    """What the critic learns from in a step; by the row's index, as log-probs are."""

    values: LogProbs
    """Its own before the step."""
    returns: LogProbs


class StepRows(NamedTuple):
    """The rows of a step with the advantages that are trained on."""

    rows: Sequence[TrainRow]
    targets: ValueTargets | None = None
    """None: there is no critic."""
    metrics: Mapping[str, float] = {}


class StepPart(NamedTuple):
    """The rows of one optimiser step."""

    indices: Sequence[int]
    """Of the rows that are computed, in the batch."""
    totals: BatchTotals
    """The divisors of the loss, which count the rows that are not computed too."""


class OptimizerStep(NamedTuple):
    """The result of one optimiser step."""

    metrics: Mapping[str, float]
    log_probs: LogProbs
    """The log-probs of its rows under the weights that it began with."""


class Backend(Protocol):
    """What computes log-probs and gradients. Each method returns the same on every process."""

    def score(self, rows: Sequence[TrainRow], indices: Sequence[int], *, reference: bool = False) -> LogProbs:
        """The log-probs of the rows of those indices; `reference`: under the policy's first weights."""
        ...

    def step(self, rows: Sequence[TrainRow], part: StepPart, fixed: FixedLogProbs) -> OptimizerStep:
        """One optimiser step. A gradient that is not finite changes nothing, and is counted."""
        ...


class ValueModel(Protocol):
    """PPO's critic."""

    def values(self, rows: Sequence[TrainRow], indices: Sequence[int]) -> LogProbs:
        """The value before each trained token of the rows of those indices."""
        ...

    def credited(
        self, rows: Sequence[TrainRow], values: LogProbs, penalties: Mapping[int, TokenNumbers] | None = None
    ) -> tuple[list[TrainRow], LogProbs]:
        """The rows with advantages by these values, and the returns that values are to predict. `penalties`: what is
        taken off the reward of each trained token, by the row's index."""
        ...

    def step(self, rows: Sequence[TrainRow], part: Sequence[int], targets: ValueTargets) -> Mapping[str, float]:
        """One optimiser step of its own; its metrics."""
        ...


def train(backend: Backend, batch: Batch, settings: PolicySettings, critic: ValueModel | None = None) -> TrainResult:
    """Train on a batch: the result of the whole step."""
    rows: Sequence[TrainRow] = batch.rows
    threshold = settings.grpo.seq_logprob_error_threshold
    require_trainable(rows, settings.policy.max_total_sequence_length)
    active = [nth for nth, row in enumerate(rows) if row.tokens]
    n_parts, epochs = settings.optimizer_steps(len(active)), settings.grpo.ppo_epochs
    old = backend.score(rows, active) if threshold is not None else None
    masked: set[int] = set()
    if old is not None:
        own = [old[nth].numpy() for nth in active]
        masked = {active[nth] for nth in disagreeing_rows([rows[nth] for nth in active], own, threshold)}
    trained = [nth for nth in active if nth not in masked]
    reference = backend.score(rows, trained, reference=True) if settings.loss.reference_policy_kl_penalty else None
    if old is None and settings.loss.use_kl_in_reward:
        old = backend.score(rows, trained)
    rows, targets, of_advantages = _step_rows(rows, trained, FixedLogProbs(old, reference), settings, critic)
    metrics_of_steps: list[Mapping[str, float]] = []
    warms_up = critic is not None and batch.step < settings.value.policy_training_start_step
    wholes = step_parts(trained, n_parts)
    mean_over = settings.loss.mean_over
    parts = [computed_part(rows, whole, every_row=settings.needs_every_row, mean_over=mean_over) for whole in wholes]
    if old is None and (n_parts * epochs > 1 or settings.loss.chooses_tokens):
        old = backend.score(rows, [nth for part in parts for nth in part.indices])
    log_probs: LogProbs = old or {}
    for at, (whole, part) in enumerate([*zip(wholes, parts, strict=True)] * epochs):
        if critic is not None and targets is not None:
            metrics_of_steps.append(critic.step(rows, whole, targets))
        if warms_up:
            continue
        chosen = None
        if old is not None and settings.loss.chooses_tokens:
            now = backend.score(rows, part.indices) if at else old
            chosen = _choose(rows, part.indices, now, old, settings.loss, (batch.step, at))
        stepped = backend.step(rows, part, FixedLogProbs(old, reference, chosen, unit_tokens(rows, whole, mean_over)))
        metrics_of_steps.append(stepped.metrics)
        log_probs = log_probs if old is not None else stepped.log_probs
    agreement = sum(
        (agreements(rows[nth], values.numpy(), batch.step) for nth, values in log_probs.items()),
        Agreements(),
    )
    counts = {
        "train/optimizer_steps": float(n_parts * epochs if trained else 0),
        "train/rows": float(len(trained)),
        "train/computed_rows": float(sum(len(part.indices) for part in parts)),
    }
    metrics = {**_join_metrics(metrics_of_steps), **agreement.metrics(), **of_advantages, **counts}
    return TrainResult(metrics, tuple(sorted(masked)))


def _step_rows(
    rows: Sequence[TrainRow],
    trained: Sequence[int],
    fixed: FixedLogProbs,
    settings: PolicySettings,
    critic: ValueModel | None,
) -> StepRows:
    """The rows, those of the indices `trained` with advantages that are made in the step, if any are."""
    penalties, targets = _reward_penalties(trained, fixed, settings.loss), None
    if critic is not None:
        values = critic.values(rows, trained)
        rows, returns = critic.credited(rows, values, penalties)
        targets = ValueTargets(values, returns)
    elif settings.grpo.adv_estimator.name == "reinforce_plus_plus":
        charges = None if penalties is None else [penalties[nth] for nth in trained]
        raw = [rows[nth].trained_advantages.astype(np.float64) for nth in trained]
        own = reinforce_plus_plus(raw, charges, settings.grpo)
        rows = with_advantages(rows, dict(zip(trained, own, strict=True)))
    else:
        return StepRows(rows)
    metrics = {f"train/{name}": value for name, value in advantage_metrics([rows[nth] for nth in trained])}
    if penalties:
        metrics["train/kl_in_reward"] = float(np.concatenate(list(penalties.values())).mean())
    return StepRows(rows, targets, metrics)


def _reward_penalties(
    trained: Sequence[int], fixed: FixedLogProbs, loss: LossSettings
) -> dict[int, TokenNumbers] | None:
    """What the KL takes off the reward of each trained token, by the row's index; None: nothing."""
    if not loss.use_kl_in_reward or fixed.old is None or fixed.reference is None:
        return None
    pairs = {nth: (fixed.old[nth].double(), fixed.reference[nth].double()) for nth in trained}
    return {nth: kl.reward_penalty(*pair, loss, ARRAYS).numpy() for nth, pair in pairs.items()}


def token_nll(backend: Backend, batch: Batch, settings: PolicySettings) -> TokenNll:
    """How well the policy predicts the trained tokens of a batch; nothing is learned."""
    require_trainable(batch.rows, settings.policy.max_total_sequence_length)
    active = [nth for nth, row in enumerate(batch.rows) if row.tokens]
    log_probs = backend.score(batch.rows, active).values()
    return TokenNll(-math.fsum(float(values.double().sum()) for values in log_probs), sum(map(len, log_probs)))


def computed_part(
    rows: Sequence[TrainRow], part: Sequence[int], *, every_row: bool, mean_over: MeanOver = "rows"
) -> StepPart:
    """Which rows of an optimiser step are computed: those with an advantage, or where there is none the shortest."""
    chosen = [nth for nth in part if every_row or rows[nth].trained_advantages.any()]
    chosen = chosen or [min(part, key=lambda nth: len(rows[nth].ids))]
    return StepPart(chosen, _counts(rows, part, mean_over)._replace(computed=_counts(rows, chosen, mean_over)))


def _choose(
    rows: Sequence[TrainRow],
    indices: Sequence[int],
    now: LogProbs,
    old: LogProbs,
    settings: LossSettings,
    seed: Sequence[int],
) -> LogProbs:
    """Which tokens of an optimiser step are chosen by their covariance."""
    lengths = [rows[nth].tokens for nth in indices]
    tokens = StepTokens(
        np.concatenate([now[nth].numpy() for nth in indices]),
        np.concatenate([old[nth].numpy() for nth in indices]),
        np.concatenate([rows[nth].trained_advantages for nth in indices]),
    )
    chosen = torch.from_numpy(chosen_tokens(tokens, settings, seed)).float()
    return dict(zip(indices, chosen.split(lengths), strict=True))


def unit_tokens(rows: Sequence[TrainRow], part: Sequence[int], mean_over: MeanOver) -> dict[int, int] | None:
    """By row of an optimiser step: the trained tokens there of its rollout or prompt; None: the loss needs none."""
    if mean_over == "rows":
        return None
    totals: Counter[tuple[int, int]] = Counter()
    for nth in part:
        totals[_unit(rows[nth], mean_over)] += rows[nth].tokens
    return {nth: totals[_unit(rows[nth], mean_over)] for nth in part}


def _unit(row: TrainRow, mean_over: MeanOver) -> tuple[int, int]:
    return row.group, row.member if mean_over == "rollouts" else 0


def _counts(rows: Sequence[TrainRow], indices: Sequence[int], mean_over: MeanOver) -> BatchTotals:
    return BatchTotals(
        tokens=sum(rows[nth].tokens for nth in indices),
        rows=len(indices),
        units=0 if mean_over == "rows" else len({_unit(rows[nth], mean_over) for nth in indices}),
        positive_tokens=sum(rows[nth].tokens for nth in indices if rows[nth].reward > 0),
    )


def loss_of(
    micro: MicroBatch, now: TokenScores, fixed: FixedLogProbs, totals: BatchTotals, settings: LossSettings
) -> tuple[torch.Tensor, LossMetrics]:
    """The micro-batch's part of the loss, a scalar, and of the metrics. `now`: scores of its trained tokens, with a
    gradient, and with entropies."""
    if settings.ratio_against == "generation":
        old: torch.Tensor | None = micro.engine_log_probs
    else:
        old = None if fixed.old is None else micro.flat(fixed.old)
    tokens = TrainedTokens(
        log_probs=now.log_probs,
        engine_log_probs=micro.engine_log_probs,
        advantages=micro.advantages,
        rows=micro.row,
        n_rows=len(micro.rows),
        old_log_probs=old,
        entropies=now.entropies if settings.needs_entropies else now.entropies.detach(),
        unit_tokens=None if fixed.unit_tokens is None else micro.of_rows(fixed.unit_tokens),
        positive=micro.positive,
        chosen=None if fixed.chosen is None else micro.flat(fixed.chosen),
        reference_log_probs=None if fixed.reference is None else micro.flat(fixed.reference),
    )
    return policy_loss(tokens, totals, settings, ARRAYS)


def merge(parts: Iterable[Mapping[int, torch.Tensor]]) -> LogProbs:
    return {nth: values for part in parts for nth, values in part.items()}


def _join_metrics(metrics_of_steps: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Metrics over optimiser steps: means, and extremes where they are extremes."""
    names = {name: None for metrics in metrics_of_steps for name in metrics}
    return {name: _combine([metrics[name] for metrics in metrics_of_steps if name in metrics], name) for name in names}


def _combine(values: Sequence[float], name: str) -> float:
    if name.endswith("_min"):
        return min(values)
    return max(values) if name.endswith("_max") else sum(values) / len(values)
