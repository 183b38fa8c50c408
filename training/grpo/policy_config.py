"""The `policy` block: the model that is trained, how, and what samples from it.

Source  NVIDIA-NeMo/RL, `examples/configs/grpo_math_1B.yaml`; `torch_cfg` and `generation.vllm` are ours.
Units   tokens, rows.
Errors  a value, or values that are not allowed together, are a ValidationError with what would be right.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from paddock.training.grpo.blocks import SettingsBlock
from paddock.training.grpo.megatron_config import MegatronConfig
from paddock.types import JsonObject


class TokenizerConfig(SettingsBlock):
    """`policy.tokenizer`."""

    name: str | None = None
    """Folder or name; None: the model's."""


class TorchConfig(SettingsBlock):
    """`policy.torch_cfg`: where the policy is trained; of a policy on Megatron-core `device` and `threads` alone."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto`: GPUs where there are some."""
    processes: int = Field(default=1, ge=1)
    """Processes over which the weights are sharded (FSDP); on GPUs one for each."""
    threads: int | None = Field(default=1, ge=1)
    """Threads of each process on a CPU; None: torch's own choice."""
    attention: Literal["sdpa", "eager"] = "sdpa"
    """What computes attention, by Transformers' name: torch's own kernels, or plain products (`eager`)."""


class LoraConfig(SettingsBlock):
    """`policy.dtensor_cfg.lora_cfg`: small adapters are trained in place of the weights (`grpo/lora.py`). Engines get
    the weights with the adapters in them, a checkpoint has adapters alone, and an export has both."""

    enabled: bool = False
    """Whether adapters are trained; False: all weights are."""
    target_modules: tuple[str, ...] = ()
    """Linear layers that get one, by their last name (`q_proj`) or a pattern of the whole (`*.layers.1?.mlp.*`); none:
    all but the output layer."""
    exclude_modules: tuple[str, ...] = ()
    """Layers of these that get none."""
    match_all_linear: bool = True
    """NeMo-RL's word for an empty `target_modules`; where those are given it has to be false, or is left out."""
    dim: int = Field(default=8, ge=1)
    """Rank of an adapter."""
    alpha: float = Field(default=32.0, gt=0)
    """What an adapter adds is multiplied by `alpha / dim`."""
    lora_A_init: Literal["xavier", "kaiming"] = "xavier"  # noqa: N815 - NeMo-RL's
    """How A begins: normal by its sizes, or uniform as peft's; B begins with 0, so that nothing changes at first."""

    @model_validator(mode="after")
    def _targets(self) -> Self:
        if self.target_modules and self.match_all_linear and "match_all_linear" in self.model_fields_set:
            raise ValueError("match_all_linear takes all layers: set it to false, or leave target_modules out")
        if not self.match_all_linear and not self.target_modules:
            raise ValueError("without match_all_linear there is no layer: name some in target_modules")
        return self


class DtensorConfig(SettingsBlock):
    """`policy.dtensor_cfg`."""

    enabled: bool = True
    """Several processes shard the weights; False: there is one."""
    activation_checkpointing: bool = False
    """Activations are computed anew for the gradient: less memory, more time."""
    cpu_offload: bool = False
    """Weights, gradients and the optimizer's state are in memory of the CPU, where the optimizer works; each layer is
    on the GPU while it is computed: far less of its memory, more time."""
    lora_cfg: LoraConfig = LoraConfig()
    """Train adapters in place of all weights."""


class OptimizerKwargs(SettingsBlock):
    """`policy.optimizer.kwargs`."""

    lr: float = Field(default=5e-6, gt=0)
    """Learning rate, before `policy.scheduler` changes it."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of the running means of the gradient and of its square."""
    eps: float = Field(default=1e-8, gt=0)
    """Added to the denominator of an update, so that it is never 0."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Decay of all weights, decoupled from the gradient."""


class OptimizerConfig(SettingsBlock):
    """`policy.optimizer`."""

    name: Literal[
        "torch.optim.AdamW",
        "bitsandbytes.optim.AdamW8bit",
        "bitsandbytes.optim.PagedAdamW8bit",
        "bitsandbytes.optim.PagedAdamW",
    ] = "torch.optim.AdamW"
    """Import name of the optimizer. Those of bitsandbytes, in one process alone, save memory: `8bit` keeps 2 bytes for
    each weight that is trained in place of 8, `Paged` moves them to the CPU where the GPU has no room."""
    kwargs: OptimizerKwargs = OptimizerKwargs()
    """Its arguments, under torch's names."""

    @property
    def package(self) -> str:
        """The package that has it."""
        return self.name.partition(".")[0]


