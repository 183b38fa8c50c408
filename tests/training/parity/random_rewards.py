"""Rewards of random groups for the advantages of all libraries, and how far a library's are from ours over them.

Runs    under the interpreters of trainers: torch is needed.
"""

from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np
import torch

from paddock.training.core.advantages import advantages, batch_deviation, whitened
from paddock.training.core.settings import GrpoSettings

GROUPS, SIZE, WIDTH = 6, 4, 5


class AdvantageDifference(TypedDict):
    """How far a library's advantages are from ours."""

    value: float
    """The largest difference of one token's."""
    size: float
    """Our largest advantage."""


class RandomRewards:
    """Some rewards of 0 or 1 and some between; rows of different lengths."""

    def __init__(self) -> None:
        random = torch.Generator().manual_seed(1)
        verdicts = torch.randint(0, 2, (GROUPS // 2 * SIZE,), generator=random).double()
        verdicts[:2] = torch.tensor([0.0, 1.0])
        verdicts[SIZE], verdicts[SIZE + 1] = 1.0, 0.0
        verdicts[2 * SIZE], verdicts[2 * SIZE + 1] = 1.0, 0.0
        self.rewards = torch.cat([verdicts, torch.rand(len(verdicts), generator=random, dtype=torch.float64)])
        self.group = np.repeat(np.arange(GROUPS), SIZE)
        lengths = torch.randint(1, WIDTH + 1, (len(self.rewards), 1), generator=random)
        self.mask = (torch.arange(WIDTH) < lengths).double()

    @property
    def at_end(self) -> torch.Tensor:
        """`[rows, tokens]`: the reward at the last token of its row."""
        last = self.mask.sum(-1, keepdim=True) - 1
        return torch.where(torch.arange(WIDTH) == last, self.rewards[:, None], 0.0)

    def ours(self, **keys: Any) -> torch.Tensor:
        """`[rows, tokens]`."""
        grpo = GrpoSettings.model_validate(keys)
        std = batch_deviation(self.rewards.tolist())
        found = [
            value or 0.0
            for group in range(GROUPS)
            for value in advantages(self.rewards[self.group == group].tolist(), grpo, batch_std=std)
        ]
        rows = [np.full(int(n), value) for value, n in zip(found, self.mask.sum(-1).tolist(), strict=True)]
        if grpo.adv_estimator.name == "reinforce_plus_plus":
            rows = whitened(rows, grpo)
        padded = [np.pad(row, (0, WIDTH - len(row))) for row in rows]
        return torch.tensor(np.stack(padded))

    def compared(
        self, theirs: Callable[["RandomRewards"], torch.Tensor], *, factor: float = 1.0, **keys: Any
    ) -> AdvantageDifference:
        """`factor`: what theirs is multiplied by, where it is divided by something else on purpose."""
        ours = self.ours(**keys)
        return {"value": (ours - theirs(self) * factor * self.mask).abs().max().item(), "size": ours.abs().max().item()}
