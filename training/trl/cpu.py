"""TRL's asynchronous trainer without a GPU: attention of its packed rows in plain torch.

Why     it computes attention by a FlashAttention-3 kernel alone, and asks CUDA what its device is called.
Law     `prepare` puts both in place for this process; the formula is the kernel's, in float32.
Errors  NotImplementedError for what the kernel can and this can't: capped scores.
"""

import torch


def varlen_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    _max_q: int,
    _max_k: int,
    *,
    softmax_scale: float | None = None,
    causal: bool = True,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
) -> torch.Tensor:
    """Causal attention of segments laid end to end, `[tokens, heads, head]`; a segment's queries are the last of its
    keys. `window_size`: how many keys before its own a query sees; -1: all."""
    if softcap or not causal:
        raise NotImplementedError("attention on a CPU is causal, and its scores are not capped")
    repeats = query.shape[1] // key.shape[1]
    parts = []
    for q0, q1, k0, k1 in zip(
        cu_seqlens_q[:-1].tolist(), cu_seqlens_q[1:].tolist(), cu_seqlens_k[:-1].tolist(), cu_seqlens_k[1:].tolist(),
        strict=True,
    ):  # fmt: skip
        q = query[q0:q1].transpose(0, 1)
        k = key[k0:k1].transpose(0, 1).repeat_interleave(repeats, 0)
        v = value[k0:k1].transpose(0, 1).repeat_interleave(repeats, 0)
        own = (k1 - k0) - (q1 - q0)
        seen = torch.ones(q1 - q0, k1 - k0, dtype=torch.bool).tril(own)
        if window_size[0] >= 0:
            seen = seen.triu(own - window_size[0])
        part = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=softmax_scale)
        parts.append(part.transpose(0, 1))
    return torch.cat(parts)


class _Attention:
    flash_attn_varlen_func = staticmethod(varlen_attention)


def prepare() -> None:
    """Let the trainer run on this machine's CPU; called before it is made."""
    from trl.experimental.async_grpo import async_grpo_trainer, packing

    packing._flash_attn = lambda: _Attention
    async_grpo_trainer.get_peak_flops_per_device = lambda *_args, **_kwargs: None
