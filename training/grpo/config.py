"""The settings of a training run: NeMo-RL's blocks under their names, ours under `paddock` and `policy.torch_cfg`.

Source  NVIDIA-NeMo/RL, `examples/configs/grpo_math_1B.yaml` and `examples/nemo_gym/`; a default is ours where theirs
        asks for what is not here (generation beside training on the same GPUs). `read_config` reads it from files.
Units   tokens, rows (samples), rollouts, steps; seconds where a name ends in `_s`.
Law     every key here has an effect; those of the recipes that have none are `recipe.yaml`'s. Values of the environment
        in `env.nemo_gym` and `policy.generation.vllm` are not here: the servers' config reads them late.
Errors  a value, or values that are not allowed together, are a ValidationError with what would be right.
"""

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from paddock.server.vllm.weights.settings import WeightsSettings
from paddock.training.core.loss_settings import LossSettings
from paddock.training.core.reward_penalties import RewardPenaltySettings
from paddock.training.core.settings import CurriculumSettings, GroupSettings, GrpoSettings
from paddock.training.grpo.blocks import SettingsBlock
from paddock.training.grpo.distillation_config import DistillationConfig
from paddock.training.grpo.policy_config import PolicyConfig
from paddock.training.grpo.recipe_source import RecipeConfig
from paddock.training.grpo.value_config import ValueConfig


class DataFile(SettingsBlock):
    """`data.train`, `data.validation`."""

    data_path: str
    """JSONL of rows; found in the working directory, then in the installed package."""


class TrainFile(DataFile):
    """`data.train`."""

    weights: dict[str, Annotated[float, Field(gt=0)]] | None = None
    """Which part of the prompts each agent's rows are, by the agent's instance name: its weight over the sum of all.
    Each agent's rows come round by themselves, so a heavy one's come more often. None: each row comes once an epoch."""
    split_validation_size: float = Field(default=0, ge=0)
    """Rows of this file that are validated on, and not trained on: a share below 1, or their number. 0: none are."""
    seed: int = Field(default=42, ge=0)
    """The seed by which they are drawn."""

    @field_validator("split_validation_size")
    @classmethod
    def _whole(cls, size: float) -> float:
        if size >= 1 and size % 1:
            raise ValueError(f"{size:g} is no number of rows: take a whole one, or a share below 1")
        return size


class DataConfig(SettingsBlock):
    """`data`."""

    train: TrainFile
    """Rows to train on."""
    validation: DataFile | None = None
    """Rows to validate on; None: those of `train.split_validation_size`, or there is no validation."""
    shuffle: bool = True
    """Each epoch has the rows in an order of its own, drawn from `grpo.seed`; False: as in the file."""

    @property
    def has_validation(self) -> bool:
        return self.validation is not None or self.train.split_validation_size > 0

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.validation is not None and self.train.split_validation_size:
            raise ValueError(
                "train.split_validation_size and validation both give rows to validate on: set the first to 0, or the "
                "second to null"
            )
        return self


class DetectionConfig(SettingsBlock):
    """The trainer's part of `env.nemo_gym`; the rest is the servers' config."""

    invalid_tool_call_patterns: tuple[str, ...] = ("<tool_call>", "</tool_call>", "<function_call>", "</function_call>")
    """Texts that show, where they are left in a sampled text, that a tool call did not parse."""
    thinking_tags: tuple[str, ...] = ("<think>", "</think>")
    """Tags of reasoning: stray where one is in a text, or the same twice in one reasoning item."""


class EnvConfig(SettingsBlock):
    """`env`."""

    nemo_gym: DetectionConfig = DetectionConfig()
    """The config of the servers, in which the trainer reads these keys."""


