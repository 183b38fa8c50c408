"""One batch for the losses of all libraries, made of samples, and how far a library's loss is from ours over it.

Runs    under the interpreters of trainers: torch is needed.
Policy  log-probs of the step's first and of its current weights are the engine's, moved by waves of a fixed size:
        ratios and weights on both sides of every bound, the same ones for every library.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from paddock.training.core.advantages import advantages
from paddock.training.core.loss import policy_loss
from paddock.training.core.loss_inputs import BatchTotals, TrainedTokens
from paddock.training.core.loss_settings import LossSettings
from paddock.training.core.settings import GrpoSettings
from paddock.training.grpo.torch_arrays import TorchArrays
from paddock.types import JsonObject

LARGEST = -1e-3
"""Log-prob that was moved: nearer to 0 there is no other token that logits of float32 could show."""
CLIP = {"ratio_clip_min": 0.2, "ratio_clip_max": 0.28}
WEIGHED: dict[str, Any] = {
    "one_step": True,
    "disable_ppo_ratio": True,
    "truncated_importance_sampling_type": "tis",
    "truncated_importance_sampling_ratio_min": 0.8,
    "truncated_importance_sampling_ratio": 1.28,
}
"""REINFORCE with bounded weights of the engine's samples."""


class LossBatch(NamedTuple):
    """Whole sequences, padded on the right: `[rows, tokens]`."""

    now: torch.Tensor
    """Log-probs under the current weights, with a gradient."""
    old: torch.Tensor
    """Under those that the step began with."""
    engine: torch.Tensor
    advantages: torch.Tensor
    mask: torch.Tensor
    """1.0 where a token is trained on."""

    @classmethod
    def of(cls, samples: Sequence[JsonObject]) -> "LossBatch":
        """The batch of samples with `row`, `log_probs`, `loss_mask` and `reward`."""
        width = max(len(sample["loss_mask"]) for sample in samples)

        def padded(rows: Sequence[Sequence[float]]) -> torch.Tensor:
            return torch.tensor([[*row, *[0.0] * (width - len(row))] for row in rows], dtype=torch.float64)

        engine = padded([sample["log_probs"] for sample in samples])
        mask = padded([sample["loss_mask"] for sample in samples])
        place = torch.arange(width, dtype=torch.float64)
        old = (engine + 0.6 * torch.sin(1.7 * place) * mask).clamp(max=LARGEST)
        now = (old + 0.5 * torch.sin(2.3 * place + 1) * mask).clamp(max=LARGEST)
        return cls(now.requires_grad_(), old, engine, padded(_advantages(samples)), mask)

    @property
    def totals(self) -> BatchTotals:
        return BatchTotals(int(self.mask.sum()), len(self.mask))

    def ours(self, *, one_step: bool = False, **settings: Any) -> torch.Tensor:
        """The loss of `training/core`. `one_step`: the batch is one optimiser step, whose first weights are the current
        ones."""
        on = self.mask > 0
        tokens = TrainedTokens(
            log_probs=self.now[on],
            engine_log_probs=self.engine[on],
            advantages=self.advantages[on],
            rows=on.nonzero()[:, 0],
            n_rows=len(self.mask),
            old_log_probs=None if one_step else self.old[on],
            reference_log_probs=self.engine[on],
        )
        loss, _ = policy_loss(tokens, self.totals, LossSettings(**settings), TorchArrays())
        return loss

    def compared(self, theirs: Callable[["LossBatch"], torch.Tensor], **settings: Any) -> JsonObject:
        """Both losses, and the largest difference of their gradients as a share of our largest."""
        mine, other = self.ours(**settings), theirs(self)
        (ours,) = torch.autograd.grad(mine, self.now)
        (given,) = torch.autograd.grad(other, self.now)
        difference = (ours - given).abs().max() / ours.abs().max()
        return {"ours": mine.item(), "theirs": other.item(), "gradient": difference.item()}


def _advantages(samples: Sequence[JsonObject]) -> list[list[float]]:
    """Of each token of each sample: those of the samples of the same row, over the deviation."""
    found: list[list[float]] = [[] for _ in samples]
    for row in {sample["row"] for sample in samples}:
        places = [nth for nth, sample in enumerate(samples) if sample["row"] == row]
        values = advantages([samples[nth]["reward"] for nth in places], GrpoSettings(use_leave_one_out_baseline=False))
        for nth, value in zip(places, values, strict=True):
            assert value is not None and math.isfinite(value)
            found[nth] = [value * on for on in samples[nth]["loss_mask"]]
    return found