class SchedulerPart(SettingsBlock):
    """One schedule of the learning rate; arguments are torch's own."""

    name: Literal[
        "torch.optim.lr_scheduler.LinearLR",
        "torch.optim.lr_scheduler.ConstantLR",
        "torch.optim.lr_scheduler.CosineAnnealingLR",
    ]
    """Torch's name of the schedule."""
    kwargs: Mapping[str, int | float] = {}
    """Its arguments besides the optimizer, under torch's names; steps are optimiser steps."""


class SchedulerConfig(SettingsBlock):
    """`policy.scheduler`: schedules one after the other; a list that ends in `{milestones: [...]}`."""

    parts: tuple[SchedulerPart, ...] = ()
    """Schedules in order; none: the learning rate is constant."""
    milestones: tuple[int, ...] = ()
    """Optimiser steps at which the second, third, ... part begins."""

    @model_validator(mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        marks = [part for part in value if isinstance(part, Mapping) and set(part) == {"milestones"}]
        parts = [part for part in value if part not in marks]
        return {"parts": parts, "milestones": [step for mark in marks for step in mark["milestones"] or ()]}

    @model_validator(mode="after")
    def _as_many(self) -> Self:
        if self.parts and len(self.milestones) != len(self.parts) - 1:
            raise ValueError(
                f"{len(self.parts)} schedules need {len(self.parts) - 1} milestones, there are {len(self.milestones)}"
            )
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError("milestones must rise")
        return self

    @property
    def entries(self) -> list[JsonObject]:
        """The schedule in the form of a recipe."""
        parts: list[JsonObject] = [part.model_dump(mode="json") for part in self.parts]
        return [*parts, {"milestones": list(self.milestones)}] if parts else []


class TokenBatchConfig(SettingsBlock):
    """Micro-batches that are bounded by tokens, in place of rows."""

    train_mb_tokens: int | None = Field(default=None, ge=1)
    """Tokens of a micro-batch, where one row is not longer; None: `max_total_sequence_length` times
    `train_micro_batch_size`."""
    logprob_mb_tokens: int | None = Field(default=None, ge=1)
    """Tokens of a micro-batch of passes without a gradient; None: `train_mb_tokens`."""


class SequencePackingConfig(TokenBatchConfig):
    """`policy.sequence_packing`: rows one after the other in one sequence, in which each attends to itself alone. On
    torch with `torch_cfg.attention` of `sdpa`, for models whose layers mix tokens by attention alone; rows of another
    are padded, as by `dynamic_batching`, and a warning says so."""

    enabled: bool = False
    """Whether rows are packed; False: each is padded to the longest of its micro-batch."""


class DynamicBatchingConfig(TokenBatchConfig):
    """`policy.dynamic_batching`: as many rows of like length in a micro-batch as fit in, padding counted."""

    enabled: bool = False
    """Whether tokens bound a micro-batch; False: `train_micro_batch_size` does."""


class ColocatedConfig(SettingsBlock):
    """`policy.generation.colocated`."""

    enabled: bool = False
    """True: policy and engine take turns on one GPU. The engine sleeps while the policy trains, whose weights and
    optimizer are in memory of the CPU while the engine samples. One process of a policy on torch, one vLLM of one GPU,
    and no rollouts while it trains (`grpo.async_grpo.max_trajectory_age_steps: 0`)."""


class GenerationConfig(SettingsBlock):
    """`policy.generation`: how training samples, and validation."""

    backend: Literal["vllm"] = "vllm"
    """The engine; there is no other."""
    temperature: float = Field(default=1.0, gt=0)
    """Of training; the trainer's log-probs are those at this temperature too."""
    top_p: float = 1.0
    """Of training: 1 alone is taken, for the loss knows no cut."""
    top_k: int | None = None
    """Of training: None alone is taken (-1 and 0 mean it too), for the loss knows no cut."""
    val_temperature: float | None = Field(default=None, ge=0)
    """Temperature of validations; None: as in training."""
    val_top_p: float | None = Field(default=None, gt=0, le=1)
    """Share of probability that a validation samples from; None: as in training."""
    val_top_k: int | None = Field(default=None, ge=1)
    """How many of the likeliest tokens a validation samples from; None (or vLLM's -1 and 0): all."""
    max_new_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of one answer; None: as many as fit."""
    seeded: bool = False
    """Each answer has a seed of its own, made of `grpo.seed`, its group and member, and its prompt: the same weights
    give the same rollouts, in whatever order they run, where the engine's arithmetic does not depend on that either. On
    a CPU it does not with `vllm.launch` of `max_num_seqs: 1` and `serve_kwargs: {enable-prefix-caching: false,
    enable-chunked-prefill: false}`; vLLM 0.32 dies there of a seed whose prompt comes in chunks. False: vLLM draws from
    one stream for all."""
    stop_token_ids: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    """Tokens that end an answer besides the model's own; they are its last, and trained on."""
    stop_strings: tuple[Annotated[str, Field(min_length=1)], ...] | None = None
    """Texts that end an answer. The client is told what stands before; all that was sampled is trained on."""
    colocated: ColocatedConfig = ColocatedConfig()
    """Engines on the trainer's GPU."""
    vllm: JsonObject = Field(default_factory=dict)
    """Fields of the model server `vllm`, laid over the one that `env.nemo_gym` composes; not resolved here."""

    @field_validator("top_k", "val_top_k", mode="before")
    @classmethod
    def _all_tokens(cls, value: Any) -> Any:
        """vLLM's words for all tokens."""
        return None if value in (-1, 0) else value

    @model_validator(mode="after")
    def _whole_distribution(self) -> Self:
        if self.top_p != 1 or self.top_k is not None:
            raise ValueError(
                "training samples from all tokens, for the loss knows no cut: set top_p to 1 and top_k to null "
                "(val_top_p and val_top_k are free)"
            )
        return self


class RouterReplayConfig(SettingsBlock):
    """`policy.router_replay` (Ma et al. 2025): tokens go through experts that were chosen before."""

    enabled: bool = False
    """On Megatron-core alone (`megatron_cfg.enabled`)."""
    mode: Literal["R3", "R2"] = "R3"
    """`R3`: the engine's experts, in each pass of the trainer; the model server records them (`routed_experts`), and
    samples without are masked. A token takes a byte (two above 128 experts) for each layer and each of its experts.
    `R2`: those of the trainer's own pass before the step, where there is one (several optimiser steps for a batch, or
    `seq_logprob_error_threshold`)."""

    @property
    def of_engine(self) -> bool:
        """Whether the engine's are replayed."""
        return self.enabled and self.mode == "R3"


class PolicyConfig(SettingsBlock):
    """`policy`."""

    model_name: str
    """Folder or name of the model that training begins with."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """Whose tokenizer engines use."""
    max_total_sequence_length: int = Field(default=4096, ge=2)
    """Longest row that is trained on, and longest sequence of the engine."""
    train_global_batch_size: int | None = Field(default=None, ge=1)
    """Rows of one optimiser step; None: a whole batch."""
    train_micro_batch_size: int = Field(default=1, ge=1)
    """Rows of one forward pass; the loss does not depend on it."""
    logprob_chunk_size: int = Field(default=1024, ge=1)
    """Tokens whose logits there are at a time; nothing depends on it but memory: up to 12 bytes for each of them and
    each entry of the vocabulary (1.9 GB of 1,024 tokens at 152k). None: the default."""
    precision: Literal["bfloat16", "float32"] = "bfloat16"
    """Type of the computation and of the weights that engines are sent; the optimizer learns in float32 with either."""
    max_grad_norm: float | None = Field(default=1.0, gt=0)
    """Largest norm of a gradient; None: gradients are not clipped."""
    freeze_moe_router: bool = False
    """The routers of a mixture of experts are not trained (recipes: `policy.megatron_cfg.freeze_moe_router`)."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """The optimizer on torch; None: its defaults."""
    scheduler: SchedulerConfig = SchedulerConfig()
    """Schedule of its learning rate; None: it is constant."""
    dtensor_cfg: DtensorConfig = DtensorConfig()
    """How a policy on torch uses memory."""
    torch_cfg: TorchConfig = TorchConfig()
    """Where it is trained."""
    megatron_cfg: MegatronConfig = MegatronConfig()
    """A policy on Megatron-core, in place of torch."""
    sequence_packing: SequencePackingConfig = SequencePackingConfig()
    """Several rows in one sequence."""
    dynamic_batching: DynamicBatchingConfig = DynamicBatchingConfig()
    """Padded micro-batches that are bounded by tokens."""
    generation: GenerationConfig = GenerationConfig()
    """How engines sample."""
    router_replay: RouterReplayConfig = RouterReplayConfig()
    """Which experts tokens go through."""

    @property
    def n_processes(self) -> int:
        """Number of processes that hold the weights together."""
        return self.megatron_cfg.world_size if self.megatron_cfg.enabled else self.torch_cfg.processes

    def micro_batch_tokens(self, *, learn: bool) -> int | None:
        """Most tokens of a micro-batch, where one row is not longer; None: `train_micro_batch_size` bounds it.
        `learn`: there is a gradient."""
        batching = self.sequence_packing if self.sequence_packing.enabled else self.dynamic_batching
        if not batching.enabled:
            return None
        tokens = batching.train_mb_tokens or self.max_total_sequence_length * self.train_micro_batch_size
        return tokens if learn else batching.logprob_mb_tokens or tokens

    @field_validator("logprob_chunk_size", mode="before")
    @classmethod
    def _not_whole(cls, value: Any) -> Any:
        """The recipes' null, which means all tokens there."""
        return 1024 if value is None else value

    @field_validator("optimizer", "scheduler", mode="before")
    @classmethod
    def _none_given(cls, value: Any) -> Any:
        """The recipes' null."""
        return {} if value is None else value

    @model_validator(mode="after")
    def _fits(self) -> Self:
        new, longest = self.generation.max_new_tokens, self.max_total_sequence_length
        if new is not None and new > longest:
            raise ValueError(f"generation.max_new_tokens ({new}) is above max_total_sequence_length ({longest})")
        if self.torch_cfg.processes > 1 and self.optimizer.package != "torch":
            raise ValueError(
                f"optimizer.name {self.optimizer.name} knows no sharded weights: set torch_cfg.processes to 1, or take "
                "torch.optim.AdamW, whose state is sharded too"
            )
        if self.dtensor_cfg.cpu_offload and self.optimizer.package != "torch":
            raise ValueError(
                f"optimizer.name {self.optimizer.name} works on a GPU alone: set dtensor_cfg.cpu_offload to false, or "
                "take torch.optim.AdamW"
            )
        if self.torch_cfg.processes > 1 and not self.dtensor_cfg.enabled:
            raise ValueError(
                f"torch_cfg.processes is {self.torch_cfg.processes}, and with dtensor_cfg.enabled false there is one"
            )
        if self.sequence_packing.enabled and self.dynamic_batching.enabled:
            raise ValueError("sequence_packing and dynamic_batching both say which rows go together: enable one")
        return self

    @model_validator(mode="after")
    def _on_one_gpu(self) -> Self:
        if not self.generation.colocated.enabled:
            return self
        if self.dtensor_cfg.cpu_offload:
            raise ValueError(
                "generation.colocated.enabled: the policy leaves the GPU between its turns: set "
                "dtensor_cfg.cpu_offload to false"
            )
        if self.megatron_cfg.enabled or self.torch_cfg.processes > 1:
            raise ValueError(
                "generation.colocated.enabled is for one process of a policy on torch: set torch_cfg.processes to 1, "
                "and megatron_cfg.enabled to false, or generation.colocated.enabled to false"
            )
        return self

    @model_validator(mode="after")
    def _with_replay(self) -> Self:
        config = self.megatron_cfg
        if not self.router_replay.enabled:
            return self
        if not config.enabled:
            raise ValueError("router_replay.enabled is for a policy on Megatron-core: set megatron_cfg.enabled to true")
        if config.moe_router_load_balancing_type == "sinkhorn" or config.model_overrides.get("moe_router_fusion"):
            raise ValueError(
                "router_replay.enabled can't go with megatron_cfg.moe_router_load_balancing_type `sinkhorn` or "
                "model_overrides.moe_router_fusion, which choose experts by ways of their own"
            )
        return self

    @model_validator(mode="after")
    def _on_megatron(self) -> Self:
        config = self.megatron_cfg
        if not config.enabled:
            return self
        if self.torch_cfg.processes > 1:
            raise ValueError("torch_cfg.processes is that of torch alone: set megatron_cfg.processes")
        if config.context_parallel_size > 1 and not self.sequence_packing.enabled:
            raise ValueError(
                "megatron_cfg.context_parallel_size above 1 needs sequence_packing.enabled: set it to true"
            )
        if config.fp8_cfg.enabled and (self.precision != "bfloat16" or self.torch_cfg.device == "cpu"):
            raise ValueError(
                "megatron_cfg.fp8_cfg.enabled needs precision bfloat16 and GPUs: set it to false, or set precision and "
                "torch_cfg.device"
            )
        clip = config.optimizer.clip_grad
        if "max_grad_norm" in self.model_fields_set and clip is not None and clip != self.max_grad_norm:
            raise ValueError(
                f"max_grad_norm ({self.max_grad_norm}) and megatron_cfg.optimizer.clip_grad ({clip}) are the same: "
                "keep one"
            )
        return self
