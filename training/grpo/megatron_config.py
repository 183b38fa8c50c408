"""`policy.megatron_cfg`: the policy on Megatron-core, its layout over processes, its optimizer.

Source  NeMo-RL's block, whose keys are those of Megatron-core's `ModelParallelConfig`, `TransformerConfig`,
        `OptimizerConfig`, `DistributedDataParallelConfig` and `OptimizerParamScheduler`; `processes`, `setup_hook` and
        `bridge` are ours.
Law     with `enabled` every key here has an effect; keys of theirs that have none are `recipe.yaml`'s.
Errors  a layout that can't be is a ValidationError that says what would be right. What depends on the model (a
        vocabulary that can't be divided, experts that are not there) shows when it is read.
"""

from collections.abc import Mapping
from math import lcm
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from paddock.training.grpo.blocks import SettingsBlock

Size = Annotated[int, Field(ge=1)]


class MegatronOptimizer(SettingsBlock):
    """`policy.megatron_cfg.optimizer`: Adam."""

    optimizer: Literal["adam"] = "adam"
    """Megatron-core's name of the optimizer."""
    lr: float = Field(default=5e-6, gt=0)
    """Learning rate after the warm-up."""
    min_lr: float = Field(default=0.0, ge=0)
    """Learning rate at the end of a decay."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Norms and biases have none, as in Megatron-core."""
    adam_beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay rate of the running mean of the gradient."""
    adam_beta2: float = Field(default=0.999, ge=0, lt=1)
    """Decay rate of the running mean of its square."""
    adam_eps: float = Field(default=1e-8, gt=0)
    """Added to the denominator of an update, so that it is never 0."""
    clip_grad: float | None = Field(default=None, gt=0)
    """Largest norm of a gradient; None: `policy.max_grad_norm`."""
    use_distributed_optimizer: bool = True
    """Each data-parallel process holds a part of the optimizer's state."""
    use_precision_aware_optimizer: bool = False
    """State in less than float32; needs TransformerEngine and `use_distributed_optimizer`."""
    optimizer_cpu_offload: bool = False
    """Adam's state, or the share of it that the next key says, is kept and updated on the CPU."""
    optimizer_offload_fraction: float = Field(default=0.0, ge=0, le=1)
    """Share of the state, from 0 to 1, read with `optimizer_cpu_offload`; the rest stays on the GPU."""
    overlap_cpu_optimizer_d2h_h2d: bool = False
    """Copies between CPU and GPU go on while the CPU updates; read with `optimizer_cpu_offload`."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.min_lr > self.lr:
            raise ValueError(f"min_lr ({self.min_lr}) is above lr ({self.lr})")
        if self.use_precision_aware_optimizer and not self.use_distributed_optimizer:
            raise ValueError("use_precision_aware_optimizer needs use_distributed_optimizer: set it to true")
        return self


class MegatronScheduler(SettingsBlock):
    """`policy.megatron_cfg.scheduler`. Units: optimiser steps."""

    lr_warmup_iters: int = Field(default=0, ge=0)
    """Steps in which the learning rate rises in a line to `optimizer.lr`; 0: there is no warm-up."""
    lr_warmup_init: float = Field(default=0.0, ge=0)
    """Learning rate of the first step."""
    lr_decay_style: Literal["constant", "linear", "cosine", "inverse-square-root"] = "constant"
    """How the learning rate falls to `optimizer.min_lr` after the warm-up; `constant`: it does not."""
    lr_decay_iters: int | None = Field(default=None, ge=1)
    """Step at which the decay ends, and the growth of weight decay."""
    start_weight_decay: float | None = Field(default=None, ge=0)
    """Weight decay of the first step; None: the optimizer's `weight_decay`."""
    end_weight_decay: float | None = Field(default=None, ge=0)
    """Weight decay at the end of its growth; None: the optimizer's `weight_decay`."""
    weight_decay_incr_style: Literal["constant", "linear", "cosine"] = "constant"
    """How weight decay goes from its start to its end; `constant`: the two are the same."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        changes = self.lr_decay_style != "constant" or self.weight_decay_incr_style != "constant"
        if changes and self.lr_decay_iters is None:
            raise ValueError("lr_decay_style and weight_decay_incr_style other than `constant` need lr_decay_iters")
        if self.lr_decay_iters is not None and self.lr_warmup_iters >= self.lr_decay_iters:
            raise ValueError(
                f"lr_warmup_iters ({self.lr_warmup_iters}) has to be below lr_decay_iters ({self.lr_decay_iters})"
            )
        if self.weight_decay_incr_style == "constant" and self.start_weight_decay != self.end_weight_decay:
            raise ValueError("start_weight_decay and end_weight_decay differ: set weight_decay_incr_style to `linear`")
        return self


class MegatronDdp(SettingsBlock):
    """`policy.megatron_cfg.distributed_data_parallel_config`."""

    grad_reduce_in_fp32: bool = False
    """Gradients are gathered and summed in float32; False: in the weights' type."""
    overlap_grad_reduce: bool = False
    """Processes sum gradients while the backward pass goes on."""
    overlap_param_gather: bool = False
    """Needs `optimizer.use_distributed_optimizer`."""
    average_in_collective: bool = False
    """The sum over processes averages as it adds; False: gradients are scaled before it."""


