"""Micro-batches through the stages of a model of Megatron-core, by its own schedule.

Shapes  logits `[rows, length, vocabulary / tensor parallel]`; log-probs flat, of the trained tokens of a micro-batch,
        in float32, of the distribution at the sampling temperature (see `language_model`).
Law     gradients are right only by core's schedule: it runs `finalize_model_grads` at the end, which adds up what
        tensor-parallel processes have of weights that they share (norms of queries and keys among them), and data-
        parallel ones of all. A loop around `backward` of one's own has the right loss and the wrong gradients.
Scale   the schedule divides by the number of micro-batches and data parallelism averages over its processes: the loss
        is multiplied by both, for it is divided by the whole step's tokens already. Of context-parallel processes each
        has every log-prob, and the gradient of those that it computed.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.tensor_parallel import vocab_parallel_cross_entropy

from paddock.training.grpo.megatron.inputs import InputForm, Inputs, inputs_of, keywords, own_indices, whole_length
from paddock.training.grpo.microbatches import MicroBatch

Loss = Callable[[MicroBatch, torch.Tensor], tuple[torch.Tensor, Any]]
"""A micro-batch and its log-probs `[tokens]` -> its part of the loss, a scalar, and any report on it."""


class Forward:
    """Forward and backward passes with one input form, at one sampling temperature."""

    def __init__(self, form: InputForm, temperature: float) -> None:
        self._form = form
        self._temperature = temperature

    def run(self, models: list[Any], micros: Sequence[MicroBatch], loss: Loss, *, learn: bool) -> list[Any]:
        """The reports of `loss` on each micro-batch, in order, on the last stage; empty on the others. `learn`:
        gradients are in the models' buffers afterwards."""
        if not micros:
            return []
        inputs_by_micro = [inputs_of(micro, self._form) for micro in micros]

        def step(batches: Iterator[Any], model: Any) -> tuple[torch.Tensor, Callable[[torch.Tensor], Any]]:
            micro, inputs = next(batches)
            return model(**keywords(inputs)), partial(loss_of_logits, micro, inputs)

        def loss_of_logits(micro: MicroBatch, inputs: Inputs, logits: torch.Tensor) -> tuple[torch.Tensor, Any]:
            return loss(micro, self._log_probs(logits, micro, inputs))

        schedule = get_forward_backward_func()
        with torch.set_grad_enabled(learn):
            reports: list[Any] = schedule(
                forward_step_func=step,
                data_iterator=iter(zip(micros, inputs_by_micro, strict=True)),
                model=models,
                num_microbatches=len(micros),
                seq_length=max(inputs.ids.shape[1] for inputs in inputs_by_micro),
                micro_batch_size=max(inputs.ids.shape[0] for inputs in inputs_by_micro),
                forward_only=not learn,
            )
        return reports

    def _log_probs(self, logits: torch.Tensor, micro: MicroBatch, inputs: Inputs) -> torch.Tensor:
        """`[tokens]`, from `logits` `[rows, length, vocabulary part]`; no process gathers the whole vocabulary."""
        flat, targets = logits.flatten(0, 1), micro.ids[micro.row, micro.at]
        if inputs.own is None:
            return self._chosen(flat, inputs.at, targets)
        own_at = own_indices(inputs, whole_length(inputs))[inputs.at]
        here = own_at >= 0
        own = torch.zeros(len(targets), device=flat.device)
        own = own.masked_scatter(here, self._chosen(flat, own_at[here], targets[here]))
        every = own.detach().clone()
        dist.all_reduce(every, group=parallel_state.get_context_parallel_group())
        return own + (every - own.detach())

    def _chosen(self, logits: torch.Tensor, at: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Log-probs `[tokens]` of `targets` `[tokens]` by the logits `[positions, vocabulary part]` at `at`
        `[tokens]`."""
        chosen = logits[at].float()
        if not at.numel():
            return chosen.sum(-1)
        if self._temperature != 1:
            chosen = chosen / self._temperature
        return -vocab_parallel_cross_entropy(chosen, targets)
