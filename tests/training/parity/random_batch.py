"""One batch of random numbers for the losses of all libraries, and how far a library's loss is from ours over it.

Runs    under the interpreters of trainers: torch is needed.
Shapes  `[rows, tokens]`, rows of different lengths, padded on the right; float64.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

import torch

from paddock.training.core.covariance import StepTokens, chosen_tokens
from paddock.training.core.loss import policy_loss
from paddock.training.core.loss_inputs import BatchTotals, TrainedTokens
from paddock.training.core.loss_settings import LossSettings
from paddock.training.grpo.torch_arrays import TorchArrays

LENGTHS = [7, 1, 12, 5, 9, 12, 3, 10]
WIDTH = 12
PROMPTS = [(0, 3), (3, 5), (5, 8)]
"""The rows of each prompt: the first, and that after the last."""
CLIP: dict[str, Any] = {"ratio_clip_min": 0.2, "ratio_clip_max": 0.28}
PLAIN: dict[str, Any] = {**CLIP, "use_importance_sampling_correction": False}
ROWS: dict[str, Any] = {"token_level_loss": False}


class LossDifference(TypedDict):
    """How far a library's loss is from ours."""

    ours: float
    value: float
    gradient: float
    """The largest difference of one token's."""
    size: float
    """Our largest gradient of one token: of a loss without one nothing would be shown."""


class RandomBatch(NamedTuple):
    """Log-probs in nats; ratios and weights are on both sides of every bound."""

    now: torch.Tensor
    """With a gradient."""
    old: torch.Tensor
    engine: torch.Tensor
    reference: torch.Tensor
    entropies: torch.Tensor
    """With a gradient."""
    advantages: torch.Tensor
    """Of a row, the same for all its tokens."""
    mask: torch.Tensor
    """1.0 where a token is trained on: all but the padding."""

    @classmethod
    def draw(cls, seed: int = 0) -> "RandomBatch":
        """A batch, by its seed."""
        random = torch.Generator().manual_seed(seed)

        def normal(scale: float, *shape: int) -> torch.Tensor:
            return scale * torch.randn(*(shape or (len(LENGTHS), WIDTH)), generator=random, dtype=torch.float64)

        now = -normal(2.0).abs() - 0.05
        mask = torch.tensor([[float(at < length) for at in range(WIDTH)] for length in LENGTHS], dtype=torch.float64)
        return cls(
            now.requires_grad_(),
            now.detach() + normal(0.3),
            now.detach() + normal(0.5),
            now.detach() + normal(0.7),
            normal(1.0).abs().requires_grad_(),
            normal(1.5, len(LENGTHS), 1).expand(-1, WIDTH).clone(),
            mask,
        )

    @property
    def totals(self) -> BatchTotals:
        positive = int(self.mask[self.rewards > 0].sum())
        return BatchTotals(int(self.mask.sum()), len(self.mask), units=len(PROMPTS), positive_tokens=positive)

    @property
    def rewards(self) -> torch.Tensor:
        """`[rows]`: of every other row above 0."""
        return torch.tensor([1.0, 0.0]).repeat(len(self.mask) // 2)

    @property
    def unit_tokens(self) -> torch.Tensor:
        """`[rows]`: the tokens of the prompt of each row."""
        return torch.cat([self.mask[start:end].sum().repeat(end - start) for start, end in PROMPTS])

    def on_policy(self) -> "RandomBatch":
        """The same with the current weights as those before the step."""
        return self._replace(old=self.now.detach())

    def ours(self, **settings: Any) -> torch.Tensor:
        """The loss of `training/core`."""
        on, keys = self.mask > 0, LossSettings(**settings)
        chosen = None
        if keys.chooses_tokens:
            given = StepTokens(*(x[on].detach().numpy() for x in (self.now, self.old, self.advantages)))
            chosen = torch.from_numpy(chosen_tokens(given, keys, [0])).to(self.mask.dtype)
        tokens = TrainedTokens(
            log_probs=self.now[on],
            engine_log_probs=self.engine[on],
            advantages=self.advantages[on],
            rows=on.nonzero()[:, 0],
            n_rows=len(self.mask),
            old_log_probs=self.old[on],
            reference_log_probs=self.reference[on],
            entropies=self.entropies[on],
            unit_tokens=self.unit_tokens,
            positive=(self.rewards > 0).to(self.mask.dtype)[on.nonzero()[:, 0]],
            chosen=chosen,
        )
        loss, _ = policy_loss(tokens, self.totals, keys, TorchArrays())
        return loss

    def compared(
        self, theirs: Callable[["RandomBatch"], torch.Tensor], *, factor: float = 1.0, **settings: Any
    ) -> LossDifference:
        """`factor`: what theirs is multiplied by, where it is divided by something else on purpose."""
        mine, other = self.ours(**settings), theirs(self) * factor
        ours, given = (self._gradient(loss) for loss in (mine, other))
        return {
            "ours": mine.item(),
            "value": (mine - other).abs().item(),
            "gradient": (ours - given).abs().max().item(),
            "size": ours.abs().max().item(),
        }

    def _gradient(self, loss: torch.Tensor) -> torch.Tensor:
        both = torch.autograd.grad(loss, (self.now, self.entropies), allow_unused=True)
        return torch.stack([torch.zeros_like(self.now) if x is None else x for x in both]) * self.mask
