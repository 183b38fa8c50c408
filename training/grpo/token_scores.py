"""Log-probs and entropies of given tokens from hidden states, with the logits of a few tokens at a time.

Formula z = logits / temperature; the log-prob of id y is z_y - log sum_v exp(z_v), the entropy log sum_v exp(z_v) -
        sum_v p_v z_v, in nats. Gradients: d log-prob / dz_v = [v = y] - p_v, d entropy / dz_v = -p_v (log p_v +
        entropy). All in float32 (of float64 in float64), whatever the type of the logits.
Memory  `chunk_size * vocabulary` logits in the type of the computation, and twice as many numbers in float32: the
        backward pass computes the logits of a chunk again. Gradients of the head's weights are summed over chunks in
        float32, so that their number does not show.
Shapes  hidden states `[tokens, hidden size]`; targets, log-probs and entropies `[tokens]`. With tensor parallelism a
        process has the logits of the ids from `first_id` on, `[tokens, vocabulary part]`; the gradient of the hidden
        states is then the part of its ids, and has to be summed over the group.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist


class TokenScores(NamedTuple):
    """What the model says of tokens; both in float32, `[tokens]`, in nats."""

    log_probs: torch.Tensor
    """Of the tokens that are there."""
    entropies: torch.Tensor
    """Of the distributions that they are drawn from; empty where they were not asked for."""


class ModelHead(NamedTuple):
    """What makes logits of hidden states."""

    logits: Callable[[torch.Tensor], torch.Tensor]
    """`[tokens, hidden size]` to `[tokens, vocabulary part]`; also called in the backward pass."""
    weights: Sequence[torch.Tensor]
    """The weights that it uses."""
    first_id: int = 0
    """The id of the first logit."""
    group: Any = None
    """The processes among which the vocabulary is divided; None: this one has all of it."""


class ScoreForm(NamedTuple):
    """How scores are computed."""

    chunk_size: int
    """Tokens of which there are logits at a time."""
    temperature: float = 1.0
    entropies: bool = False
    """Whether entropies are computed."""


def token_scores(hidden: torch.Tensor, targets: torch.Tensor, head: ModelHead, form: ScoreForm) -> TokenScores:
    """The scores of `targets` by the hidden states `hidden`, with gradients for these and for the head's weights."""
    weights = [weight for weight in head.weights if weight.requires_grad]
    return TokenScores(*_Scores.apply(head, form, targets, hidden, *weights))


class _Scores(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any, head: ModelHead, form: ScoreForm, targets: torch.Tensor, hidden: torch.Tensor, *weights: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        found = hidden.new_empty((3, len(hidden)), dtype=_exact(hidden.dtype))
        for part in _chunks(len(hidden), form.chunk_size):
            found[:, part] = _chunk_scores(_scaled(head, form, hidden[part]), targets[part], head, form)
        log_probs, entropies, log_sums = found.unbind()
        ctx.head, ctx.form = head, form
        ctx.save_for_backward(targets, hidden, entropies, log_sums, *weights)
        ctx.set_materialize_grads(False)
        # Copies: views of one tensor may not be returned beside each other.
        return log_probs.clone(), entropies.clone() if form.entropies else entropies[:0].clone()

    @staticmethod
    def backward(ctx: Any, by_log_prob: torch.Tensor | None, by_entropy: torch.Tensor | None) -> Any:
        targets, hidden, entropies, log_sums, *weights = ctx.saved_tensors
        head, form = ctx.head, ctx.form
        by_hidden = torch.zeros_like(hidden)
        by_weights = [torch.zeros_like(weight, dtype=_exact(weight.dtype)) for weight in weights]
        for part in _chunks(len(hidden), form.chunk_size):
            own = hidden[part].detach().requires_grad_()
            with torch.enable_grad():
                logits = head.logits(own)
            by_logits = _by_scaled(
                (logits.detach().to(_exact(logits.dtype)) / form.temperature).sub_(log_sums[part, None]),
                _Local.of(targets[part], head.first_id, logits.shape[1]),
                None if by_log_prob is None else by_log_prob[part, None],
                None if by_entropy is None or not form.entropies else by_entropy[part, None],
                entropies[part, None],
            )
            by_logits = (by_logits / form.temperature).to(logits.dtype)
            by_own, *more = torch.autograd.grad(logits, [own, *weights], by_logits, allow_unused=True)
            by_hidden[part] = by_own
            for total, value in zip(by_weights, more, strict=True):
                if value is not None:
                    total += value
        return (
            None,
            None,
            None,
            by_hidden,
            *(total.to(weight.dtype) for total, weight in zip(by_weights, weights, strict=True)),
        )


class _Local(NamedTuple):
    """Targets as indices into a process's part of the vocabulary."""

    index: torch.Tensor
    """`[tokens, 1]`; 0 where the process does not have the target."""
    here: torch.Tensor
    """`[tokens, 1]`: whether it has it."""

    @classmethod
    def of(cls, targets: torch.Tensor, first_id: int, size: int) -> "_Local":
        index = targets[:, None] - first_id
        here = (index >= 0) & (index < size)
        return cls(index * here, here)


def _scaled(head: ModelHead, form: ScoreForm, hidden: torch.Tensor) -> torch.Tensor:
    logits = head.logits(hidden)
    logits = logits.to(_exact(logits.dtype), copy=True)
    return logits if form.temperature == 1 else logits.div_(form.temperature)


def _chunk_scores(z: torch.Tensor, targets: torch.Tensor, head: ModelHead, form: ScoreForm) -> torch.Tensor:
    """`[3, tokens]`: log-probs, entropies (0 where they are not asked for) and logarithms of sums of exponentials.
    `z` is overwritten."""
    largest = z.amax(-1, keepdim=True)
    if head.group is not None:
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=head.group)
    z -= largest
    target = _Local.of(targets, head.first_id, z.shape[1])
    chosen = (z.gather(1, target.index) * target.here)[:, 0]
    share = z.exp()
    total = share.sum(-1)
    weighted = share.mul_(z).sum(-1) if form.entropies else torch.zeros_like(total)
    sums = torch.stack([chosen, total, weighted])
    if head.group is not None:
        dist.all_reduce(sums, group=head.group)
    chosen, total, weighted = sums.unbind()
    entropies = total.log() - weighted / total if form.entropies else weighted
    return torch.stack([chosen - total.log(), entropies, total.log() + largest[:, 0]])


def _by_scaled(
    log_p: torch.Tensor,
    target: _Local,
    by_log_prob: torch.Tensor | None,
    by_entropy: torch.Tensor | None,
    entropies: torch.Tensor,
) -> torch.Tensor:
    """The gradient of `z`, `[tokens, vocabulary part]`, from the log-probs of all ids and the gradients of the scores
    `[tokens, 1]`. `log_p` is overwritten."""
    if by_entropy is None:
        gradient = log_p.exp_()
        if by_log_prob is None:
            return gradient.zero_()
        gradient.mul_(-by_log_prob)
    else:
        share = log_p.exp()
        gradient = log_p.add_(entropies).mul_(by_entropy)
        if by_log_prob is not None:
            gradient.add_(by_log_prob)
        gradient.mul_(share).neg_()
    if by_log_prob is not None:
        gradient.scatter_add_(1, target.index, by_log_prob * target.here)
    return gradient


def _chunks(n_tokens: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, n_tokens, size))


def _exact(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
