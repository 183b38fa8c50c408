"""The critic of PPO: a model that predicts, before each token, the reward that its sample will have.

Model   the body of the policy's model with a head of one number. It is sharded, computed and stored as the policy is,
        and has an optimizer of its own.
Value   of a token: the head's number at the position before it.
Loss    `max((V - R)^2, (clip(V, V_old - cliprange, V_old + cliprange) - R)^2) / 2`, the mean over the trained tokens of
        the optimiser step, times `loss_scale`; PPO (arXiv 1707.06347) as in verl's `compute_value_loss`.
Metrics `train/value/*`: loss, share of tokens whose value the clip holds, mean of values and returns, gradient norm.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from transformers import AutoModel

from paddock.training.core.gae import TokenCredits, gae, token_rewards, whitened
from paddock.training.core.records import TrainRow
from paddock.training.core.token_advantages import TokenNumbers, with_advantages
from paddock.training.grpo.language_model import ShardedModel, load_model
from paddock.training.grpo.microbatches import MicroBatch, RankShare, micro_batches
from paddock.training.grpo.optimizer import make_optimizer, make_scheduler, update
from paddock.training.grpo.policy_settings import PolicySettings
from paddock.training.grpo.sharding import ShardGroup
from paddock.training.grpo.training_step import LogProbs, ValueTargets, merge


class ValueLoss(NamedTuple):
    """Sums over tokens."""

    loss: torch.Tensor
    clipped: torch.Tensor
    """How many tokens the clip held."""


def value_loss(now: torch.Tensor, old: torch.Tensor, returns: torch.Tensor, cliprange: float | None) -> ValueLoss:
    """The loss of tokens, `[tokens]`; `now` with a gradient."""
    plain = (now - returns) ** 2
    if cliprange is None:
        return ValueLoss(plain.sum() / 2, plain.new_zeros(()))
    bounded = (torch.clamp(now, old - cliprange, old + cliprange) - returns) ** 2
    return ValueLoss(torch.maximum(plain, bounded).sum() / 2, (bounded > plain).sum())


class Critic:
    def __init__(self, settings: PolicySettings, shard_group: ShardGroup) -> None:
        self.config = settings.value
        self._shard_group = shard_group
        name = self.config.model_name or settings.policy.model_name
        self._policy = settings.policy.model_copy(update={"model_name": name})
        body = load_model(self._policy, shard_group, kind=AutoModel)
        self.model = ShardedModel(body, _ValueModule(body), self._policy, shard_group)
        self.optimizer = make_optimizer(self.model.module, self.config.optimizer)
        self.scheduler = make_scheduler(self.optimizer, self.config.scheduler)

    def values(self, rows: Sequence[TrainRow], indices: Sequence[int]) -> LogProbs:
        own = LogProbs()
        with torch.no_grad():
            for micro in self._micro_batches(rows, indices):
                own |= micro.by_row(self.model.computing(partial(self._values, micro)))
        self.model.release()
        return merge(self._shard_group.share(own))

    def credited(
        self, rows: Sequence[TrainRow], values: LogProbs, penalties: Mapping[int, TokenNumbers] | None = None
    ) -> tuple[list[TrainRow], LogProbs]:
        """The rows with GAE's advantages in place of their own, and the returns."""
        found: dict[int, TokenCredits] = {}
        for nth, own in values.items():
            rewards = token_rewards(rows[nth].reward, len(own), None if penalties is None else penalties[nth])
            lam, gamma = self.config.lam_advantages(len(own)), self.config.gae_gamma
            found[nth] = gae(own.numpy(), rewards, gamma=gamma, lam=lam, lam_returns=self.config.lam_returns)
        advantages = [credits.advantages for credits in found.values()]
        advantages = whitened(advantages) if self.config.normalize_advantages else advantages
        replaced = with_advantages(rows, dict(zip(found, advantages, strict=True)))
        return replaced, {nth: torch.from_numpy(credits.returns).float() for nth, credits in found.items()}

    def step(self, rows: Sequence[TrainRow], part: Sequence[int], targets: ValueTargets) -> Mapping[str, float]:
        """One optimiser step with the rows of the indices `part`."""
        n_tokens = max(sum(rows[nth].tokens for nth in part), 1)
        sums = torch.zeros(4, dtype=torch.float64)
        self.optimizer.zero_grad(set_to_none=True)
        for micro in self._micro_batches(rows, part):
            sums += self.model.computing(partial(self._backward, micro, targets, n_tokens))
        loss, clipped, value, reward = (float(total) for total in sum(self._shard_group.share(sums / n_tokens)))
        updated = update(self.model.module, self.optimizer, self.scheduler, self.config.max_grad_norm)
        return {
            "train/value/loss": loss,
            "train/value/clipped_ratio": clipped,
            "train/value/mean": value,
            "train/value/return": reward,
            **{name.replace("train/", "train/value/"): number for name, number in updated.items()},
        }

    def _backward(self, micro: MicroBatch, targets: ValueTargets, n_tokens: int) -> torch.Tensor:
        """Add the micro-batch's part of the gradient; the sums of its metrics."""
        now = self._values(micro)
        old, returns = micro.flat(targets.values), micro.flat(targets.returns)
        found = value_loss(now, old, returns, self.config.cliprange)
        # A process without a row computes all the same, as FSDP needs.
        scale = self.config.loss_scale * self._shard_group.rank_info.world_size / n_tokens
        (found.loss * scale + now.sum() * 0).backward()
        numbers = (found.loss.detach(), found.clipped, now.detach().sum(), returns.sum())
        return torch.stack([number.to("cpu", torch.float64) for number in numbers])

    def _values(self, micro: MicroBatch) -> torch.Tensor:
        """Float32, `[tokens]`."""
        values: torch.Tensor = self.model.module(micro.ids, micro.row, micro.at)
        return values

    def _micro_batches(self, rows: Sequence[TrainRow], indices: Sequence[int]) -> Iterable[MicroBatch]:
        group = self._shard_group
        return micro_batches(
            rows,
            indices,
            RankShare(group.rank_info.rank, group.rank_info.world_size, group.device),
            size=self._policy.train_micro_batch_size,
            capacity=self._policy.micro_batch_tokens(learn=True),
            packed=False,
        )


class _ValueModule(torch.nn.Module):  # type: ignore[misc]
    """The body of a model, and a head of one number, zeros at first."""

    def __init__(self, body: Any) -> None:
        super().__init__()
        self.body = body
        self.head = torch.nn.Linear(body.config.get_text_config().hidden_size, 1, bias=False)
        torch.nn.init.zeros_(self.head.weight)

    def forward(self, ids: torch.Tensor, row: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Of `ids[row, at]`. `ids` is `[rows, length]`, `row` and `at` `[tokens]`."""
        hidden = self.body(input_ids=ids, use_cache=False).last_hidden_state
        numbers: torch.Tensor = self.head(hidden[row, at - 1])[:, 0].float()
        return numbers
