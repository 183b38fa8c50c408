"""The computation of one process of the policy on Megatron-core: log-probs, loss, gradients, optimiser steps.

Law     as on torch (`training_step`), with the same loss and the same metrics. Weights are loaded before the optimizer
        is made, which keeps its own of them; routers are frozen before both. A gradient that is not finite changes
        nothing: the step is skipped, and counted.
Errors  ConfigError for a model or a layout that can't be made.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.distributed import finalize_model_grads
from megatron.core.models.gpt.gpt_layer_specs import HAVE_TE
from megatron.core.utils import get_model_config

from paddock.errors import ConfigError
from paddock.training.core.loss_metrics import LossMetrics
from paddock.training.core.records import Batch, TrainRow
from paddock.training.grpo import training_step
from paddock.training.grpo.megatron.conversions import make_conversion
from paddock.training.grpo.megatron.forward import Forward, without_logits
from paddock.training.grpo.megatron.inputs import InputForm
from paddock.training.grpo.megatron.optimizer import in_precision, make_optimizer, make_scheduler, with_gradients
from paddock.training.grpo.megatron.ranks import Ranks
from paddock.training.grpo.megatron.router_replay import ExpertReplay, as_routed
from paddock.training.grpo.microbatches import MicroBatch, RankShare, micro_batches
from paddock.training.grpo.policy_config import PolicyConfig
from paddock.training.grpo.policy_settings import PolicySettings
from paddock.training.grpo.roles import TrainResult
from paddock.training.grpo.routers import freeze_routers
from paddock.training.grpo.token_scores import ScoreForm, TokenScores
from paddock.training.grpo.training_step import FixedLogProbs, LogProbs, OptimizerStep, StepPart, loss_of, merge


class MegatronLearner:
    """`training_step.Backend`: this process's stages, their optimizer, and a frozen copy of the first weights where the
    loss has a KL term."""

    def __init__(self, settings: PolicySettings, ranks: Ranks) -> None:
        self._settings = settings
        self._ranks = ranks
        policy = settings.policy
        self._forward = Forward(_form(policy), ScoreForm(policy.logprob_chunk_size, policy.generation.temperature))
        self.conversion = make_conversion(policy)
        stages = in_precision(self._load_stages(), policy)
        self.models = with_gradients(stages, policy.megatron_cfg)
        self.optimizer = make_optimizer(self.models, policy)
        self.scheduler = make_scheduler(self.optimizer, policy.megatron_cfg)
        self._configure_schedule()
        replay = policy.router_replay
        self._replay = ExpertReplay(self.models, of_engine=replay.mode == "R3") if replay.enabled else None
        self._reference = self.models
        if settings.loss.reference_policy_kl_penalty:
            self._reference = in_precision(self._load_stages(), policy)
            for model in self._reference:
                model.requires_grad_(requires_grad=False)

    def train(self, batch: Batch) -> TrainResult:
        if self._replay is not None:
            self._replay.forget()
        return training_step.train(self, batch, self._settings)

    def score(self, rows: Sequence[TrainRow], indices: Sequence[int], *, reference: bool = False) -> LogProbs:
        def evaluate(micro: MicroBatch, now: TokenScores) -> tuple[torch.Tensor, LogProbs]:
            return now.log_probs.sum(), micro.by_row(now.log_probs)

        models = self._reference if reference else self.models
        routing = as_routed if self._replay is None or reference else self._replay.scoring(rows)
        micros = self._micro_batches(rows, indices, learn=False)
        answers = self._forward.run(models, micros, evaluate, learn=False, routing=routing)
        return merge(log_probs for own in self._answers(answers) for log_probs in own)

    def step(self, rows: Sequence[TrainRow], part: StepPart, fixed: FixedLogProbs) -> OptimizerStep:
        metrics, log_probs = self.gradient(rows, part, fixed)
        lr = float(self.optimizer.param_groups[0]["lr"])
        return OptimizerStep({**metrics.metrics(), "train/lr": lr, **self._update()}, log_probs)

    def gradient(self, rows: Sequence[TrainRow], part: StepPart, fixed: FixedLogProbs) -> tuple[LossMetrics, LogProbs]:
        """Put the gradient into the models' buffers; the metrics and log-probs that are returned are of all
        processes."""
        micros = self._micro_batches(rows, part.indices, learn=True)
        scale = self._ranks.data_size * len(micros)

        def evaluate(micro: MicroBatch, now: TokenScores) -> tuple[torch.Tensor, tuple[LossMetrics, LogProbs]]:
            loss, metrics = loss_of(micro, now, fixed, part.totals, self._settings.loss)
            return loss * scale, (metrics, micro.by_row(now.log_probs))

        self._zero()
        routing = as_routed if self._replay is None else self._replay.learning(rows)
        own = self._forward.run(self.models, micros, evaluate, learn=True, routing=routing)
        answers = [answer for of_group in self._answers(own) for answer in of_group]
        return sum((metrics for metrics, _ in answers), LossMetrics()), merge(log_probs for _, log_probs in answers)

    def _update(self) -> dict[str, float]:
        self.optimizer.prepare_grads()
        norm = float(self.optimizer.get_grad_norm())
        skipped = not math.isfinite(norm)
        if not skipped:
            self.optimizer.step()
            self.scheduler.step(1)
        self._zero()
        return {"train/grad_norm": norm, "train/skipped_updates": float(skipped)}

    def _zero(self) -> None:
        for model in self.models:
            model.zero_grad_buffer()
        self.optimizer.zero_grad()

    def _answers(self, answers: list[Any]) -> list[list[Any]]:
        """The answers of each data-parallel group, in order; the same on every process."""
        return self._ranks.share(answers if self._ranks.answers else [])

    def _micro_batches(self, rows: Sequence[TrainRow], indices: Sequence[int], *, learn: bool) -> list[MicroBatch]:
        policy, ranks = self._settings.policy, self._ranks
        return list(
            micro_batches(
                rows,
                indices,
                RankShare(ranks.data_rank, ranks.data_size, ranks.device),
                size=policy.train_micro_batch_size,
                capacity=policy.micro_batch_tokens(learn=learn),
                packed=policy.sequence_packing.enabled,
            )
        )

    def _load_stages(self) -> list[Any]:
        config = self._settings.policy.megatron_cfg
        models = self.conversion.models()
        if models[0].config.num_moe_experts and config.tensor_model_parallel_size > 1 and not config.sequence_parallel:
            raise ConfigError(
                "policy.megatron_cfg: a model with experts and tensor_model_parallel_size above 1 need "
                "sequence_parallel: set it to true",
                kind="layout",
            )
        self.conversion.load(models)
        for model in models:
            if self._settings.policy.freeze_moe_router:
                freeze_routers(model)
            without_logits(model)
            model.train()
        return models

    def _configure_schedule(self) -> None:
        config = get_model_config(self.models[0])
        config.finalize_model_grads_func = finalize_model_grads
        config.grad_scale_func = self.optimizer.scale_loss
        if self._settings.policy.megatron_cfg.distributed_data_parallel_config.overlap_grad_reduce:
            config.no_sync_func = self.models[0].no_sync


def _form(policy: PolicyConfig) -> InputForm:
    size = policy.megatron_cfg.context_parallel_size
    if size > 1 and not HAVE_TE:
        raise ConfigError(
            "policy.megatron_cfg.context_parallel_size above 1 needs TransformerEngine, which is not there",
            kind="transformer_engine",
        )
    return InputForm(
        divisor=policy.megatron_cfg.length_divisor,
        packed=policy.sequence_packing.enabled,
        fused=HAVE_TE,
        context_size=size,
        context_rank=parallel_state.get_context_parallel_rank(),
    )
