"""`Conversion` by mbridge: core 0.16.1 on Python 3.11.

Source  mbridge 0.15.1: the architecture's settings, which tensors of a checkpoint are one of core's, and their layouts.
        Which process holds which part is decided here: also experts one by one (core's local layers, where
        TransformerEngine is missing), and experts that are spread otherwise than the other layers.
Names   core's own, as TransformerEngine's layers have them: `...mlp.experts.linear_fc1.weight3` is the third expert of
        all, `...linear_qkv.layer_norm_weight` the norm before it.
Law     each process reads its own parts of tensors, a tensor at a time. `export` gives every weight on every rank, one
        at a time.
Errors  ConfigError for what can't be read: a folder without safetensors, an architecture that was not tested with
        mbridge, rotary scaling, a vocabulary that can't be divided.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from mbridge.core.bridge import _MODEL_REGISTRY
from megatron.core import parallel_state
from megatron.core.models.gpt.gpt_layer_specs import HAVE_TE, get_gpt_decoder_block_spec
from transformers import AutoConfig

from paddock.errors import ConfigError
from paddock.training.grpo.megatron.conversion import HfWeight
from paddock.training.grpo.megatron.layout import ParallelLayout
from paddock.training.grpo.megatron.weight_files import WeightFiles, WeightSlice

ARCHITECTURES = ("qwen2", "qwen3", "qwen3_moe")
_ONE_EXPERT = re.compile(r"\.mlp\.experts\.local_experts\.(\d+)\.(linear_fc[12])\.weight$")
_GROUPED = re.compile(r"\.mlp\.experts\.(linear_fc[12])\.weight(\d+)$")
_LAYER = re.compile(r"^decoder\.layers\.(\d+)\.")


class StageTensor(NamedTuple):
    """The description of one tensor of a stage, which all stages get."""

    name: str
    """The name has the number of the layer in the whole model, and of an expert that among its rank's."""
    shape: tuple[int, ...]
    dtype: torch.dtype
    cut: int | None
    """The dimension that tensor parallelism splits; None: the tensor is whole."""


