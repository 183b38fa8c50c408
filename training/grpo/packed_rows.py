"""Several rows in one sequence, for models of Transformers: each attends to itself alone.

Shapes  `ids`, `positions` `[1, tokens]`, rows one after the other without padding; positions begin at 0 with each.
Law     attention is torch's own (`sdpa`), row by row: no kernel is slowed down by a mask, and no mask of a whole
        sequence is held. Only a row that is longer than a layer's window has one of its own.
Models  only those whose layers mix tokens by attention alone, full or in a window, through Transformers' interface: in
        others (linear attention, Mamba, convolutions, indexed attention) a row's end would reach the next one.
"""

from itertools import accumulate
from typing import Any, NamedTuple

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from paddock.training.grpo.microbatches import MicroBatch

PACKED = "sdpa_by_row"
"""The name under which Transformers finds the attention of packed rows."""
_LAYERS = {"full_attention", "sliding_attention", "dense", "sparse"}
"""Kinds of layers, also of those without attention, through which a row does not reach another one."""


class PackedIds(NamedTuple):
    """The rows of a micro-batch in one sequence; shapes are given above."""

    ids: torch.Tensor
    positions: torch.Tensor
    lengths: tuple[int, ...]
    at: torch.Tensor
    """`[tokens]`: the index in the sequence of each trained token."""


def pack_ids(micro: MicroBatch) -> PackedIds:
    lengths = tuple(micro.lengths)
    starts = torch.tensor([0, *accumulate(lengths)], device=micro.ids.device)
    ids = torch.cat([row[:length] for row, length in zip(micro.ids, lengths, strict=True)])
    positions = torch.cat([torch.arange(length, device=ids.device) for length in lengths])
    return PackedIds(ids[None], positions[None], lengths, starts[micro.row] + micro.at)


def why_not_packed(model: Any) -> str | None:
    """Why rows of the model can't share a sequence; None: they can."""
    config = model.config
    others = sorted(set(getattr(config, "layer_types", None) or ()) - _LAYERS)
    if others:
        return f"it has layers of the kind {others[0]}"
    if model._is_stateful or any(isinstance(module, torch.nn.Conv1d) for module in model.modules()):
        return "some of its layers keep a state from token to token"
    if not model._supports_attention_backend or config._attn_implementation != "sdpa":
        return "its attention is not torch's, by Transformers' interface"
    return None


def pack_attention(model: Any) -> None:
    """Have the model compute attention row by row; its forward pass needs `row_lengths` then."""
    AttentionInterface.register(PACKED, _attention)
    model.set_attn_implementation(PACKED)


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    _mask: Any,
    *,
    row_lengths: tuple[int, ...],
    sliding_window: int | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """`[1, tokens, heads, head size]`, from queries, keys and values `[1, heads, tokens, head size]`."""
    rows = zip(*(part.split(row_lengths, dim=2) for part in (query, key, value)), strict=True)
    outputs = [sdpa_attention_forward(module, *row, _window_mask(row[0], sliding_window), **options)[0] for row in rows]
    return torch.cat(outputs, dim=1), None


def _window_mask(query: torch.Tensor, window: int | None) -> torch.Tensor | None:
    """`[1, 1, length, length]`, True where a token of a row attends; None: to all that are not after it."""
    length = query.shape[2]
    if window is None or length <= window:
        return None
    seen = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
    return seen.triu(1 - window)[None, None]