class CheckpointConfig(SettingsBlock):
    """`checkpointing`."""

    enabled: bool = True
    """Whether checkpoints are written; False: a run that breaks off has nothing to go on from."""
    checkpoint_dir: Path | None = None
    """Folder of the checkpoints of one run alone; None: `checkpoints` in the folder of the run."""
    metric_name: str | None = "train:total_reward/mean"
    """The metric by which checkpoints are kept: `train:` or `val:` and a metric's name; None: the newest are kept."""
    higher_is_better: bool = True
    """Whether checkpoints with high values of the metric are kept; False: those with low ones."""
    keep_top_k: int | None = Field(default=3, ge=1)
    """How many checkpoints are kept; None: all. The newest is always kept, to go on from."""
    save_period: int = Field(default=10, ge=1)
    """Steps between checkpoints."""
    checkpoint_must_save_by: str | None = Field(default=None, pattern=r"^(\d+:){2,3}\d+$")
    """`days:hours:minutes:seconds` after which the run stores a checkpoint and ends; None: no such time."""
    is_async: bool = False
    """The next step runs while a checkpoint is written (NeMo-RL's `is_async`, and `async_save` on Megatron-core). Each
    process then holds its part of the state twice, once in memory of the CPU, until it is on the disk: with Adam 12
    bytes for each trained weight, over all processes."""

    @model_validator(mode="after")
    def _named(self) -> Self:
        name = self.metric_name
        if name is not None and not name.startswith(("train:", "train/", "val:", "validation/")):
            raise ValueError(f"metric_name {name!r} says neither `train:` nor `val:`: such as train:total_reward/mean")
        return self

    @property
    def must_save_by_s(self) -> float | None:
        if self.checkpoint_must_save_by is None:
            return None
        numbers = [int(part) for part in self.checkpoint_must_save_by.split(":")]
        return float(sum(n * unit for n, unit in zip(reversed(numbers), (1, 60, 3600, 86400), strict=False)))

    @property
    def metric(self) -> str | None:
        """The metric's name as it is logged: `train/total_reward/mean`, `validation/accuracy`."""
        if self.metric_name is None:
            return None
        name = self.metric_name.replace("train:", "train/", 1).replace("val:", "validation/", 1)
        # The recipes' word for the mean reward of a validation.
        return "validation/accuracy" if name == "validation/total_reward/mean" else name


class WandbConfig(SettingsBlock):
    """`logger.wandb`."""

    project: str = "paddock"
    """W&B's project in which the run is."""
    name: str | None = None
    """W&B's name of the run; None: the name of its folder."""


class TrackerConfig(SettingsBlock):
    """The part of `logger` that any run has."""

    log_dir: Path | None = None
    """Folder of TensorBoard's and W&B's files; None: `logs` in the folder of the run."""
    tensorboard_enabled: bool = False
    """Write metrics for TensorBoard too; needs the package `tensorboard`."""
    wandb_enabled: bool = False
    """Send metrics to W&B too; needs the package `wandb`."""
    wandb: WandbConfig = WandbConfig()
    """Names of the run there."""
    progress_every_s: float = Field(default=30.0, gt=0)
    """Seconds between two lines of progress where there is no terminal."""


class LoggerConfig(TrackerConfig):
    """`logger`."""

    samples_per_step: int = Field(default=8, ge=0)
    """Rollouts of each step in the table of samples that both get; 0: there is none."""
    view_url: str | None = Field(default=None, pattern=r"^https?://[^#\s]+$")
    """Where `paddock view` shows the folder `runs` that the run is in (`http://127.0.0.1:7000`), for the links of that
    table; without its token. None: the table has commands that show a rollout."""


Label = Annotated[str, Field(pattern=r"^[^=\s]+=[^=\s]*$")]


class LabelConfig(SettingsBlock):
    """`cluster.labels`: which nodes of the cluster run what, by a label that `ray start --labels` gave them."""

    policy: Label | None = None
    """`KEY=VALUE` of the nodes of the policy; None: any."""
    engines: Label | None = None
    """The same for vLLM and the model server."""
    rollouts: Label | None = None
    """The same for rollout workers."""


