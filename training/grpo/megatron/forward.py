"""Micro-batches through the stages of a model of Megatron-core, by its own schedule.

Shapes  the last stage gives hidden states `[rows, length, hidden size]` (a part of the length with sequence
        parallelism); scores are flat, of the trained tokens of a micro-batch (see `token_scores`).
Law     gradients are right only by core's schedule: it runs `finalize_model_grads` at the end, which adds up what
        tensor-parallel processes have of weights that they share (norms of queries and keys among them), and data-
        parallel ones of all. A loop around `backward` of one's own has the right loss and the wrong gradients.
Logits  core's output layer would make those of all tokens at once, and core's cross entropy gives no entropies: the
        layer passes hidden states on, and `token_scores` uses its weight, a few tokens at a time.
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
from megatron.core.tensor_parallel.mappings import (
    copy_to_tensor_model_parallel_region,
    gather_from_sequence_parallel_region,
)
from megatron.core.transformer.module import Float16Module

from paddock.training.grpo.megatron.inputs import (
    InputForm,
    Inputs,
    inputs_of,
    keywords,
    own_indices,
    stage_of,
    whole_length,
)
from paddock.training.grpo.megatron.router_replay import Routing, as_routed
from paddock.training.grpo.microbatches import MicroBatch
from paddock.training.grpo.token_scores import ModelHead, ScoreForm, TokenScores, token_scores

Loss = Callable[[MicroBatch, TokenScores], tuple[torch.Tensor, Any]]
"""A micro-batch and its scores -> its part of the loss, a scalar, and any report on it."""


def without_logits(stage: Any) -> None:
    """Have a stage (`GPTModel`) give its last hidden states in place of logits."""
    if stage.post_process:
        stage.output_layer.forward = lambda hidden, **_: (hidden, None)


class Forward:
    """Forward and backward passes with one input form, at one sampling temperature."""

    def __init__(self, form: InputForm, scores: ScoreForm) -> None:
        self._form = form
        self._score_form = scores

    def run(
        self,
        models: list[Any],
        micros: Sequence[MicroBatch],
        loss: Loss,
        *,
        learn: bool,
        routing: Routing = as_routed,
    ) -> list[Any]:
        """The reports of `loss` on each micro-batch, in order, on the last stage; empty on the others. `learn`:
        gradients are in the models' buffers afterwards."""
        if not micros:
            return []
        inputs_by_micro = [inputs_of(micro, self._form) for micro in micros]

        def step(batches: Iterator[Any], model: Any) -> tuple[torch.Tensor, Callable[[torch.Tensor], Any]]:
            micro, inputs = next(batches)
            more = _arguments_of_wrapping(model)
            return model(**keywords(inputs), **more), partial(loss_of_hidden, micro, inputs, stage_of(model))

        def loss_of_hidden(
            micro: MicroBatch, inputs: Inputs, stage: Any, hidden: torch.Tensor
        ) -> tuple[torch.Tensor, Any]:
            return loss(micro, self._scores(hidden, micro, inputs, stage, entropies=learn))

        schedule = get_forward_backward_func()
        with routing(micros, inputs_by_micro), torch.set_grad_enabled(learn):
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

    def _scores(
        self, hidden: torch.Tensor, micro: MicroBatch, inputs: Inputs, stage: Any, *, entropies: bool
    ) -> TokenScores:
        """The scores of the micro-batch's trained tokens; no process gathers the whole vocabulary."""
        divided = stage.config.sequence_parallel
        if divided:  # by core, along the first axis; in the backward pass it sums over processes
            whole = gather_from_sequence_parallel_region(hidden.transpose(0, 1), tensor_parallel_output_grad=True)
            hidden = whole.transpose(0, 1)
        flat, targets, head = hidden.flatten(0, 1), micro.ids[micro.row, micro.at], _head_of(stage)
        at, here = inputs.at, None
        if inputs.own is not None:
            own_at = own_indices(inputs, whole_length(inputs))[inputs.at]
            here = own_at >= 0
            at, targets = own_at[here], targets[here]
        chosen = flat[at] if divided else copy_to_tensor_model_parallel_region(flat[at])
        scores = token_scores(chosen, targets, head, self._score_form._replace(entropies=entropies))
        return scores if here is None else TokenScores(*(_of_all(value, here) for value in scores))


def _of_all(own: torch.Tensor, here: torch.Tensor) -> torch.Tensor:
    """`[tokens]`, from the values of this context-parallel process and those of the others, without their gradient."""
    if len(own) != int(here.sum()):  # not computed
        return own
    mine = torch.zeros(len(here), device=own.device).masked_scatter(here, own)
    every = mine.detach().clone()
    dist.all_reduce(every, group=parallel_state.get_context_parallel_group())
    return mine + (every - mine.detach())


def _arguments_of_wrapping(model: Any) -> dict[str, Any]:
    """Hidden states stay in the type of the computation."""
    while hasattr(model, "module"):
        if isinstance(model, Float16Module):
            return {"fp32_output": False}
        model = model.module
    return {}


def _head_of(stage: Any) -> ModelHead:
    shared = stage.share_embeddings_and_output_weights
    weight = stage.shared_embedding_or_output_weight() if shared else stage.output_layer.weight
    bias = stage.output_layer.bias
    first = len(weight) * parallel_state.get_tensor_model_parallel_rank()
    group = parallel_state.get_tensor_model_parallel_group()
    return ModelHead(
        lambda hidden: torch.nn.functional.linear(hidden, weight, bias),
        [weight] if bias is None else [weight, bias],
        first,
        group if dist.get_world_size(group) > 1 else None,
    )
