"""Runs under an interpreter with torch: the loss beside the published formula on padded tensors, with gradients.

Writes one JSON object: the largest differences of values, gradients, metrics and of parts added, over many cases.
"""

import itertools
import json
import sys
from typing import Any, NamedTuple

import torch

from paddock.training.core.loss import policy_loss
from paddock.training.core.loss_inputs import BatchTotals, TrainedTokens
from paddock.training.core.loss_settings import LossSettings
from paddock.training.core.plain_arrays import PlainArrays, Vector
from paddock.training.grpo.torch_arrays import TorchArrays

LENGTHS = [3, 1, 5]
WIDTH = 6
RATIOS: list[dict[str, Any]] = [
    {},
    {"ratio_clip_c": 1.5},
    {"force_on_policy_ratio": True},
    {"disable_ppo_ratio": True},
    {"sequence_level_importance_ratios": True, "token_level_loss": False},
    {"token_level_loss": False},
]
WEIGHTS: list[dict[str, Any]] = [
    {"use_importance_sampling_correction": False},
    {"truncated_importance_sampling_type": None},
    *(
        {
            "truncated_importance_sampling_type": kind,
            "truncated_importance_sampling_ratio": 1.5,
            "truncated_importance_sampling_ratio_min": 0.7,
        }
        for kind in ("tis", "icepop", "seq-mask-tis")
    ),
]
KLS: list[dict[str, Any]] = [
    {},
    *(
        {
            "reference_policy_kl_penalty": 0.3,
            "reference_policy_kl_type": kind,
            "use_on_policy_kl_approximation": weighted,
            "kl_input_clamp_value": 1.0,
            "kl_output_clamp_value": 1.2,
        }
        for kind in ("k1", "k2", "k3")
        for weighted in (False, True)
    ),
]


class PaddedCase(NamedTuple):
    """Padded: [rows, WIDTH]."""

    now: torch.Tensor
    before: torch.Tensor
    engine: torch.Tensor
    reference: torch.Tensor
    advantages: torch.Tensor
    mask: torch.Tensor


def case(seed: int) -> PaddedCase:
    random = torch.Generator().manual_seed(seed)

    def some(scale: float = 1.0) -> torch.Tensor:
        return scale * torch.randn(len(LENGTHS), WIDTH, generator=random, dtype=torch.float64)

    now = -some().abs()
    mask = torch.tensor([[float(at < length) for at in range(WIDTH)] for length in LENGTHS], dtype=torch.float64)
    return PaddedCase(now, now + some(0.4), now + some(0.4), now + some(), some(2.0), mask)


def flat(one: PaddedCase, now: torch.Tensor, rows: list[int]) -> TrainedTokens[torch.Tensor]:
    on = one.mask[rows] > 0
    return TrainedTokens(
        log_probs=now[rows][on],
        engine_log_probs=one.engine[rows][on],
        advantages=one.advantages[rows][on],
        rows=on.nonzero()[:, 0],
        n_rows=len(rows),
        old_log_probs=one.before[rows][on],
        reference_log_probs=one.reference[rows][on],
    )


def plain(tokens: TrainedTokens[torch.Tensor]) -> TrainedTokens[Vector]:
    arrays = [Vector(x.tolist()) if isinstance(x, torch.Tensor) else x for x in tokens]
    return TrainedTokens(*arrays)  # type: ignore[arg-type]


def published(one: PaddedCase, now: torch.Tensor, keys: LossSettings) -> torch.Tensor:
    """NeMo-RL's `ClippedPGLossFn`, from its formulas, over padded rows."""
    mask = one.mask
    before = now.detach() if keys.force_on_policy_ratio else one.before

    def row_mean(x: torch.Tensor) -> torch.Tensor:
        return (x * mask).sum(-1) / mask.sum(-1)

    def mean(x: torch.Tensor) -> torch.Tensor:
        return (x * mask).sum() / mask.sum() if keys.token_level_loss else row_mean(x).mean()

    loss = mean(_weight(one, before, row_mean, keys) * _surrogate(one, now, before, row_mean, keys))
    if keys.reference_policy_kl_penalty:
        loss = loss + keys.reference_policy_kl_penalty * mean(_kl(one, now, keys))
    return loss


