"""A micro-batch as the model's inputs: its rows side by side, padded, or one after the other in one sequence.

Shapes  `ids`, `positions` [rows, length], or [1, tokens]. `at`: for each trained token, where the logits are that
        predict it, as an index into the flat positions of the whole micro-batch.
Divisor every row's length is padded to a multiple of it (tensor, and twice context parallel). Padding is on the right
        and attention is causal, so that no trained token sees it.
Packed  a row attends to itself alone: TransformerEngine gets the ends of rows; core's local attention gets a mask.
        Rotary positions are relative: where a row begins in the sequence changes nothing.
Context parallel processes have of each row two of `2 * size` pieces: the one of their rank, and its mirror image, so
        that each has as much of the causal triangle. Only packed, and with TransformerEngine.
"""

from itertools import accumulate
from typing import Any, NamedTuple

import torch

from paddock.training.grpo.microbatches import MicroBatch


class Inputs(NamedTuple):
    """The inputs of one process; shapes are given above."""

    ids: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor | None
    """Boolean, `[1, 1, length, length]`; True: not attended to; None: TransformerEngine's attention has the lengths."""
    ends: torch.Tensor | None
    """`[rows + 1]`: 0 and the end of each packed row in the whole sequence; None: rows are side by side."""
    at: torch.Tensor
    own: torch.Tensor | None
    """`[tokens of this process]`: the indices of the whole sequence that it has; None: all."""


class InputForm(NamedTuple):
    """How micro-batches are laid out for the model."""

    divisor: int
    packed: bool
    fused: bool
    """Whether TransformerEngine's attention is used."""
    context_size: int = 1
    context_rank: int = 0


def inputs_of(micro: MicroBatch, form: InputForm) -> Inputs:
    return _packed(micro, form) if form.packed else _side_by_side(micro, form)


def padded(length: int, divisor: int) -> int:
    return -(-length // divisor) * divisor


def _side_by_side(micro: MicroBatch, form: InputForm) -> Inputs:
    length = padded(micro.ids.shape[1], form.divisor)
    ids = torch.nn.functional.pad(micro.ids, (0, length - micro.ids.shape[1]))
    positions = torch.arange(length, device=ids.device).expand_as(ids)
    mask = None if form.fused else _unseen(positions[0], torch.zeros_like(positions[0]))
    return Inputs(ids, positions, mask, None, micro.row * length + micro.at - 1, None)


def _packed(micro: MicroBatch, form: InputForm) -> Inputs:
    device = micro.ids.device
    lengths = [padded(length, form.divisor) for length in micro.lengths]
    ends = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=device)
    rows = [
        torch.nn.functional.pad(ids[:real], (0, length - real))
        for ids, real, length in zip(micro.ids, micro.lengths, lengths, strict=True)
    ]
    ids, positions = torch.cat(rows), torch.cat([torch.arange(length, device=device) for length in lengths])
    at = ends[micro.row].long() + micro.at - 1
    row = torch.repeat_interleave(torch.arange(len(lengths), device=device), torch.tensor(lengths, device=device))
    mask = None if form.fused else _unseen(torch.arange(len(ids), device=device), row)
    own = None
    if form.context_size > 1:
        own = torch.cat([start + _pieces(n, form, device) for start, n in zip(ends.tolist(), lengths, strict=False)])
        ids, positions = ids[own], positions[own]
    return Inputs(ids[None], positions[None], mask, ends, at, own)


def _unseen(at: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    """`[1, 1, tokens, tokens]`, True for later tokens and those of other rows."""
    return ((at[:, None] < at) | (row[:, None] != row))[None, None]


def _pieces(length: int, form: InputForm, device: torch.device) -> torch.Tensor:
    pieces = torch.arange(length, device=device).chunk(2 * form.context_size)
    return torch.cat([pieces[form.context_rank], pieces[-1 - form.context_rank]])


def own_indices(inputs: Inputs, n_tokens: int) -> torch.Tensor:
    """`[n_tokens]`: for each index of the whole sequence its index in this process's part; -1: it has it not."""
    indices = torch.full((n_tokens,), -1, device=inputs.ids.device)
    if inputs.own is not None:
        indices[inputs.own] = torch.arange(len(inputs.own), device=inputs.ids.device)
    return indices


def whole_length(inputs: Inputs) -> int:
    return int(inputs.ids.numel()) if inputs.own is None or inputs.ends is None else int(inputs.ends[-1])


def stage_of(model: Any) -> Any:
    """The `GPTModel` in what is wrapped around it."""
    while hasattr(model, "module"):
        model = model.module
    return model


def keywords(inputs: Inputs) -> dict[str, Any]:
    """The keyword arguments of the model's forward pass."""
    arguments: dict[str, Any] = {
        "input_ids": inputs.ids,
        "position_ids": inputs.positions,
        "attention_mask": inputs.mask,
    }
    if inputs.ends is not None and inputs.mask is None:
        from megatron.core.packed_seq_params import PackedSeqParams

        longest = int(inputs.ends.diff().max())
        arguments["packed_seq_params"] = PackedSeqParams(
            qkv_format="thd",
            cu_seqlens_q=inputs.ends,
            cu_seqlens_kv=inputs.ends,
            max_seqlen_q=longest,
            max_seqlen_kv=longest,
        )
    return arguments
