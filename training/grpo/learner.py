"""What one process of the policy does with a batch: log-probs, loss, gradients, optimiser steps.

Law     every process gets the whole batch and takes its own rows of it. The loss is divided by the trained tokens (or
        rows) of the whole optimiser step, so that neither the number of processes nor micro-batches change it.
        The log-probs before the step are those of the gradient's own forward pass where a batch is one optimiser step;
        where it is several, or rows may be left out for disagreeing, they are computed first.
        A gradient that is not finite changes nothing: the step is skipped, and counted.
Metrics `train/*`: the loss's own (means over the optimiser steps), `grad_norm`, `lr`, agreement with the engine over
        all rows, also those left out for it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from paddock.training.core.agreement import Agreements, agreements, disagreeing
from paddock.training.core.loss import policy_loss
from paddock.training.core.loss_inputs import Tokens, Totals
from paddock.training.core.loss_metrics import LossMetrics
from paddock.training.core.records import Batch, TrainRow
from paddock.training.grpo.language_model import LanguageModel, load_model
from paddock.training.grpo.microbatches import MicroBatch, check, micro_batches, step_parts, trained
from paddock.training.grpo.optimizing import make_optimizer, make_scheduler
from paddock.training.grpo.policy_settings import PolicySettings
from paddock.training.grpo.roles import Trained
from paddock.training.grpo.sharding import Processes, whole
from paddock.training.grpo.torch_arrays import TorchArrays

LogProbs = dict[int, torch.Tensor]
"""By the row's index in the batch: of its trained tokens, on the CPU."""
ARRAYS = TorchArrays()


class Known(NamedTuple):
    """Log-probs that were computed before the gradient; None: not needed."""

    before: LogProbs | None
    reference: LogProbs | None


