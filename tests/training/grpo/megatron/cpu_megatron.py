"""Megatron-core 0.16.1 on a CPU: `prepare` is the policy's set-up hook, `policy.megatron_cfg.setup_hook`.

Core's local layers compute on a CPU; what stands against it is what it asks of CUDA besides. Devices named `cuda`
become the CPU by a mode of torch, which holds for the thread that called `prepare`; random states of devices are those
that core has for inference, so that there can be no dropout; norms of local layers say that their weights are shared by
tensor parallelism, which core's own refuse to.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_KINDS = ("Float", "Half", "BFloat16", "Double", "Int", "Long", "Byte")


class _Idle:
    """A stream or an event that has nothing to wait for."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> "_Idle":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *_, **__: _Idle()


class _OnCpu(TorchFunctionMode):  # type: ignore[misc]
    """What names a device of CUDA is done on the CPU."""

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        if function is torch.Tensor.cuda:
            return args[0]
        if _names_cuda(options.get("device")):
            options["device"] = "cpu"
        if function is torch.Tensor.to:
            args = tuple("cpu" if _names_cuda(one) else one for one in args)
        return function(*args, **options)


def _names_cuda(value: Any) -> bool:
    return isinstance(value, str | torch.device) and str(value).startswith("cuda")


def prepare() -> None:
    """For this thread, and, once, for the process."""
    _OnCpu().__enter__()
    _without_devices()
    _types_as_on_devices()
    _core()


def _without_devices() -> None:
    idle: Any = lambda *_, **__: None  # noqa: E731
    cuda: Any = torch.cuda
    cuda.current_device = lambda: torch.device("cpu")
    cuda.Stream = cuda.Event = _Idle
    cuda.current_stream = cuda.default_stream = _Idle
    cuda.stream = lambda *_: nullcontext()
    cuda.synchronize = cuda.empty_cache = cuda.nvtx.range_push = cuda.nvtx.range_pop = idle
    cuda.get_device_capability = lambda *_: (0, 0)
    for kind in _KINDS:
        setattr(cuda, f"{kind}Tensor", getattr(torch, f"{kind}Tensor"))
    module: Any = torch.nn.Module
    module.cuda = lambda self, *_, **__: self


def _types_as_on_devices() -> None:
    """Core's optimizers tell tensors of devices by their type's name."""
    tensor: Any = torch.Tensor
    plain = tensor.type
    if plain.__name__ == "named":
        return

    def named(self: Any, *args: Any, **options: Any) -> Any:
        found = plain(self, *args, **options)
        if not isinstance(found, str) or ".cuda." in found:
            return found
        return found.replace("torch.", "torch.cuda.")

    tensor.type = named


def _core() -> None:
    from megatron.core.tensor_parallel import random
    from megatron.core.transformer import torch_norm
    from megatron.core.transformer.moe import moe_utils, token_dispatcher

    random.initialize_rng_tracker(inference_rng_tracker=True, force_reset=True)
    random._get_cuda_rng_state = lambda *_, **__: torch.zeros(0, dtype=torch.uint8)
    random._set_cuda_rng_state = lambda *_, **__: None
    torch_norm.WrappedTorchNorm.__new__ = staticmethod(_norm)
    if not hasattr(moe_utils, "te_general_gemm"):
        moe_utils.te_general_gemm = None
    moved = token_dispatcher.maybe_move_tensor_to_cpu
    if moved.__name__ != "host":
        token_dispatcher.maybe_move_tensor_to_cpu = _as_numbers(moved)


def _norm(_: Any, config: Any, hidden_size: int, eps: float = 1e-5, **__: Any) -> Any:
    norm = torch.nn.RMSNorm(hidden_size, eps=eps)
    norm.weight.sequence_parallel = config.sequence_parallel
    return norm


def _as_numbers(moved: Callable[..., Any]) -> Callable[..., Any]:
    """How many tokens go to whom, as collectives of gloo want it: core makes numbers of tensors of devices alone."""

    def host(value: Any, as_numpy: bool = False, record_stream: bool = False) -> Any:
        found = moved(value, as_numpy, record_stream)
        return found.numpy() if as_numpy and isinstance(found, torch.Tensor) else found

    return host
