"""Micro-batches through the stages of a model of Megatron-core, by its own schedule.

Shapes  logits `[rows, length, vocabulary / tensor parallel]`; log-probs flat, of the trained tokens of a micro-batch,
        in float32, of the distribution at the sampling temperature (see `language_model`).
Padding on the right up to what the layout divides a sequence by; attention is causal, so that no trained token sees it.
Law     gradients are right only by core's schedule: it runs `finalize_model_grads` at the end, which adds up what
        tensor-parallel processes have of weights that they share (norms of queries and keys among them), and data-
        parallel ones of all. A loop around `backward` of one's own has the right loss and the wrong gradients.
Scale   the schedule divides by the number of micro-batches and data parallelism averages over its processes: the loss
        is multiplied by both, for it is divided by the whole step's tokens already.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from megatron.core.models.gpt.gpt_layer_specs import HAVE_TE
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.tensor_parallel import vocab_parallel_cross_entropy
from torch.nn.functional import pad

from paddock.training.grpo.microbatches import MicroBatch

Loss = Callable[[MicroBatch, torch.Tensor], tuple[torch.Tensor, Any]]
"""A micro-batch and its log-probs -> its part of the loss, and what is told of it."""


class Shape(NamedTuple):
    """How micro-batches are given to the model."""

    divisor: int
    """Of the length of every sequence."""
    temperature: float


def run(models: list[Any], micros: Sequence[MicroBatch], shape: Shape, loss: Loss, *, learn: bool) -> list[Any]:
    """What `loss` told of each micro-batch, in order, on the last stage; empty on the others. `learn`: gradients are in
    the models' buffers afterwards."""
    if not micros:
        return []

    def step(batches: Iterator[MicroBatch], model: Any) -> tuple[torch.Tensor, Callable[[torch.Tensor], Any]]:
        micro = next(batches)
        return _outputs(model, micro, shape), partial(told, micro)

    def told(micro: MicroBatch, logits: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return loss(micro, log_probs(logits, micro, shape.temperature))

    schedule = get_forward_backward_func()
    with torch.set_grad_enabled(learn):
        found: list[Any] = schedule(
            forward_step_func=step,
            data_iterator=iter(micros),
            model=models,
            num_microbatches=len(micros),
            seq_length=max(_padded(one.ids.shape[1], shape.divisor) for one in micros),
            micro_batch_size=max(one.ids.shape[0] for one in micros),
            forward_only=not learn,
        )
    return found


def log_probs(logits: torch.Tensor, micro: MicroBatch, temperature: float) -> torch.Tensor:
    """Over a vocabulary that tensor-parallel processes have parts of; no process gathers it."""
    chosen = logits[micro.row, micro.at - 1].float()
    if not micro.at.numel():
        return chosen.sum(-1)
    if temperature != 1:
        chosen = chosen / temperature
    return -vocab_parallel_cross_entropy(chosen, micro.ids[micro.row, micro.at])


def _outputs(model: Any, micro: MicroBatch, shape: Shape) -> torch.Tensor:
    length = _padded(micro.ids.shape[1], shape.divisor)
    ids = pad(micro.ids, (0, length - micro.ids.shape[1]))
    positions = torch.arange(length, device=ids.device).expand_as(ids)
    mask = None
    if not HAVE_TE:  # whose attention knows that it is causal
        mask = torch.ones(length, length, dtype=torch.bool, device=ids.device).triu(1)[None, None]
    found: torch.Tensor = model(input_ids=ids, position_ids=positions, attention_mask=mask)
    return found


def _padded(length: int, divisor: int) -> int:
    return -(-length // divisor) * divisor