class ClusterConfig(SettingsBlock):
    """`cluster`."""

    address: str | None = Field(default=None, pattern=r"^(auto|[^:\s]+:\d+)$")
    """The Ray cluster that a run uses, as HOST:PORT of its head; `auto`: that of this machine; None: this machine
    alone."""
    num_nodes: int = Field(default=1, ge=1)
    """Machines of a plan; a run takes those of the cluster that it needs. Above 1 it needs an address."""
    gpus_per_node: int = Field(default=0, ge=0)
    """GPUs of each machine that a run may take: one for each process of the policy, `gpus_per_replica` for each vLLM;
    0: they are not counted out, and on a cluster none is taken."""
    labels: LabelConfig = LabelConfig()
    """Nodes by role."""
    rollout_workers: int = Field(default=1, ge=1)
    """Rollout workers, each a process with all agents and environments, on the nodes with the fewest roles; at least
    one for each node with engines. One on such a node has the model server too; there they share its
    `max_concurrency`."""
    wait_s: float = Field(default=120.0, ge=0)
    """Seconds that a start, and a restart after a node's death, waits until the cluster has a place for every role."""


class PaddockConfig(SettingsBlock):
    """`paddock`: what NeMo-RL has no name for."""

    recipe: RecipeConfig | None = None
    """The source of the recipe, and where it differs from it; None: it has no source."""
    groups: GroupSettings = GroupSettings()
    """What becomes of groups with missing members, and how rollouts become samples."""
    curriculum: CurriculumSettings = CurriculumSettings()
    """How often rows come by their pass rates; by default each in each epoch."""
    weights: WeightsSettings = WeightsSettings()
    """How new weights go to the engines."""
    restart: int = Field(default=0, ge=0)
    """How often a run that a machine's failure ended (an InfraError) goes on by itself from its last checkpoint."""
    policy_timeout_s: float = Field(default=7200.0, gt=0)
    """Longest that the policy may take to start, for one step, one sending, saving or loading: then it is stuck, and
    the run ends, to go on from its last checkpoint. Engines that die or hang while they are sent weights have their own
    limit, `paddock.weights.timeout_s`."""