class MegatronFp8(SettingsBlock):
    """`policy.megatron_cfg.fp8_cfg`: products of matrices in 8 bits, by TransformerEngine.

    Weights, and what engines are sent, stay in `policy.precision`.
    """

    enabled: bool = False
    """Needs `policy.precision: bfloat16` and TransformerEngine."""
    fp8: Literal["e4m3", "hybrid"] = "e4m3"
    """Format of the numbers; `hybrid`: gradients have a larger range (e5m2)."""
    fp8_recipe: Literal["tensorwise", "delayed", "mxfp8", "blockwise"] = "blockwise"
    """How numbers are scaled before they are rounded; `mxfp8` is for Blackwell."""

    @property
    def length_divisor(self) -> int:
        """The number of which the tokens that a process multiplies have to be a multiple."""
        return {"blockwise": 128, "mxfp8": 32}.get(self.fp8_recipe, 16) if self.enabled else 1


class MegatronConfig(SettingsBlock):
    """`policy.megatron_cfg`."""

    enabled: bool = False
    """The policy is trained on Megatron-core; False: on torch (`policy.torch_cfg`, `policy.dtensor_cfg`)."""
    processes: int | None = Field(default=None, ge=1)
    """Processes, on GPUs one for each; what the layout does not use is data parallel. None: as few as the layout
    needs."""
    setup_hook: str | None = Field(default=None, pattern=r"^[\w.]+:\w+$")
    """`module:function`, called in each process before Megatron-core is imported."""
    bridge: Literal["mbridge", "megatron_bridge"] = "mbridge"
    """What reads and writes weights in the form of Hugging Face."""

    tensor_model_parallel_size: Size = 1
    """Processes that share each layer: every one has a part of its matrices."""
    pipeline_model_parallel_size: Size = 1
    """Stages, each with some of the layers, which a micro-batch passes one after the other."""
    context_parallel_size: Size = 1
    """Processes that share each sequence: every one has a part of its tokens."""
    expert_model_parallel_size: Size = 1
    """Processes that share the experts of a layer: every one has some of them whole."""
    expert_tensor_parallel_size: int | None = Field(default=None, ge=1)
    """Tensor parallelism of experts; None: `tensor_model_parallel_size`."""
    sequence_parallel: bool = False
    """Tensor-parallel processes also share the tokens of norms, which saves memory."""
    num_layers_in_first_pipeline_stage: int | None = Field(default=None, ge=1)
    """Layers of the first stage; None: as many as of the others."""
    num_layers_in_last_pipeline_stage: int | None = Field(default=None, ge=1)
    """Layers of the last stage; None: as many as of the others."""
    use_gloo_process_groups: bool = True
    """Groups for tensors in memory of the CPU, beside those of GPUs."""

    activation_checkpointing: bool = False
    """Activations are computed anew for the gradient: less memory, more time."""
    recompute_granularity: Literal["full", "selective"] = "full"
    """What `activation_checkpointing` computes anew: whole layers (`full`), or `recompute_modules` (`selective`)."""
    recompute_modules: tuple[str, ...] | None = None
    """Modules that are recomputed with `selective`; None: the core of attention."""

    moe_router_dtype: Literal["fp32", "fp64"] | None = None
    """The type that routers compute in; None: the bridge's own choice."""
    moe_router_load_balancing_type: Literal["none", "aux_loss", "seq_aux_loss", "global_aux_loss", "sinkhorn"] = "none"
    """What spreads tokens evenly over experts: a loss (of weight `moe_aux_loss_coeff`), `sinkhorn`, or nothing."""
    moe_aux_loss_coeff: float = Field(default=0.0, ge=0)
    """Weight of the loss that balances experts; 0: there is none, whatever the model's own config says."""
    moe_router_bias_update_rate: float = Field(default=0.0, ge=0)
    """By how much a step moves the bias of an expert that got too many or too few tokens, in models with one."""
    moe_token_dispatcher_type: Literal["allgather", "alltoall", "flex"] = "alltoall"
    """How tokens reach their experts on other processes, by Megatron-core's names."""
    moe_permute_fusion: bool = False
    """Tokens are sorted by expert in a fused kernel."""
    moe_enable_deepep: bool = False
    """DeepEP's kernels send tokens to their experts; with the dispatcher `flex` alone."""
    moe_shared_expert_overlap: bool = False
    """Experts that all tokens pass compute while tokens travel; with the dispatcher `alltoall` alone."""
    moe_grouped_gemm: bool = True
    """All experts of a process in one kernel, where TransformerEngine is there."""

    apply_rope_fusion: bool = True
    """Rotary positions in a fused kernel; fused kernels, here and below, are used where TransformerEngine is there."""
    bias_activation_fusion: bool = True
    """The bias and the activation of a feed-forward layer in one kernel."""
    gradient_accumulation_fusion: bool = False
    """The product that gives a weight's gradient adds it to the buffer itself."""
    attention_backend: Literal["auto", "flash", "fused", "unfused", "local"] | None = None
    """Kernels of attention: a kind of TransformerEngine's, its choice (`auto`), none (`local`); None: the bridge's."""

    fp8_cfg: MegatronFp8 = MegatronFp8()
    """Matrices in 8 bits; None: its defaults."""

    model_overrides: Mapping[str, Any] = {}
    """Further fields of `TransformerConfig`, under their names."""
    optimizer: MegatronOptimizer = MegatronOptimizer()
    """Adam and the distribution of its state."""
    scheduler: MegatronScheduler = MegatronScheduler()
    """Learning rate and weight decay over steps."""
    distributed_data_parallel_config: MegatronDdp = MegatronDdp()
    """How data-parallel processes sum gradients."""

    @property
    def expert_tensor_parallel(self) -> int:
        return self.expert_tensor_parallel_size or self.tensor_model_parallel_size

    @property
    def ranks_on_one_node(self) -> int:
        """Consecutive ranks that split tensors among them, of layers or of experts: too much goes between them for a
        network."""
        return lcm(self.tensor_model_parallel_size, self.expert_tensor_parallel)

    @property
    def world_size(self) -> int:
        """Processes."""
        return self.processes or lcm(*self._needed)

    @property
    def length_divisor(self) -> int:
        """The number of which the length of every sequence has to be a multiple."""
        tensor = self.tensor_model_parallel_size if self.sequence_parallel else 1
        context = self.context_parallel_size
        return lcm(tensor * (2 * context if context > 1 else 1), self.fp8_cfg.length_divisor * context)

    @property
    def _needed(self) -> tuple[int, int]:
        """Processes of one copy of the layers, and of one copy of the experts."""
        stages = self.pipeline_model_parallel_size
        layers = stages * self.tensor_model_parallel_size * self.context_parallel_size
        return layers, stages * self.expert_model_parallel_size * self.expert_tensor_parallel

    @field_validator("fp8_cfg", mode="before")
    @classmethod
    def _none_given(cls, value: Any) -> Any:
        """The recipes' null."""
        return {} if value is None else value

    @model_validator(mode="after")
    def _whole_copies(self) -> Self:
        if not self.enabled:
            return self
        layers, experts = self._needed
        if self.world_size % layers:
            raise ValueError(
                f"processes ({self.world_size}) is no multiple of {layers}, the product of tensor_model_parallel_size, "
                "pipeline_model_parallel_size and context_parallel_size"
            )
        has_layout = self.expert_model_parallel_size > 1 or self.expert_tensor_parallel_size is not None
        if has_layout and self.world_size % experts:
            raise ValueError(
                f"processes ({self.world_size}) is no multiple of {experts}, the product of "
                "expert_model_parallel_size, expert_tensor_parallel_size and pipeline_model_parallel_size"
            )
        return self

    @model_validator(mode="after")
    def _together(self) -> Self:
        if not self.enabled:
            return self
        if self.scheduler.lr_warmup_init > self.optimizer.lr:
            raise ValueError(
                f"scheduler.lr_warmup_init ({self.scheduler.lr_warmup_init}) is above "
                f"optimizer.lr ({self.optimizer.lr})"
            )
        if self.pipeline_model_parallel_size > 1 and self.moe_token_dispatcher_type == "allgather":
            raise ValueError(
                "moe_token_dispatcher_type `allgather` can't go with stages of a pipeline: take `alltoall`"
            )
        if self.sequence_parallel and self.tensor_model_parallel_size == 1:
            raise ValueError("sequence_parallel needs tensor_model_parallel_size above 1: set it to false")
        with_experts = self.expert_model_parallel_size > 1
        if with_experts and self.tensor_model_parallel_size > 1 and not self.sequence_parallel:
            raise ValueError("experts with tensor_model_parallel_size above 1 need sequence_parallel: set it to true")
        if self.moe_enable_deepep and self.moe_token_dispatcher_type != "flex":
            raise ValueError("moe_enable_deepep needs moe_token_dispatcher_type `flex`")
        if self.moe_enable_deepep and self.moe_shared_expert_overlap:
            raise ValueError("moe_enable_deepep can't go with moe_shared_expert_overlap: set that to false")
        ddp = self.distributed_data_parallel_config
        if ddp.overlap_param_gather and not (self.optimizer.use_distributed_optimizer and ddp.overlap_grad_reduce):
            raise ValueError(
                "distributed_data_parallel_config.overlap_param_gather needs optimizer.use_distributed_optimizer and "
                "overlap_grad_reduce"
            )
        twice = sorted(set(self.model_overrides) & set(type(self).model_fields))
        if twice:
            raise ValueError(f"model_overrides says what keys of their own say: {', '.join(twice)}")
        return self

    @model_validator(mode="after")
    def _whole_stages(self) -> Self:
        uneven = self.num_layers_in_first_pipeline_stage or self.num_layers_in_last_pipeline_stage
        if self.enabled and uneven and self.pipeline_model_parallel_size == 1:
            raise ValueError(
                "num_layers_in_first_pipeline_stage and num_layers_in_last_pipeline_stage need "
                "pipeline_model_parallel_size above 1"
            )
        return self
