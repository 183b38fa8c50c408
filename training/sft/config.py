"""The settings of a fine-tuning run: NeMo-RL's blocks under their names; `data` is ours.

Source  NVIDIA-NeMo/RL, `examples/configs/sft.yaml`, for `sft`, `policy`, `checkpointing`, `logger` and `cluster`.
Units   rollouts, rows (of the dataset that was rolled out), samples, tokens, steps; seconds where a name ends in `_s`.
Errors  a value, or values that are not allowed together, are a ValidationError with what would be right.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from paddock.tokens.export import Mode
from paddock.training.core.loss_settings import LossSettings
from paddock.training.core.settings import GrpoSettings
from paddock.training.grpo.blocks import SettingsBlock
from paddock.training.grpo.config import CheckpointConfig, ClusterConfig, TrackerConfig
from paddock.training.grpo.policy_config import GenerationConfig, PolicyConfig, RouterReplayConfig
from paddock.training.grpo.policy_settings import PolicySettings

DEFAULT_BATCH = 32
NLL = LossSettings(disable_ppo_ratio=True, use_importance_sampling_correction=False)
"""The loss whose value is the mean negative log-prob of a batch's trained tokens where each has the advantage 1."""


class SftSettings(SettingsBlock):
    """`sft`."""

    max_num_epochs: int = Field(default=1, ge=1)
    """How often each sample is trained on."""
    max_num_steps: int | None = Field(default=None, ge=1)
    """Steps after which the run ends, those before it was resumed included; None: it ends with its epochs."""
    val_period: int = Field(default=0, ge=0)
    """Steps between two measurements of the held-out loss besides the one at each epoch's end; 0: there are no
    others."""
    val_at_start: bool = True
    """Whether it is measured before the first step too; a resumed run does not."""
    seed: int = 42
    """The seed of the order of samples, and of what is chosen and held out."""
    policy_timeout_s: float = Field(default=7200.0, gt=0)
    """Longest that the policy may take to start, for one step, or to save or load: then it is stuck, and the run ends,
    to go on from its last checkpoint."""


class ChoiceRule(SettingsBlock):
    """`data.choose`: which rollouts are trained on."""

    min_reward: float = 1.0
    """Smallest reward of a rollout that is trained on."""
    max_per_row: int | None = Field(default=4, ge=1)
    """Most rollouts of one row under one agent: those with the highest rewards, of equal ones those that `sft.seed`
    draws; None: all."""
    outcomes: tuple[Literal["completed", "truncated"], ...] = Field(default=("completed",), min_length=1)
    """Outcomes of rollouts that are trained on."""


class SftDataConfig(SettingsBlock):
    """`data`."""

    rollouts: tuple[str, ...] = Field(min_length=1)
    """Folders of runs (of `paddock eval` or `paddock train`), or files of rollouts. Their ids have to be of the
    policy's own vocabulary."""
    choose: ChoiceRule = ChoiceRule()
    """Which of them are trained on."""
    choose_by_agent: dict[str, ChoiceRule] = {}
    """The same for the rollouts of single agents, by instance name, in place of `choose`."""
    held_out_share: float = Field(default=0.05, ge=0, lt=1)
    """Share of rows (at least one) whose rollouts are not trained on: the held-out loss is theirs. 0: there is none."""
    sample_mode: Mode = "whole"
    """How a rollout becomes samples, as `paddock.groups.sample_mode` of training."""
    shuffle: bool = True
    """Each epoch has the samples in an order of its own, drawn from `sft.seed`; False: as they were read."""

    def rule(self, agent: str) -> ChoiceRule:
        return self.choose_by_agent.get(agent, self.choose)


class SftCheckpointConfig(CheckpointConfig):
    """`checkpointing`."""

    metric_name: str | None = "val:val_loss"
    """The metric by which checkpoints are kept: `val:val_loss`, the held-out loss, or `train:loss`; None: the newest
    are kept."""
    higher_is_better: bool = False
    """Whether checkpoints with high values of the metric are kept; False: those with low ones."""
    save_period: int = Field(default=1000, ge=1)
    """Steps between checkpoints; another one is stored at each epoch's end."""

    @property
    def metric(self) -> str | None:
        """The metric's name as it is logged."""
        return super().metric if self.metric_name != "val:val_loss" else "validation/loss"

    @model_validator(mode="after")
    def _logged(self) -> Self:
        if self.metric not in (None, "train/loss", "validation/loss"):
            raise ValueError(f"metric_name {self.metric_name!r}: one of val:val_loss, train:loss, null is taken")
        return self


_UNUSED = {
    "generation": GenerationConfig(),
    "router_replay": RouterReplayConfig(),
    "train_global_batch_size": None,
}


class SftConfig(SettingsBlock):
    """The whole of a run's settings."""

    sft: SftSettings = SftSettings()
    """How long is trained, and when the held-out loss is measured."""
    policy: PolicyConfig
    """The model that is trained, and how, as in `paddock train`. A step has `train_global_batch_size` samples (None:
    32). Of `generation` and `router_replay` nothing is used: the loss is at temperature 1, of no engine's routing."""
    data: SftDataConfig
    """The rollouts to train on."""
    checkpointing: SftCheckpointConfig = SftCheckpointConfig()
    """When checkpoints are written, and which are kept."""
    logger: TrackerConfig = TrackerConfig()
    """Where metrics go."""
    cluster: ClusterConfig = ClusterConfig()
    """The machines of the run; the policy's part of it."""

    @property
    def batch_size(self) -> int:
        return self.policy.train_global_batch_size or DEFAULT_BATCH

    @property
    def policy_settings(self) -> PolicySettings:
        """The settings that the policy gets: each of its calls is one optimiser step."""
        policy = self.policy.model_copy(update=_UNUSED)
        return PolicySettings(policy=policy, loss=NLL, grpo=GrpoSettings(seed=self.sft.seed))

    @model_validator(mode="after")
    def _held_out(self) -> Self:
        metric, share = self.checkpointing.metric, self.data.held_out_share
        named = "metric_name" in self.checkpointing.model_fields_set
        if named and metric == "validation/loss" and not share:
            raise ValueError("checkpointing.metric_name `val:val_loss` needs rows: set data.held_out_share above 0")
        return self
