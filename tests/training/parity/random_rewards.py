"""Rewards of random groups for the advantages of all libraries, and how far a library's are from ours over them.

Runs    under the interpreters of trainers: torch is needed.
"""

from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np
import torch

from paddock.training.core import kl
from paddock.training.core.advantages import advantages, batch_deviation
from paddock.training.core.gae import gae, token_rewards, whitened
from paddock.training.core.gdpo import gdpo_advantages
from paddock.training.core.loss_settings import LossSettings
from paddock.training.core.records import Group, Member
from paddock.training.core.settings import GrpoSettings
from paddock.training.core.token_advantages import TokenNumbers, reinforce_plus_plus
from paddock.training.grpo.torch_arrays import TorchArrays
from paddock.training.grpo.value_config import ValueConfig

GROUPS, SIZE, WIDTH = 6, 4, 5
CRITICS: dict[str, dict[str, float]] = {
    "GAE": {"gae_lambda": 0.9, "gae_gamma": 0.97},
    "VAPO, two lambdas": {"gae_lambda_value": 1.0, "gae_lambda_policy": 0.8},
    "VAPO, lambda by length": {"gae_lambda_value": 1.0, "length_adaptive_alpha": 0.5},
}
"""Keys of `value`, by the name of what they are."""


class AdvantageDifference(TypedDict):
    """How far a library's advantages are from ours."""

    value: float
    """The largest difference of one token's."""
    size: float
    """Our largest advantage."""


def kl_in_reward(kind: str) -> LossSettings:
    return LossSettings.model_validate(
        {"use_kl_in_reward": True, "reference_policy_kl_penalty": 0.3, "reference_policy_kl_type": kind}
    )


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
        shape = (3, *self.mask.shape)
        self.log_probs, self.reference, self.values = torch.randn(shape, generator=random, dtype=torch.float64)
        form = torch.randint(0, 2, self.rewards.shape, generator=random).double()
        form[-SIZE:] = 1.0
        self.parts = {"correct": self.rewards, "form": 0.25 * form}
        """Of other rewards, their sums; the last group's form is alike. Exact in binary: NeMo-RL's variance is a
        difference of squares, and not quite 0 for equal parts that are not."""

    @property
    def at_end(self) -> torch.Tensor:
        """`[rows, tokens]`: the reward at the last token of its row."""
        last = self.mask.sum(-1, keepdim=True) - 1
        return torch.where(torch.arange(WIDTH) == last, self.rewards[:, None], 0.0)

    def ours(self, loss: LossSettings | None = None, **keys: Any) -> torch.Tensor:
        """`[rows, tokens]`. `loss`: whose KL is taken off rewards."""
        grpo = GrpoSettings.model_validate(keys)
        std = batch_deviation(self.rewards.tolist())
        found = [
            value or 0.0
            for group in range(GROUPS)
            for value in advantages(self.rewards[self.group == group].tolist(), grpo, batch_std=std)
        ]
        rows = [np.full(int(n), value) for value, n in zip(found, self.mask.sum(-1).tolist(), strict=True)]
        if grpo.adv_estimator.name == "reinforce_plus_plus":
            rows = reinforce_plus_plus(rows, self._penalties(loss), grpo)
        return _padded(rows)

    def by_parts(self, **keys: Any) -> torch.Tensor:
        """Our advantages of GDPO, `[rows, tokens]`."""
        grpo = GrpoSettings.model_validate(keys)
        groups = []
        for group in range(GROUPS):
            own = {name: values[self.group == group].tolist() for name, values in self.parts.items()}
            by_member = [dict(zip(own, values, strict=True)) for values in zip(*own.values(), strict=True)]
            members = [
                Member(nth, "completed", sum(parts.values()), reward_components=parts)
                for nth, parts in enumerate(by_member)
            ]
            groups.append(Group(group, 0, 0, tuple(members), SIZE, 0))
        found = [value or 0.0 for of_group in gdpo_advantages(groups, grpo) for value in of_group]
        return _padded([np.full(int(n), value) for value, n in zip(found, self.mask.sum(-1).tolist(), strict=True)])

    def by_critic(self, value: ValueConfig, loss: LossSettings | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Our advantages and returns by the critic's values, both `[rows, tokens]`."""
        penalties, found = self._penalties(loss), []
        for nth, own in enumerate(self._trained(self.values)):
            rewards = token_rewards(float(self.rewards[nth]), len(own), None if penalties is None else penalties[nth])
            lam = value.lam_advantages(len(own))
            found.append(gae(own, rewards, gamma=value.gae_gamma, lam=lam, lam_returns=value.lam_returns))
        return _padded(whitened([one.advantages for one in found])), _padded([one.returns for one in found])

    def _penalties(self, loss: LossSettings | None) -> list[TokenNumbers] | None:
        if loss is None:
            return None
        return self._trained(kl.reward_penalty(self.log_probs, self.reference, loss, TorchArrays()))

    def _trained(self, values: torch.Tensor) -> list[TokenNumbers]:
        return [row[on.bool()].numpy() for row, on in zip(values, self.mask, strict=True)]

    def compared(
        self,
        theirs: Callable[["RandomRewards"], torch.Tensor],
        *,
        factor: float = 1.0,
        loss: LossSettings | None = None,
        **keys: Any,
    ) -> AdvantageDifference:
        """`factor`: what theirs is multiplied by, where it is divided by something else on purpose."""
        return self._difference(self.ours(loss, **keys), theirs(self) * factor)

    def compared_by_parts(self, theirs: Callable[["RandomRewards"], torch.Tensor], **keys: Any) -> AdvantageDifference:
        return self._difference(self.by_parts(**keys), theirs(self))

    def compared_by_critic(
        self,
        theirs: Callable[["RandomRewards"], tuple[torch.Tensor, torch.Tensor]],
        value: ValueConfig,
        loss: LossSettings | None = None,
    ) -> AdvantageDifference:
        """Of advantages and returns."""
        ours, found = self.by_critic(value, loss), theirs(self)
        return self._difference(torch.cat(ours), torch.cat(found))

    def _difference(self, ours: torch.Tensor, theirs: torch.Tensor) -> AdvantageDifference:
        mask = self.mask.repeat(len(ours) // len(self.mask), 1)
        return {"value": ((ours - theirs) * mask).abs().max().item(), "size": ours.abs().max().item()}


def _padded(rows: list[TokenNumbers]) -> torch.Tensor:
    return torch.tensor(np.stack([np.pad(row, (0, WIDTH - len(row))) for row in rows]))