class MbridgeConversion:
    """The `Conversion` of a folder."""

    def __init__(self, folder: Path, layout: ParallelLayout) -> None:
        self._bridge = _bridge(folder, layout)
        self._files = WeightFiles(folder)

    def models(self) -> list[Any]:
        models: list[Any] = self._bridge.get_model(bf16=False)
        return models

    def load(self, models: list[Any]) -> None:
        with torch.no_grad():
            for model in models:
                for own, parameter in _named_parameters(model):
                    name = _global_name(own, self._n_experts_here, parallel_state.get_expert_model_parallel_rank())
                    parameter.copy_(self._part(name, parameter))

    def export(self, models: list[Any]) -> Iterator[HfWeight]:
        for model in models:
            twice = "output_layer.weight" if _whole_model(model).share_embeddings_and_output_weights else None
            own = [(name, parameter) for name, parameter in _named_parameters(model) if name != twice]
            group = parallel_state.get_pipeline_model_parallel_group()
            stages: list[Any] = [None] * dist.get_world_size(group)
            dist.all_gather_object(stages, [_describe(name, parameter) for name, parameter in own], group=group)
            for stage, parts in enumerate(stages):
                here = stage == parallel_state.get_pipeline_model_parallel_rank()
                for at, part in enumerate(parts):
                    yield from self._gathered(part, own[at][1].detach() if here else None, stage)

    @property
    def _n_experts_here(self) -> int:
        experts = self._bridge.config.num_moe_experts or 0
        return int(experts // parallel_state.get_expert_model_parallel_world_size())

    def _part(self, name: str, parameter: torch.Tensor) -> torch.Tensor:
        """This rank's part of a weight in the files; `parameter` has its shape."""
        names = self._bridge._weight_name_mapping_mcore_to_hf(name)
        size, rank = _shard_of(name)
        dim = _cut_dim([self._files.shape(one) for one in names], tuple(parameter.shape))
        if dim is not None and "linear_qkv" in name and self._bridge.hf_config.num_key_value_heads % size:
            # A part has less than one head of keys and values, and these are between the queries of their head.
            whole = self._bridge._weight_to_mcore_format(name, [self._files.read(one) for one in names])
            return whole.chunk(size, dim)[rank].to(parameter.dtype)
        own = None if dim is None else WeightSlice(dim, size, rank)
        part = self._bridge._weight_to_mcore_format(name, [self._files.read(one, own) for one in names])
        return part.to(parameter.dtype)

    def _gathered(self, part: StageTensor, own: torch.Tensor | None, stage: int) -> Iterator[HfWeight]:
        value = _from_stage(part, own, stage)
        if ".mlp.experts.linear_fc" not in part.name:
            yield from self._converted(
                part.name, _joined(part, value, parallel_state.get_tensor_model_parallel_group())
            )
            return
        for rank, expert in enumerate(_all_of(value, parallel_state.get_expert_model_parallel_group())):
            name = _global_name(part.name, self._n_experts_here, rank)
            yield from self._converted(name, _joined(part, expert, parallel_state.get_expert_tensor_parallel_group()))

    def _converted(self, name: str, whole: torch.Tensor) -> Iterator[HfWeight]:
        names, tensors = self._bridge._weight_to_hf_format(name, whole)
        for hf_name, tensor in zip(names, tensors, strict=True):
            yield HfWeight(hf_name, tensor.contiguous())


def _bridge(folder: Path, layout: ParallelLayout) -> Any:
    try:
        config = AutoConfig.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise ConfigError(f"policy.model_name: {folder}: {error}", kind="model") from error
    refused = _refused(config, layout)
    if refused is not None:
        raise ConfigError(f"policy.model_name: {folder} {refused}", kind="model")
    # Where mbridge looks for it: Transformers before 5 had it there.
    config.rope_theta = _rotary(config).get("rope_theta", getattr(config, "rope_theta", None))
    kind = _MODEL_REGISTRY[config.model_type]
    return type(f"Laid{kind.__name__}", (_BridgeWithLayout, kind), {})(config, layout)


def _refused(config: Any, layout: ParallelLayout) -> str | None:
    """Why a model can't be read; None: it can."""
    tensor, scaling = layout.tensor_model_parallel_size, _rotary(config).get("rope_type", "default")
    if config.model_type not in ARCHITECTURES:
        return (
            f"is of type {config.model_type}; with mbridge: {', '.join(ARCHITECTURES)} "
            "(policy.megatron_cfg.bridge: megatron_bridge reads others)"
        )
    if scaling != "default":
        return f"scales rotary positions ({scaling}), which is not done with mbridge"
    if getattr(config, "mlp_only_layers", None) or getattr(config, "decoder_sparse_step", 1) != 1:
        return "has layers with and without experts, which is not done with mbridge"
    if config.vocab_size % tensor:
        return (
            f"has a vocabulary of {config.vocab_size}, which policy.megatron_cfg.tensor_model_parallel_size ({tensor}) "
            "does not divide"
        )
    return None


def _rotary(config: Any) -> Mapping[str, Any]:
    return getattr(config, "rope_parameters", None) or {}


class _BridgeWithLayout:
    """Mixed into a bridge of mbridge: it makes the model by our layout, with core's local layers where
    TransformerEngine is missing."""

    _DIRECT_MAPPING: Mapping[str, str]

    def __init__(self, config: Any, layout: ParallelLayout) -> None:
        self._fields = layout.fields(fused=HAVE_TE)
        if not HAVE_TE:
            self._fields["persist_layer_norm"] = False
        if hasattr(config, "norm_topk_prob"):  # which mbridge takes for true
            self._fields["moe_router_pre_softmax"] = not config.norm_topk_prob
        # Of its own: mbridge writes into that of the class what holds for models with shared embeddings.
        self._DIRECT_MAPPING = dict(self._DIRECT_MAPPING)
        super().__init__(config, dtype=layout.dtype)  # type: ignore[call-arg]

    def _build_base_config(self, *args: Any, **fields: Any) -> Any:
        return super()._build_base_config(*args, **{**fields, **self._fields})  # type: ignore[misc]

    def _get_transformer_layer_spec(self, vp_stage: int | None = None) -> Any:
        return get_gpt_decoder_block_spec(self.config, use_transformer_engine=HAVE_TE, vp_stage=vp_stage)  # type: ignore[attr-defined]


def _named_parameters(model: Any) -> Iterator[tuple[str, Any]]:
    """The names, as TransformerEngine's layers have them, and parameters of a model."""
    model = _whole_model(model)
    numbers = {nth: layer.layer_number - 1 for nth, layer in enumerate(model.decoder.layers)}
    dense = model.config.num_moe_experts is None
    for name, parameter in model.named_parameters():
        name = _LAYER.sub(lambda match: f"decoder.layers.{numbers[int(match[1])]}.", name)
        name = _ONE_EXPERT.sub(lambda match: f".mlp.experts.{match[2]}.weight{match[1]}", name)
        name = name.replace(".input_layernorm.weight", ".self_attention.linear_qkv.layer_norm_weight")
        if dense:
            name = name.replace(".pre_mlp_layernorm.weight", ".mlp.linear_fc1.layer_norm_weight")
        yield name, parameter


def _whole_model(model: Any) -> Any:
    """The model without its wrappers."""
    while hasattr(model, "module"):
        model = model.module
    return model


def _global_name(name: str, n_here: int, rank: int) -> str:
    """The name with an expert's number among all, in place of that among a rank's."""
    return _GROUPED.sub(lambda match: f".mlp.experts.{match[1]}.weight{int(match[2]) + n_here * rank}", name)


def _describe(name: str, value: torch.Tensor) -> StageTensor:
    cut = None
    if ".mlp.experts.linear_fc" in name:
        cut = 1 if "linear_fc2" in name else 0
    elif getattr(value, "tensor_model_parallel", False):
        cut = value.partition_dim
    return StageTensor(name, tuple(value.shape), value.dtype, cut)


def _cut_dim(shapes: Sequence[tuple[int, ...]], own: tuple[int, ...]) -> int | None:
    """The dimension in which a rank's part is smaller than the tensors of the checkpoint, one below the other; None: it
    has them whole."""
    whole = (sum(shape[0] for shape in shapes), *shapes[0][1:])
    return next((dim for dim, (all_, part) in enumerate(zip(whole, own, strict=True)) if all_ != part), None)


def _shard_of(name: str) -> tuple[int, int]:
    """Into how many parts the tensor is split, and the index of this rank's part."""
    if ".mlp.experts.linear_fc" in name:
        return (
            parallel_state.get_expert_tensor_parallel_world_size(),
            parallel_state.get_expert_tensor_parallel_rank(),
        )
    return parallel_state.get_tensor_model_parallel_world_size(), parallel_state.get_tensor_model_parallel_rank()


def _from_stage(part: StageTensor, own: torch.Tensor | None, stage: int) -> torch.Tensor:
    group = parallel_state.get_pipeline_model_parallel_group()
    if dist.get_world_size(group) == 1:
        assert own is not None
        return own
    device = torch.cuda.current_device()
    value = torch.empty(part.shape, dtype=part.dtype, device=device) if own is None else own.contiguous()
    dist.broadcast(value, src=dist.get_global_rank(group, stage), group=group)
    return value


def _all_of(value: torch.Tensor, group: Any) -> list[torch.Tensor]:
    """The values of all ranks of the group, in order."""
    size = dist.get_world_size(group)
    if size == 1:
        return [value]
    values = [torch.empty_like(value) for _ in range(size)]
    dist.all_gather(values, value.contiguous(), group=group)
    return values


def _joined(part: StageTensor, value: torch.Tensor, group: Any) -> torch.Tensor:
    """The parts of all ranks of tensor parallelism as one."""
    if part.cut is None:
        return value
    parts = _all_of(value, group)
    if len(parts) == 1:
        return value
    if "linear_fc1" not in part.name:
        return torch.cat(parts, dim=part.cut)
    halves = [shard.chunk(2) for shard in parts]
    return torch.cat([gate for gate, _ in halves] + [up for _, up in halves])