class TrainConfig(SettingsBlock):
    """The whole of a run's settings."""

    grpo: GrpoSettings = GrpoSettings()
    """The algorithm: sizes of steps, advantages, validations."""
    loss_fn: LossSettings = LossSettings()
    """The loss: clipping, KL term, sampling weights."""
    reward_penalties: RewardPenaltySettings = RewardPenaltySettings()
    """Faults of form for which a rollout has no positive reward in training; None: there are none."""
    on_policy_distillation: DistillationConfig = DistillationConfig()
    """Teachers that score what the policy samples; None: there are none."""
    policy: PolicyConfig
    """The model that is trained, how, and what samples from it."""
    value: ValueConfig = ValueConfig()
    """PPO's critic, in place of a group's baseline."""
    data: DataConfig
    """The rows to train and to validate on."""
    env: EnvConfig = EnvConfig()
    """The environment that rollouts run in."""
    checkpointing: CheckpointConfig = CheckpointConfig()
    """When checkpoints are written, and which are kept."""
    logger: LoggerConfig = LoggerConfig()
    """Where metrics go."""
    cluster: ClusterConfig = ClusterConfig()
    """The machines of the run."""
    paddock: PaddockConfig = PaddockConfig()
    """Settings that NeMo-RL has no name for."""

    @property
    def rollouts_per_step(self) -> int:
        return self.grpo.num_prompts_per_step * self.grpo.num_generations_per_prompt

    @property
    def global_batch_size(self) -> int:
        """Rows of one optimiser step, where each rollout is one row."""
        return self.policy.train_global_batch_size or self.rollouts_per_step

    @property
    def optimizer_steps(self) -> int:
        """Optimiser steps of one step, where each rollout is one row."""
        return self.rollouts_per_step // self.global_batch_size * self.grpo.ppo_epochs

    @property
    def groups_in_flight(self) -> int:
        """The most groups that are started and not trained on."""
        return self.grpo.num_prompts_per_step * (self.grpo.max_age + 1)

    @property
    def validates(self) -> bool:
        return self.grpo.val_period > 0 or self.grpo.val_at_start or self.grpo.val_at_end

    @field_validator("on_policy_distillation", "reward_penalties", mode="before")
    @classmethod
    def _none_given(cls, value: Any) -> Any:
        """The recipes' null."""
        return {} if value is None else value

    @model_validator(mode="after")
    def _batches(self) -> Self:
        rollouts, batch = self.rollouts_per_step, self.global_batch_size
        if rollouts % batch:
            raise ValueError(
                f"policy.train_global_batch_size ({batch}) does not divide the {rollouts} rollouts of a step "
                "(grpo.num_prompts_per_step x grpo.num_generations_per_prompt)"
            )
        if batch % self.policy.train_micro_batch_size:
            raise ValueError(
                f"policy.train_micro_batch_size ({self.policy.train_micro_batch_size}) does not divide "
                f"policy.train_global_batch_size ({batch})"
            )
        if self.loss_fn.force_on_policy_ratio and self.optimizer_steps > 1:
            raise ValueError(
                "loss_fn.force_on_policy_ratio needs one optimiser step per batch: set policy.train_global_batch_size "
                f"to {rollouts}, or leave it out, and grpo.ppo_epochs to 1"
            )
        if self.loss_fn.kl_cov is not None and self.optimizer_steps == 1:
            raise ValueError(
                "loss_fn.kl_cov is a term of how far the policy has moved since the step began, and does nothing where "
                f"there is one optimiser step: set policy.train_global_batch_size to a part of {rollouts} or "
                "grpo.ppo_epochs above 1, or take clip_cov"
            )
        if self.paddock.groups.min_members > self.grpo.num_generations_per_prompt:
            raise ValueError(
                f"paddock.groups.min_members ({self.paddock.groups.min_members}) is above "
                f"grpo.num_generations_per_prompt ({self.grpo.num_generations_per_prompt})"
            )
        return self

    @model_validator(mode="after")
    def _restarts(self) -> Self:
        if self.paddock.restart and not self.checkpointing.enabled:
            raise ValueError("paddock.restart goes on from checkpoints: set checkpointing.enabled to true, or it to 0")
        return self

    @model_validator(mode="after")
    def _shaped_steps(self) -> Self:
        changes = self.grpo.reward_scaling.enabled or self.grpo.reward_shaping.enabled or self.reward_penalties.enabled
        if self.paddock.groups.step_credit and changes:
            raise ValueError(
                "paddock.groups.step_credit gives steps rewards of their own, which grpo.reward_scaling, "
                "grpo.reward_shaping and reward_penalties do not reach: enable one or the other"
            )
        if self.paddock.groups.step_credit and self.grpo.adv_estimator.name == "gdpo":
            raise ValueError(
                "paddock.groups.step_credit gives steps rewards of their own, of which grpo.adv_estimator.name gdpo "
                "has no parts: take grpo"
            )
        return self

    @model_validator(mode="after")
    def _asynchronous(self) -> Self:
        if self.grpo.max_age and not self.loss_fn.use_importance_sampling_correction:
            raise ValueError(
                "an asynchronous run needs loss_fn.use_importance_sampling_correction: set it to true, or "
                "grpo.async_grpo.max_trajectory_age_steps to 0"
            )
        return self

    @model_validator(mode="after")
    def _teachers(self) -> Self:
        if self.grpo.use_dynamic_sampling and (self.value.enabled or self.on_policy_distillation.enabled):
            raise ValueError(
                "grpo.use_dynamic_sampling leaves out groups whose rewards are alike, from which a critic learns and a "
                "policy with a teacher: set it to false"
            )
        by_teacher = self.on_policy_distillation.enabled and not self.on_policy_distillation.with_rewards
        if self.grpo.adv_estimator.name == "opd" and not by_teacher:
            raise ValueError(
                "grpo.adv_estimator.name opd: advantages are a teacher's alone: set on_policy_distillation.enabled to "
                "true and its with_rewards to false, or take another estimator"
            )
        if self.on_policy_distillation.enabled and self.grpo.adv_estimator.name == "reinforce_plus_plus":
            raise ValueError(
                "grpo.adv_estimator.name reinforce_plus_plus whitens the advantages of a whole step, a teacher's too: "
                "take another with on_policy_distillation.enabled"
            )
        return self

    @model_validator(mode="after")
    def _kl_in_reward(self) -> Self:
        by_token = self.value.enabled or self.grpo.adv_estimator.name == "reinforce_plus_plus"
        if self.loss_fn.use_kl_in_reward and not by_token:
            raise ValueError(
                f"loss_fn.use_kl_in_reward: by grpo.adv_estimator.name {self.grpo.adv_estimator.name} all tokens of a "
                "rollout have one advantage: take reinforce_plus_plus or a critic (value.enabled), or set the key to "
                "false"
            )
        return self

    @model_validator(mode="after")
    def _critic(self) -> Self:
        if not self.value.enabled:
            return self
        if self.policy.megatron_cfg.enabled:
            raise ValueError("value.enabled: a critic is trained on torch alone: set policy.megatron_cfg.enabled false")
        sharded = self.policy.torch_cfg.processes > 1 or self.policy.dtensor_cfg.cpu_offload
        if sharded and self.value.optimizer.package != "torch":
            raise ValueError(
                f"value.optimizer.name {self.value.optimizer.name} knows no sharded or offloaded weights: set "
                "policy.torch_cfg.processes to 1 and policy.dtensor_cfg.cpu_offload to false, or take torch.optim.AdamW"
            )
        if self.on_policy_distillation.enabled:
            raise ValueError("value.enabled and on_policy_distillation.enabled both make the advantages: keep one")
        for key in ("invalid_tool_call_advantage", "malformed_thinking_advantage"):
            if getattr(self.grpo, key) is not None:
                raise ValueError(f"grpo.{key}: with value.enabled advantages are GAE's: set it to null")
        return self

    @model_validator(mode="after")
    def _taking_turns(self) -> Self:
        if not self.policy.generation.colocated.enabled:
            return self
        if self.grpo.max_age:
            raise ValueError(
                "policy.generation.colocated.enabled: the engine sleeps while the policy trains: set "
                "grpo.async_grpo.max_trajectory_age_steps to 0"
            )
        if self.value.enabled:
            raise ValueError(
                "value.enabled: a critic has no turn on one GPU: set generation.colocated.enabled to false"
            )
        if self.cluster.address is not None or self.cluster.gpus_per_node > 1:
            raise ValueError(
                "policy.generation.colocated.enabled is for one GPU of this machine: set cluster.gpus_per_node to 1, "
                "and leave cluster.address out"
            )
        return self

    @model_validator(mode="after")
    def _validation(self) -> Self:
        if self.validates and not self.data.has_validation:
            raise ValueError(
                "grpo.val_period, val_at_start and val_at_end need rows: set data.validation.data_path, or "
                "data.train.split_validation_size, or val_period to 0 and the others to false"
            )
        metric = self.checkpointing.metric or ""
        if self.checkpointing.enabled and metric.startswith("validation/") and not self.validates:
            raise ValueError(
                f"checkpointing.metric_name {self.checkpointing.metric_name!r} needs validations: set grpo.val_period, "
                "or take a `train:` metric"
            )
        if self.grpo.stop_at_validation_metric is not None and not self.validates:
            raise ValueError(
                "grpo.stop_at_validation_metric needs validations: set grpo.val_period, or it and its threshold to null"
            )
        return self