class Learner:
    """The model, its optimiser, and a frozen copy of the first weights where the loss has a KL term."""

    def __init__(self, settings: PolicySettings, processes: Processes) -> None:
        self._settings = settings
        self._processes = processes
        torch.manual_seed(settings.seed + processes.place.rank)
        self.model = self._language_model()
        self.optimizer = make_optimizer(self.model.model, settings.policy.optimizer)
        self.scheduler = make_scheduler(self.optimizer, settings.policy.scheduler)
        self._reference = None
        if settings.loss.reference_policy_kl_penalty:
            self._reference = self._language_model()
            self._reference.model.requires_grad_(requires_grad=False)

    def train(self, batch: Batch) -> Trained:
        rows, threshold = batch.rows, self._settings.seq_logprob_error_threshold
        check(rows, self._settings.policy.max_total_sequence_length)
        active = [nth for nth, row in enumerate(rows) if any(row.loss_mask)]
        n_steps = self._settings.optimizer_steps(len(active))
        before = self._scored(self.model, rows, active) if n_steps > 1 or threshold is not None else None
        masked: set[int] = set()
        if before is not None:
            own = [_per_id(rows[nth], before[nth]) for nth in active]
            masked = {active[nth] for nth in disagreeing([rows[nth] for nth in active], own, threshold)}
        kept = [nth for nth in active if nth not in masked]
        reference = None if self._reference is None else self._scored(self._reference, rows, kept)
        told: list[dict[str, float]] = []
        found: LogProbs = before or {}
        for part in step_parts(kept, n_steps):
            metrics, log_probs = self._step(rows, part, Known(before, reference))
            told.append(metrics)
            found = found if before is not None else log_probs
        agreement = sum(
            (agreements(rows[nth], _per_id(rows[nth], one), batch.step) for nth, one in found.items()), Agreements()
        )
        counts = {"train/optimizer_steps": float(n_steps if kept else 0), "train/rows": float(len(kept))}
        return Trained({**_joined(told), **agreement.metrics(), **counts}, tuple(sorted(masked)))

    def _step(self, rows: Sequence[TrainRow], part: Sequence[int], known: Known) -> tuple[dict[str, float], LogProbs]:
        """One optimiser step."""
        totals = Totals(tokens=sum(sum(rows[nth].loss_mask) for nth in part), rows=len(part))
        metrics, log_probs = LossMetrics(), LogProbs()
        self.optimizer.zero_grad(set_to_none=True)
        for micro in self._micro_batches(rows, part):
            now, one = self.model.computing(partial(self._backward, micro, totals, known))
            metrics += one
            log_probs |= micro.by_row(now)
        every = self._processes.share((metrics, log_probs))
        lr = float(self.optimizer.param_groups[0]["lr"])
        told = sum((one for one, _ in every), LossMetrics()).metrics()
        return {**told, "train/lr": lr, **self._update()}, _merged(one for _, one in every)

    def _backward(self, micro: MicroBatch, totals: Totals, known: Known) -> tuple[torch.Tensor, LossMetrics]:
        """The micro-batch's part of the gradient."""
        now = self.model.log_probs(micro.ids, micro.row, micro.at)
        loss, metrics = policy_loss(self._tokens(micro, now, known), totals, self._settings.loss, ARRAYS)
        (loss * self._processes.place.world_size).backward()
        return now.detach(), metrics

    def _update(self) -> dict[str, float]:
        parameters = [one for one in self.model.model.parameters() if one.grad is not None]
        limit = self._settings.policy.max_grad_norm
        norm = float(whole(torch.nn.utils.clip_grad_norm_(parameters, math.inf if limit is None else limit)))
        skipped = not math.isfinite(norm)
        if not skipped:
            self.optimizer.step()
            if self.scheduler is not None:
                self.scheduler.step()
        self.optimizer.zero_grad(set_to_none=True)
        return {"train/grad_norm": norm, "train/skipped_updates": float(skipped)}

    def _tokens(self, micro: MicroBatch, now: torch.Tensor, known: Known) -> Tokens[torch.Tensor]:
        if self._settings.loss.ratio_against == "generation":
            before: torch.Tensor | None = micro.engine_log_probs
        else:
            before = None if known.before is None else micro.flat(known.before)
        return Tokens(
            log_probs=now,
            engine_log_probs=micro.engine_log_probs,
            advantages=micro.advantages,
            rows=micro.row,
            n_rows=len(micro.rows),
            before=before,
            reference_log_probs=None if known.reference is None else micro.flat(known.reference),
        )

    def _scored(self, model: LanguageModel, rows: Sequence[TrainRow], indices: Sequence[int]) -> LogProbs:
        own = LogProbs()
        with torch.no_grad():
            for micro in self._micro_batches(rows, indices):
                own |= micro.by_row(model.computing(partial(model.log_probs, micro.ids, micro.row, micro.at)))
        return _merged(self._processes.share(own))

    def _micro_batches(self, rows: Sequence[TrainRow], indices: Sequence[int]) -> Iterable[MicroBatch]:
        place = self._processes.place
        return micro_batches(
            rows,
            indices,
            size=self._settings.policy.train_micro_batch_size,
            rank=place.rank,
            world_size=place.world_size,
            device=self._processes.device,
        )

    def _language_model(self) -> LanguageModel:
        policy = self._settings.policy
        model = self._processes.shard(load_model(policy), policy)
        return LanguageModel(model, policy, sharded=self._processes.sharded)


def _per_id(row: TrainRow, log_probs: torch.Tensor) -> list[float]:
    values = [0.0] * len(row.ids)
    for at, value in zip(trained(row), log_probs.tolist(), strict=True):
        values[at] = value
    return values


def _merged(parts: Iterable[Mapping[int, torch.Tensor]]) -> LogProbs:
    return {nth: one for part in parts for nth, one in part.items()}


def _joined(told: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Over optimiser steps: means, but of extremes."""
    names = {name: None for one in told for name in one}
    return {name: _over([one[name] for one in told if name in one], name) for name in names}


def _over(values: Sequence[float], name: str) -> float:
    if name.endswith("_min"):
        return min(values)
    return max(values) if name.endswith("_max") else sum(values) / len(values)
