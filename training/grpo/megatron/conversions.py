"""Makes the conversion of a policy's weights, by a bridge and a layout.

Errors  ConfigError for a model that is not there, and for a layout that Megatron-core or the bridge refuses.
"""

from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from megatron.core.models.gpt.gpt_layer_specs import HAVE_TE
from megatron.core.transformer.enums import AttnBackend

from paddock.errors import ConfigError
from paddock.training.grpo.megatron.conversion import Conversion
from paddock.training.grpo.megatron.layout import ParallelLayout
from paddock.training.grpo.megatron_config import MegatronConfig
from paddock.training.grpo.policy_config import PolicyConfig
from paddock.training.grpo.sharding import DTYPES

_FIELDS = (
    "num_layers_in_first_pipeline_stage",
    "num_layers_in_last_pipeline_stage",
    "moe_router_dtype",
    "moe_router_load_balancing_type",
    "moe_aux_loss_coeff",
    "moe_router_bias_update_rate",
    "moe_token_dispatcher_type",
    "moe_permute_fusion",
    "moe_enable_deepep",
    "moe_shared_expert_overlap",
    "moe_grouped_gemm",
    "apply_rope_fusion",
    "bias_activation_fusion",
    "gradient_accumulation_fusion",
    "attention_backend",
)
"""Settings that core has under the same name; None: the bridge's own value."""


def make_conversion(policy: PolicyConfig) -> Conversion:
    config = policy.megatron_cfg
    if config.fp8_cfg.enabled and not HAVE_TE:
        raise ConfigError(
            "policy.megatron_cfg.fp8_cfg.enabled needs TransformerEngine, which is not there", kind="transformer_engine"
        )
    layout, folder = layout_of(policy), _folder(policy.model_name)
    try:
        if config.bridge == "megatron_bridge":
            from paddock.training.grpo.megatron.megatron_bridge import MegatronBridge

            return MegatronBridge(folder, layout)
        from paddock.training.grpo.megatron.mbridge_conversion import MbridgeConversion

        return MbridgeConversion(folder, layout)
    except (AssertionError, ImportError, TypeError, ValueError) as error:
        raise ConfigError(f"policy.megatron_cfg: {error}", kind="layout") from error


def layout_of(policy: PolicyConfig) -> ParallelLayout:
    config = policy.megatron_cfg
    own = {name: getattr(config, name) for name in _FIELDS if getattr(config, name) is not None}
    if config.attention_backend is not None:
        own["attention_backend"] = AttnBackend[config.attention_backend]  # core takes a text for no kernel at all
    return ParallelLayout(
        tensor_model_parallel_size=config.tensor_model_parallel_size,
        pipeline_model_parallel_size=config.pipeline_model_parallel_size,
        context_parallel_size=config.context_parallel_size,
        expert_model_parallel_size=config.expert_model_parallel_size,
        expert_tensor_parallel_size=config.expert_tensor_parallel,
        sequence_parallel=config.sequence_parallel,
        dtype=DTYPES[policy.precision],
        more={**own, **_recomputing(config), **_routing(policy), **_fp8(config), **config.model_overrides},
    )


def _routing(policy: PolicyConfig) -> dict[str, Any]:
    """A fused kernel of routers chooses experts by itself."""
    return {"moe_router_fusion": False} if policy.router_replay.enabled else {}


def _fp8(config: MegatronConfig) -> dict[str, Any]:
    own = config.fp8_cfg
    return {"fp8": own.fp8, "fp8_recipe": own.fp8_recipe} if own.enabled else {}


def _recomputing(config: MegatronConfig) -> dict[str, Any]:
    if not config.activation_checkpointing:
        return {}
    if config.recompute_granularity == "full":
        return {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}
    modules = {} if config.recompute_modules is None else {"recompute_modules": list(config.recompute_modules)}
    return {"recompute_granularity": "selective", **modules}


def _folder(name: str) -> Path:
    """The folder of a model; that of a hub name is where the hub's client has it or puts it."""
    if Path(name).expanduser().is_dir():
        return Path(name).expanduser()
    try:
        return Path(snapshot_download(name, allow_patterns=["*.json", "*.safetensors"]))
    except (OSError, ValueError) as error:
        raise ConfigError(f"policy.model_name: {name}: {error}", kind="model") from error
