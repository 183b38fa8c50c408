"""The optimizer of Megatron-core and its schedule, under the names of the settings.

Law     a schedule is stepped once for each optimiser step. Weights are learned in float32; with `bfloat16` the model's
        are copies of the optimizer's.
Errors  ConfigError for what core or TransformerEngine refuses.
"""

import math
from typing import Any

from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
from megatron.core.transformer.module import Float16Module
from megatron.core.utils import get_model_config

from paddock.errors import ConfigError
from paddock.training.grpo.megatron_config import MegatronConfig
from paddock.training.grpo.policy_config import PolicyConfig
from paddock.training.grpo.sharding import DTYPES


def in_precision(models: list[Any], policy: PolicyConfig) -> list[Any]:
    """The loaded models in the precision of the computation."""
    if policy.precision == "float32":
        return models
    return [Float16Module(get_model_config(model), model) for model in models]


def with_gradients(models: list[Any], config: MegatronConfig) -> list[Any]:
    """The models with buffers of gradients, which data-parallel processes sum."""
    own = config.distributed_data_parallel_config
    distributed = config.optimizer.use_distributed_optimizer
    ddp = DistributedDataParallelConfig(use_distributed_optimizer=distributed, **own.model_dump())
    return [DistributedDataParallel(get_model_config(model), ddp, model) for model in models]


def make_optimizer(models: list[Any], policy: PolicyConfig) -> Any:
    config = policy.megatron_cfg
    fields = config.optimizer.model_dump()
    fields["clip_grad"] = fields["clip_grad"] or policy.max_grad_norm or math.inf
    dtype = DTYPES[policy.precision]
    try:
        own = OptimizerConfig(
            bf16=policy.precision == "bfloat16",
            params_dtype=dtype,
            overlap_param_gather=config.distributed_data_parallel_config.overlap_param_gather,
            **fields,
        )
        return get_megatron_optimizer(own, models, use_gloo_process_groups=config.use_gloo_process_groups)
    except (AssertionError, ImportError, ValueError) as error:
        raise ConfigError(f"policy.megatron_cfg.optimizer: {error}", kind="optimizer") from error


def make_scheduler(optimizer: Any, config: MegatronConfig) -> Any:
    own, adam = config.scheduler, config.optimizer
    n_steps = own.lr_decay_iters or own.lr_warmup_iters + 1
    start, end = own.start_weight_decay, own.end_weight_decay
    return OptimizerParamScheduler(
        optimizer,
        init_lr=own.lr_warmup_init,
        max_lr=adam.lr,
        min_lr=adam.min_lr,
        lr_warmup_steps=own.lr_warmup_iters,
        lr_decay_steps=n_steps,
        lr_decay_style=own.lr_decay_style,
        start_wd=adam.weight_decay if start is None else start,
        end_wd=adam.weight_decay if end is None else end,
        wd_incr_steps=n_steps,
        wd_incr_style=own.weight_decay_incr_style,
    )
