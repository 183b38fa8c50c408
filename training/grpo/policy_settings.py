"""The settings from which the policy is made. Torch is not imported, so that they can be made without it."""

from typing import NamedTuple, Self

from paddock.server.vllm.weights.settings import WeightsSettings
from paddock.training.core.loss_settings import LossSettings
from paddock.training.core.settings import GrpoSettings
from paddock.training.grpo.blocks import SettingsBlock
from paddock.training.grpo.config import TrainConfig
from paddock.training.grpo.policy_config import PolicyConfig
from paddock.training.grpo.value_config import ValueConfig


class PolicySettings(SettingsBlock):
    """The part of a run's settings that the policy gets."""

    policy: PolicyConfig
    """Of its `generation` the temperature alone is used."""
    loss: LossSettings = LossSettings()
    grpo: GrpoSettings = GrpoSettings()
    value: ValueConfig = ValueConfig()
    """The critic."""
    weights: WeightsSettings = WeightsSettings()
    """How they are sent."""

    @classmethod
    def of(cls, config: TrainConfig) -> Self:
        return cls(
            policy=config.policy,
            loss=config.loss_fn,
            grpo=config.grpo,
            value=config.value,
            weights=config.paddock.weights,
        )

    @property
    def needs_every_row(self) -> bool:
        """Whether a step's gradient, or a router's bias, depends on rows whose advantages are all 0, too."""
        megatron = self.policy.megatron_cfg
        of_routers = (
            megatron.moe_aux_loss_coeff,
            megatron.moe_router_bias_update_rate,
            megatron.model_overrides.get("moe_z_loss_coeff"),
        )
        return self.loss.needs_every_row or (megatron.enabled and any(of_routers))

    def optimizer_steps(self, n_rows: int) -> int:
        """How many optimiser steps a batch of so many rows gets: the number for which the rows of each are nearest to
        `train_global_batch_size`. So a few rows more or less than planned make no step of a few rows."""
        size = self.policy.train_global_batch_size
        if size is None or self.loss.force_on_policy_ratio:
            return 1
        return max(1, (n_rows + size // 2) // size)


class RankInfo(NamedTuple):
    """One process among those that hold the weights together, and where they meet."""

    rank: int = 0
    world_size: int = 1
    master_address: str = "127.0.0.1"
    """Where rank 0 listens; a vLLM finds rank 0 there as well."""
    master_port: int = 0
    """A free port there; not used for one process."""
    address: str = "127.0.0.1"
    """This process's own, where the others reach it."""


SINGLE_RANK = RankInfo()
