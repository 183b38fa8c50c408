"""The computation of one process of the policy on torch: log-probs, loss, gradients, optimiser steps.

Law     each process takes its own rows of a batch (`training_step` says what is done with a batch). FSDP averages
        gradients over processes: the loss is multiplied by their number. A gradient that is not finite changes nothing:
        the step is skipped, and counted.
Metrics of a step: the loss's own, `grad_norm`, `lr`, `skipped_updates`.
"""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import partial

import torch

from paddock.training.core.loss_inputs import BatchTotals
from paddock.training.core.loss_metrics import LossMetrics
from paddock.training.core.records import Batch, TrainRow
from paddock.training.grpo import training_step
from paddock.training.grpo.critic import Critic
from paddock.training.grpo.language_model import LanguageModel, load_model
from paddock.training.grpo.lora import add_adapters, start_adapters, without_adapters
from paddock.training.grpo.microbatches import MicroBatch, RankShare, micro_batches
from paddock.training.grpo.optimizer import make_optimizer, make_scheduler, update
from paddock.training.grpo.policy_settings import PolicySettings
from paddock.training.grpo.roles import TrainResult
from paddock.training.grpo.sharding import DTYPES, ShardGroup
from paddock.training.grpo.training_step import FixedLogProbs, LogProbs, OptimizerStep, StepPart, loss_of, merge


class Learner:
    """`training_step.Backend`: the model, its optimiser, and a frozen copy of the first weights where the loss has a KL
    term; with LoRA the model without its adapters is that copy."""

    def __init__(self, settings: PolicySettings, shard_group: ShardGroup) -> None:
        self._settings = settings
        self._shard_group = shard_group
        torch.manual_seed(settings.grpo.seed + shard_group.rank_info.rank)
        self.model = self._language_model()
        self.optimizer = make_optimizer(self.model.model, settings.policy.optimizer)
        self.scheduler = make_scheduler(self.optimizer, settings.policy.scheduler)
        self.critic = Critic(settings, shard_group) if settings.value.enabled else None
        """None: the group's rewards are the baseline."""
        self._reference = self.model
        if settings.loss.reference_policy_kl_penalty and not settings.policy.dtensor_cfg.lora_cfg.enabled:
            # Nothing is learned in it: float32 would be rounded before each use.
            self._reference = self._language_model(DTYPES[settings.policy.precision])
            self._reference.model.requires_grad_(requires_grad=False)

    def move(self, device: torch.device) -> None:
        """All to the device; what is paged moves by itself."""
        self.model.model.to(device)
        self.move_rest(device)

    def move_rest(self, device: torch.device) -> None:
        """All but the weights that are learned, to the device. Gradients, which each step makes anew, are gone."""
        self.optimizer.zero_grad(set_to_none=True)
        if self._reference is not self.model:
            self._reference.model.to(device)
        for state in self.optimizer.state.values():
            for key, value in state.items():
                if isinstance(value, torch.Tensor) and value.dim() and not getattr(value, "is_paged", False):
                    state[key] = value.to(device)
        if device.type == "cpu" and torch.cuda.is_available():
            torch.cuda.empty_cache()

    def train(self, batch: Batch) -> TrainResult:
        return training_step.train(self, batch, self._settings, self.critic)

    def score(self, rows: Sequence[TrainRow], indices: Sequence[int], *, reference: bool = False) -> LogProbs:
        own = LogProbs()
        model = self._reference if reference else self.model
        with torch.no_grad(), without_adapters(model.model) if reference else nullcontext():
            for micro in self._micro_batches(rows, indices, learn=False):
                own |= micro.by_row(model.computing(partial(model.scores, micro)).log_probs)
        model.release()
        return merge(self._shard_group.share(own))

    def step(self, rows: Sequence[TrainRow], part: StepPart, fixed: FixedLogProbs) -> OptimizerStep:
        metrics, log_probs = self.gradient(rows, part, fixed)
        limit = self._settings.policy.max_grad_norm
        updated = update(self.model.model, self.optimizer, self.scheduler, limit)
        return OptimizerStep({**metrics.metrics(), **updated}, log_probs)

    def gradient(self, rows: Sequence[TrainRow], part: StepPart, fixed: FixedLogProbs) -> tuple[LossMetrics, LogProbs]:
        """Put the gradient into the parameters; the metrics and log-probs that are returned are of all processes."""
        metrics, log_probs = LossMetrics(), LogProbs()
        self.optimizer.zero_grad(set_to_none=True)
        for micro in self._micro_batches(rows, part.indices, learn=True):
            now, micro_metrics = self.model.computing(partial(self._backward, micro, part.totals, fixed))
            metrics += micro_metrics
            log_probs |= micro.by_row(now)
        every = self._shard_group.share((metrics, log_probs))
        return sum((micro_metrics for micro_metrics, _ in every), LossMetrics()), merge(
            micro_metrics for _, micro_metrics in every
        )

    def _backward(
        self, micro: MicroBatch, totals: BatchTotals, fixed: FixedLogProbs
    ) -> tuple[torch.Tensor, LossMetrics]:
        """Add the micro-batch's part of the gradient; its log-probs `[tokens]` and metrics."""
        now = self.model.scores(micro, entropies=True)
        loss, metrics = loss_of(micro, now, fixed, totals, self._settings.loss)
        (loss * self._shard_group.rank_info.world_size).backward()
        return now.log_probs.detach(), metrics

    def _micro_batches(self, rows: Sequence[TrainRow], indices: Sequence[int], *, learn: bool) -> Iterable[MicroBatch]:
        policy, rank_info = self._settings.policy, self._shard_group.rank_info
        return micro_batches(
            rows,
            indices,
            RankShare(rank_info.rank, rank_info.world_size, self._shard_group.device),
            size=policy.train_micro_batch_size,
            capacity=policy.micro_batch_tokens(learn=learn),
            packed=self.model.packed,
        )

    def _language_model(self, dtype: torch.dtype = torch.float32) -> LanguageModel:
        """`dtype`: of its weights."""
        policy = self._settings.policy
        model, lora = load_model(policy, self._shard_group, dtype), policy.dtensor_cfg.lora_cfg
        if lora.enabled:
            add_adapters(model, lora, dtype=DTYPES[policy.precision])
        made = LanguageModel(model, policy, self._shard_group)
        if lora.enabled:
            start_adapters(model, lora, seed=self._settings.grpo.seed)
        return made
