"""`Conversion` through NVIDIA Megatron-Bridge: core 0.19, Python 3.12.

Source  NVIDIA-NeMo/Megatron-Bridge 0.6.2: `AutoBridge.from_hf_pretrained`, its provider (core's `TransformerConfig`,
        made final when all is set), `load_hf_weights`, `export_hf_weights`.
Layers  TransformerEngine's where it is there; else core's own, in which norms are layers of themselves and experts come
        one after the other. The Bridge maps the names of both. It imports TransformerEngine in any case: where that is
        missing the process's set-up hook has to put something in its place, after `megatron.core` is imported.
Loads   a tensor at a time: each process reads those of which it has a part, whole, and each tensor's first rank hands
        out the parts. The Bridge knows no slices of files.
Law     as in `conversion`. Rank 0 alone has what is exported: as it is where it is the only one, else in memory of the
        CPU, a tensor at a time; the others gather with it.
Errors  ConfigError where there is no Megatron-Bridge, and for a folder, an architecture or a layout that it can't read.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch.distributed as dist
from megatron.core import parallel_state, tensor_parallel
from megatron.core.models.gpt.gpt_layer_specs import HAVE_TE, get_gpt_layer_local_spec
from megatron.core.process_groups_config import ProcessGroupCollection

from paddock.errors import ConfigError
from paddock.training.grpo.megatron.conversion import HfWeight
from paddock.training.grpo.megatron.layout import ParallelLayout


class MegatronBridge:
    """The `Conversion` of a folder."""

    def __init__(self, folder: Path, layout: ParallelLayout) -> None:
        self._bridge = _auto_bridge(folder)
        self._provider = _provider(self._bridge, folder, layout)

    def models(self) -> list[Any]:
        provider = self._provider
        provider._pg_collection = ProcessGroupCollection.use_mpu_process_groups()
        first, last = parallel_state.is_pipeline_first_stage(), parallel_state.is_pipeline_last_stage()
        model = provider.provide(pre_process=first, post_process=last)
        for value in model.parameters():
            tensor_parallel.set_defaults_if_not_set_tensor_model_parallel_attributes(value)
        return [model]

    def load(self, models: list[Any]) -> None:
        self._bridge.load_hf_weights(models)

    def export(self, models: list[Any]) -> Iterator[HfWeight]:
        first, alone = dist.get_rank() == 0, dist.get_world_size() == 1
        for name, value in self._bridge.export_hf_weights(models, cpu=False, show_progress=False):
            if first:
                yield HfWeight(name, value.detach() if alone else value.detach().to("cpu"))


def _auto_bridge(folder: Path) -> Any:
    try:
        from megatron.bridge import AutoBridge
    except ImportError as error:
        raise ConfigError(
            f"policy.megatron_cfg: this environment has no Megatron-Bridge that can be imported: {error}", kind="bridge"
        ) from error
    try:
        return AutoBridge.from_hf_pretrained(str(folder))
    except (OSError, ValueError) as error:
        raise ConfigError(f"policy.model_name: {folder}: {error}", kind="model") from error


def _provider(bridge: Any, folder: Path, layout: ParallelLayout) -> Any:
    provider = bridge.to_megatron_provider(load_weights=False)
    for name, value in layout.fields(fused=HAVE_TE).items():
        if not hasattr(provider, name):
            raise ConfigError(f"policy.megatron_cfg: this Megatron-core knows no {name}", kind="layout")
        setattr(provider, name, value)
    if not HAVE_TE:
        provider.transformer_layer_spec = _local_layers
    try:
        provider.finalize()
    except (AssertionError, ValueError) as error:
        raise ConfigError(f"policy.megatron_cfg: {folder} can't be laid out so: {error}", kind="layout") from error
    return provider


def _local_layers(provider: Any) -> Any:
    return get_gpt_layer_local_spec(
        num_experts=provider.num_moe_experts,
        moe_grouped_gemm=provider.moe_grouped_gemm,
        qk_layernorm=provider.qk_layernorm,
        normalization=provider.normalization,
    )
