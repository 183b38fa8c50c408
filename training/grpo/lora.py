"""LoRA: the weights of linear layers stay as they are, and a product of two small matrices is learned beside each.

Formula y = x W'^T with W' = W + alpha / dim * B A, of A [dim, in], B [out, dim] (Hu et al., LoRA, 2021);
        B is 0 at first.
Law     W' is made in float32 and rounded to the type of the computation before it is used: it is, to the bit, the
        weight that engines are sent and that an export has. With x W^T + x A^T B^T, which is the same without rounding,
        trainer and engine would disagree wherever bfloat16 rounds B A away. The gradient passes the rounding as it is.
        Of W there is no gradient, and W' is not kept for the backward pass: time and memory are those of LoRA.
Names   of the model's own weights do not change; an adapter's are `<layer>.lora_a` and `<layer>.lora_b`.
Layers  `torch.nn.Linear` alone, and never the output layer: of a mixture, whose experts are one tensor, the attention.
Errors  ConfigError where no layer matches.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.distributed.tensor import DTensor, distribute_tensor

from paddock.errors import ConfigError
from paddock.training.grpo.policy_config import LoraConfig

ADAPTER_FOLDER = "adapter"
"""Folder of an export that has the adapter alone, in peft's form."""


class _MergedLinear(torch.autograd.Function):  # type: ignore[misc]
    """`x W'^T`, whose W' is made again for the gradient of x."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, x: torch.Tensor, weight: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale: float
    ) -> torch.Tensor:
        ctx.save_for_backward(x, weight, a, b)
        ctx.scale = scale
        return torch.nn.functional.linear(x, merged(weight, a, b, scale))

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight, a, b = ctx.saved_tensors
        rows, out = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
        grad_x = grad @ merged(weight, a, b, ctx.scale) if ctx.needs_input_grad[0] else None
        return grad_x, None, ctx.scale * (out @ b).T @ rows, ctx.scale * out.T @ (rows @ a.T), None


def merged(weight: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale: float) -> torch.Tensor:
    """W', in the type of `weight`; that of `a` and `b` is the same."""
    return torch.addmm(weight.float(), b.float(), a.float(), alpha=scale).to(weight.dtype)


class LoraLinear(torch.nn.Linear):  # type: ignore[misc]
    """A linear layer with an adapter, which is nothing before `start_adapters`; `active` False: as it was without."""

    def __init__(self, linear: torch.nn.Linear, config: LoraConfig) -> None:
        super().__init__(linear.in_features, linear.out_features, bias=False, device="meta")
        self.weight, self.bias = linear.weight, linear.bias
        device = linear.weight.device
        self.lora_a = torch.nn.Parameter(torch.empty(config.dim, linear.in_features, device=device))
        self.lora_b = torch.nn.Parameter(torch.empty(linear.out_features, config.dim, device=device))
        self.scale = config.alpha / config.dim
        self.active = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.active:
            return super().forward(x)
        y = _MergedLinear.apply(x, self.weight, self.lora_a, self.lora_b, self.scale)
        return y if self.bias is None else y + self.bias


def add_adapters(model: Any, config: LoraConfig, *, dtype: torch.dtype) -> None:
    """Freeze the model, keep its weights in `dtype`, and put adapters of float32 beside the layers that match."""
    for value in model.parameters():
        value.requires_grad_(requires_grad=False)
        value.data = value.data.to(dtype)
    names = [name for name in _linear_layers(model) if _matches(name, config)]
    if not names:
        raise ConfigError(
            "policy.dtensor_cfg.lora_cfg matches no linear layer: name some of "
            f"{', '.join(sorted({name.rpartition('.')[2] for name in _linear_layers(model)}))} in target_modules",
            kind="config_invalid",
        )
    for name in names:
        parent, _, own = name.rpartition(".")
        layers = model.get_submodule(parent)
        setattr(layers, own, LoraLinear(getattr(layers, own), config))


@torch.no_grad()  # type: ignore[untyped-decorator]
def start_adapters(model: Any, config: LoraConfig, *, seed: int) -> None:
    """Give the adapters the values that they begin with. The same seed makes the same ones, however many processes hold
    them."""
    generator = torch.Generator().manual_seed(seed)
    for layer in adapters(model).values():
        a = torch.empty(layer.lora_a.shape)
        if config.lora_A_init == "xavier":
            torch.nn.init.xavier_normal_(a, generator=generator)
        else:
            torch.nn.init.kaiming_uniform_(a, a=5**0.5, generator=generator)
        layer.lora_a.copy_(_as_held(a, layer.lora_a))
        layer.lora_b.zero_()


def _as_held(value: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """The value on the parameter's device, and sharded as it is."""
    value = value.to(parameter.device)
    if not isinstance(parameter, DTensor):
        return value
    return distribute_tensor(value, parameter.device_mesh, parameter.placements, src_data_rank=None)


def adapters(model: Any) -> dict[str, LoraLinear]:
    """The layers with an adapter, by name; none where all weights are trained."""
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, LoraLinear)}


@contextmanager
def without_adapters(model: Any) -> Iterator[None]:
    """The model as it was before training."""
    layers = adapters(model).values()
    for layer in layers:
        layer.active = False
    try:
        yield
    finally:
        for layer in layers:
            layer.active = True


def write_adapter(folder: Path, weights: dict[str, torch.Tensor], config: LoraConfig, model_name: str) -> None:
    """Write the adapter in the form of peft 0.21, which vLLM reads too. `weights`: whole, by their names here."""
    folder.mkdir(parents=True, exist_ok=True)
    layers = sorted({name.rpartition(".")[0] for name in weights})
    parts = {"lora_a": "lora_A.weight", "lora_b": "lora_B.weight"}
    named = ((name.rpartition("."), value) for name, value in weights.items())
    save_file(
        {f"base_model.model.{layer}.{parts[part]}": value.contiguous() for (layer, _, part), value in named},
        folder / "adapter_model.safetensors",
    )
    own = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": model_name,
        "r": config.dim,
        "lora_alpha": config.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": layers,
        "inference_mode": True,
    }
    (folder / "adapter_config.json").write_text(json.dumps(own, indent=2) + "\n")


def _linear_layers(model: Any) -> list[str]:
    output = model.get_output_embeddings()
    return [
        name
        for name, layer in model.named_modules()
        if isinstance(layer, torch.nn.Linear) and layer is not output and type(layer) is torch.nn.Linear
    ]


def _matches(name: str, config: LoraConfig) -> bool:
    if any(_is_named(name, pattern) for pattern in config.exclude_modules):
        return False
    return not config.target_modules or any(_is_named(name, pattern) for pattern in config.target_modules)


def _is_named(name: str, pattern: str) -> bool:
    return name.rpartition(".")[2] == pattern or fnmatchcase(name, pattern)