def _surrogate(
    one: PaddedCase, now: torch.Tensor, before: torch.Tensor, row_mean: Any, keys: LossSettings
) -> torch.Tensor:
    if keys.disable_ppo_ratio:
        return -one.advantages * now
    ratio = (now - before).exp()
    if keys.sequence_level_importance_ratios and not keys.force_on_policy_ratio:
        ratio = row_mean(now - before).exp().unsqueeze(-1).expand_as(now)
    bounded = ratio if keys.force_on_policy_ratio else ratio.clamp(0.8, 1.28)
    loss = torch.max(-one.advantages * ratio, -one.advantages * bounded)
    if keys.ratio_clip_c is None:
        return loss
    return torch.where(one.advantages < 0, torch.min(loss, -one.advantages * keys.ratio_clip_c), loss)


def _weight(one: PaddedCase, before: torch.Tensor, row_mean: Any, keys: LossSettings) -> torch.Tensor:
    log = (before - one.engine).detach()
    if not keys.use_importance_sampling_correction:
        return torch.ones_like(log)
    weight = log.exp()
    if keys.sequence_level_importance_ratios:
        weight = (log * one.mask).sum(-1).exp().unsqueeze(-1).expand_as(log)
    if keys.truncated_importance_sampling_type == "tis":
        return weight.clamp(0.7, 1.5)
    if keys.truncated_importance_sampling_type == "icepop":
        return weight * ((weight >= 0.7) & (weight <= 1.5))
    if keys.truncated_importance_sampling_type == "seq-mask-tis":
        means = row_mean(log).exp()
        return weight * ((means >= 0.7) & (means <= 1.5)).unsqueeze(-1)
    return weight


def _kl(one: PaddedCase, now: torch.Tensor, keys: LossSettings) -> torch.Tensor:
    weight = (now - (one.engine if keys.use_on_policy_kl_approximation else now.detach())).exp()
    raw = one.reference - now
    d = raw.clamp(-1, 1)
    weight = torch.where(raw == d, weight, weight.detach())
    estimates = {"k1": -d, "k2": d.square() / 2, "k3": d.exp() - 1 - d}
    return (weight * estimates[keys.reference_policy_kl_type]).clamp(-1.2, 1.2)


def settings() -> list[LossSettings]:
    found = []
    for parts in itertools.product(RATIOS, WEIGHTS, KLS):
        keys: dict[str, Any] = {name: value for part in parts for name, value in part.items()}
        by_row = keys.get("sequence_level_importance_ratios")
        if not (by_row and keys.get("truncated_importance_sampling_type") == "seq-mask-tis"):
            found.append(LossSettings(**keys))
    return found


def difference(x: torch.Tensor | float, y: torch.Tensor | float) -> float:
    return float(torch.as_tensor(x - y).detach().abs().max())


def main() -> None:
    torch.set_num_threads(1)
    totals = BatchTotals(sum(LENGTHS), len(LENGTHS))
    arrays = TorchArrays()
    worst = dict.fromkeys(("value", "gradient", "parts", "plain", "metrics"), 0.0)
    cases = 0
    for keys in settings():
        cases += 1
        one = case(cases)
        now = one.now.clone().requires_grad_()
        expected = published(one, now, keys)
        (wanted,) = torch.autograd.grad(expected, now)
        tokens = flat(one, now, [0, 1, 2])
        loss, measured = policy_loss(tokens, totals, keys, arrays)
        (gradient,) = torch.autograd.grad(loss, now)
        by_hand, counted = policy_loss(plain(tokens), totals, keys, PlainArrays())
        parts = [policy_loss(flat(one, now, rows), totals, keys, arrays)[0] for rows in ([2], [], [0, 1])]
        (added,) = torch.autograd.grad(sum(parts), now)
        found = {
            "value": difference(loss, expected),
            "gradient": difference(gradient, wanted),
            "parts": difference(added, gradient),
            "plain": difference(loss, by_hand.values[0]),
            "metrics": max(abs(counted.metrics()[name] - value) for name, value in measured.metrics().items()),
        }
        worst = {name: max(value, found[name]) for name, value in worst.items()}
    sys.stdout.write(json.dumps({"cases": cases, **worst}))


if __name__ == "__main__":
    main()
