"""Memory of a GPU that a trainer writes and the workers of engines on the same GPU read (CUDA IPC).

Notice  the handle that CUDA gives for its memory, 64 bytes, and the GPU's UUID: digits in JSON. (What torch and vLLM
        hand over is a pickle, which runs what it says, and a file in /dev/shm that stays when its maker is killed.)
Law     the memory is taken by `cudaMalloc`, beside torch's own, and is given back by `close`; that of a process that
        ended is free when nobody has it open, and whoever reads it closes it at once. CUDA gives no memory to the
        process itself by a handle of its own.
Source  CUDA's runtime, which torch has loaded: cudaIpcGetMemHandle, cudaIpcOpenMemHandle, cudaIpcCloseMemHandle.
Errors  RuntimeError with CUDA's own text; another GPU than the notice's.
"""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field

HANDLE_BYTES = 64
"""CUDA_IPC_HANDLE_SIZE."""
LAZY_PEER_ACCESS = 1
"""cudaIpcMemLazyEnablePeerAccess, the one flag that CUDA takes."""


class CudaNotice(BaseModel):
    """Where a trainer's memory of a GPU is."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["cuda"] = "cuda"
    gpu: str = Field(pattern=r"^[0-9a-fA-F-]{36}$")
    """Its UUID: two processes may number GPUs otherwise."""
    handle: str = Field(pattern=rf"^[0-9a-f]{{{2 * HANDLE_BYTES}}}$")
    """In hexadecimal digits."""
    n_bytes: int = Field(gt=0)
    """Of the whole memory: what lies behind it is not to be read."""


class CudaRuntime:
    """The calls of CUDA's runtime that torch does not pass on."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._library.cudaGetErrorString.restype = ctypes.c_char_p

    def allocate(self, n_bytes: int) -> int:
        """The address of new memory on the current GPU."""
        address = ctypes.c_void_p()
        self._call("cudaMalloc", ctypes.byref(address), ctypes.c_size_t(n_bytes))
        return int(address.value or 0)

    def free(self, address: int) -> None:
        self._call("cudaFree", ctypes.c_void_p(address))

    def handle_of(self, address: int) -> bytes:
        handle = _Handle()
        self._call("cudaIpcGetMemHandle", ctypes.byref(handle), ctypes.c_void_p(address))
        return bytes(handle)

    def open(self, handle: bytes) -> int:
        """The address at which another process's memory is here, until it is closed."""
        address = ctypes.c_void_p()
        value = _Handle.from_buffer_copy(handle)
        self._call("cudaIpcOpenMemHandle", ctypes.byref(address), value, ctypes.c_uint(LAZY_PEER_ACCESS))
        return int(address.value or 0)

    def close(self, address: int) -> None:
        self._call("cudaIpcCloseMemHandle", ctypes.c_void_p(address))

    def _call(self, name: str, *args: Any) -> None:
        if code := getattr(self._library, name)(*args):
            text = (self._library.cudaGetErrorString(code) or b"").decode()
            self._library.cudaGetLastError()  # or torch raises it again at its next call
            raise RuntimeError(f"{name}: {text}")


class _Handle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_ubyte * HANDLE_BYTES),)


class CudaBuffer:
    """Memory of one GPU."""

    def __init__(self, n_bytes: int, device: torch.device, runtime: CudaRuntime) -> None:
        self._runtime = runtime
        with torch.cuda.device(device):
            self._address = runtime.allocate(n_bytes)
            try:
                self.notice = CudaNotice(
                    gpu=gpu_uuid(device), handle=runtime.handle_of(self._address).hex(), n_bytes=n_bytes
                )
                self.data = as_tensor(self._address, n_bytes, device)
            except BaseException:
                runtime.free(self._address)
                raise

    def close(self) -> None:
        del self.data
        self._runtime.free(self._address)


def make_cuda_buffer(n_bytes: int, device: torch.device) -> CudaBuffer:
    return CudaBuffer(n_bytes, device, loaded_runtime())


def copy_from_cuda(notice: CudaNotice, data: torch.Tensor) -> None:
    """Copy the first bytes of the memory to `data`, as many as it has; returns when they are there."""
    if data.device.type != "cuda" or notice.gpu != (own := gpu_uuid(data.device)):
        here = f"GPU {own}" if data.device.type == "cuda" else "the CPU"
        raise RuntimeError(f"it is on another GPU: here it is to go to {here}")
    if len(data) > notice.n_bytes:
        raise RuntimeError(f"it ends after {notice.n_bytes} bytes of {len(data)}")
    runtime = loaded_runtime()
    with torch.cuda.device(data.device):
        address = runtime.open(bytes.fromhex(notice.handle))
        try:
            data.copy_(as_tensor(address, len(data), data.device))
            torch.cuda.current_stream().synchronize()
        finally:
            runtime.close(address)


def gpu_uuid(device: torch.device) -> str:
    return str(torch.cuda.get_device_properties(device).uuid)


def as_tensor(address: int, n_bytes: int, device: torch.device) -> torch.Tensor:
    """Memory of a GPU as uint8, not owned."""

    class Memory:
        __cuda_array_interface__ = {
            "shape": (n_bytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 2,
        }

    return torch.as_tensor(Memory(), device=device)


@cache
def loaded_runtime(maps: Path = Path("/proc/self/maps")) -> CudaRuntime:
    """CUDA's runtime that torch has loaded. RuntimeError where it has none: another one would not know its memory."""
    for line in maps.read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if Path(path).name.startswith("libcudart.so"):
            return CudaRuntime(ctypes.CDLL(path))
    raise RuntimeError("torch has loaded no runtime of CUDA")
