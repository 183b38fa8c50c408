"""`python shared_memory_faults.py`: memory that a trainer shares, and notices of it that are wrong, as JSON.

Runs where torch is. With `--hold` it is a trainer that shares memory until it is killed.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from paddock.server.vllm.weights.buckets import ReceiveMemory
from paddock.server.vllm.weights.cuda_memory import CudaNotice, CudaRuntime, loaded_runtime
from paddock.server.vllm.weights.shared_memory import (
    CPU,
    FileBuffer,
    ReadTrial,
    SharedMemoryError,
    as_notice,
    read_shared,
    read_trial,
)

N_BYTES = 3 << 20
HANDLE = bytes(range(64))


class ScriptedCudart:
    """What CUDA's runtime answers, over memory of the CPU."""

    def __init__(self) -> None:
        self.held: dict[int, Any] = {}
        self.open: list[int] = []
        self.cudaGetErrorString: Any = ScriptedText()

    def cudaMalloc(self, address: Any, n_bytes: Any) -> int:  # noqa: N802 - CUDA's names
        if n_bytes.value > N_BYTES:
            return 2
        memory = ctypes.create_string_buffer(n_bytes.value)
        self.held[ctypes.addressof(memory)] = memory
        address._obj.value = ctypes.addressof(memory)
        return 0

    def cudaFree(self, address: Any) -> int:  # noqa: N802
        return 0 if self.held.pop(address.value, None) else 1

    def cudaIpcGetMemHandle(self, handle: Any, address: Any) -> int:  # noqa: N802
        ctypes.memmove(ctypes.byref(handle._obj), HANDLE, 64)
        return 0 if address.value in self.held else 1

    def cudaIpcOpenMemHandle(self, address: Any, handle: Any, flags: Any) -> int:  # noqa: N802
        if bytes(handle) != HANDLE or flags.value != 1:
            return 1
        address._obj.value = next(iter(self.held))
        self.open.append(address._obj.value)
        return 0

    def cudaIpcCloseMemHandle(self, address: Any) -> int:  # noqa: N802
        self.open.remove(address.value)
        return 0

    def cudaGetLastError(self) -> int:  # noqa: N802
        return 0


class ScriptedText:
    """A function of a library, whose result has a type."""

    restype: Any = None

    def __call__(self, code: int) -> bytes:
        return {1: b"invalid argument", 2: b"out of memory"}[code]


def refusal(read: Callable[[], Any]) -> str:
    try:
        read()
    except (SharedMemoryError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def read(notice: Any, n_bytes: int = N_BYTES) -> torch.Tensor:
    data = torch.empty(n_bytes, dtype=torch.uint8)
    read_shared(notice if isinstance(notice, bytes) else json.dumps(notice), data)
    return data


def filled() -> FileBuffer:
    buffer = FileBuffer(N_BYTES)
    buffer.data.copy_(torch.arange(N_BYTES) % 251)
    return buffer


def descriptors() -> int:
    """Of shared memory, in this process; the one by which they are listed is closed again."""
    links = list(Path("/proc/self/fd").iterdir())
    return sum("memfd:paddock" in str(link.readlink()) for link in links if link.is_symlink())


def case_read() -> dict[str, Any]:
    buffer = filled()
    same = torch.equal(read(as_notice(buffer.notice)), buffer.data)
    part = torch.equal(read(as_notice(buffer.notice), 1000), buffer.data[:1000])
    during = descriptors()
    buffer.close()
    return {"same": same, "part": part, "during": during, "after": descriptors()}


def case_forged() -> dict[str, str]:
    buffer = filled()
    true = buffer.notice.model_dump()
    other = Path("/etc/hostname").open("rb")  # noqa: SIM115 - closed with the process
    cuda = CudaNotice(gpu="0" * 36, handle=HANDLE.hex(), n_bytes=N_BYTES).model_dump()
    forged: dict[str, Any] = {
        "no JSON": b"\x80\x04pickle",
        "cut off": as_notice(buffer.notice)[:20],
        "another kind": {**true, "kind": "pickle"},
        "a key too many": {**true, "path": "/etc/passwd"},
        "a path as name": {**true, "name": "../../etc/passwd"},
        "a number as text": {**true, "pid": str(os.getpid())},
        "another name": {**true, "name": "paddock-weights-" + "0" * 32},
        "another file": {**true, "fd": other.fileno()},
        "no such file": {**true, "fd": 1 << 20},
        "a short handle": {**cuda, "handle": "00"},
        "a GPU here is none of": cuda,
    }
    said = {what: refusal(lambda notice=notice: read(notice)) for what, notice in forged.items()}  # type: ignore[misc]
    said["short"] = refusal(lambda: read(true, 2 * N_BYTES))
    buffer.close()
    return said


def case_trial() -> dict[str, str]:
    with read_trial(CPU) as trial:
        told = {"own": trial.problem(CPU), "other": ReadTrial(notice=trial.notice, content="00" * 16).problem(CPU)}
    return {**told, "gone": trial.problem(CPU), "none": ReadTrial(notice="{}", content="00").problem(CPU)}


def hold() -> None:
    buffer = filled()
    sys.stdout.write(as_notice(buffer.notice).decode() + "\n")
    sys.stdout.flush()
    time.sleep(600.0)


def case_killed_trainer() -> dict[str, Any]:
    argv = [sys.executable, "-P", __file__, "--hold"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdout is not None
        notice = json.loads(trainer.stdout.readline())
        alive = int(read(notice).sum())
        trainer.kill()
        trainer.wait()
    left = [str(path) for path in Path("/dev/shm").iterdir() if "paddock" in path.name]
    return {"read": alive, "gone": refusal(lambda: read(notice)), "left": left, "open": descriptors()}


def case_stopped_trainer() -> dict[str, Any]:
    """A trainer that does nothing holds up nobody who reads."""
    argv = [sys.executable, "-P", __file__, "--hold"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdout is not None
        notice = json.loads(trainer.stdout.readline())
        os.kill(trainer.pid, signal.SIGSTOP)
        reader = threading.Thread(target=read, args=(notice,), daemon=True)
        reader.start()
        reader.join(30.0)
        ended = not reader.is_alive()
        trainer.kill()
    return {"ended": ended}


def case_reused() -> dict[str, Any]:
    """What a worker receives to: `kept` is a part of the first bucket that a module still waits with."""
    memory = ReceiveMemory(CPU)
    first = memory.empty(N_BYTES)
    kept = first[-8:].fill_(7).view(torch.int64)
    places = [first.data_ptr()]
    del first
    for _ in range(4):
        bucket = memory.empty(N_BYTES).fill_(1)
        places.append(bucket.data_ptr())
    whole = int(kept) == int.from_bytes(b"\7" * 8, "little")
    del kept, bucket
    places.append(memory.empty(N_BYTES // 2).data_ptr())
    return {"whole": whole, "places": [places.index(place) for place in places]}


def case_cuda() -> dict[str, Any]:
    library = ScriptedCudart()
    runtime = CudaRuntime(library)
    address = runtime.allocate(64)
    notice = CudaNotice(gpu="0" * 36, handle=runtime.handle_of(address).hex(), n_bytes=64)
    opened = runtime.open(bytes.fromhex(CudaNotice.model_validate_json(as_notice(notice)).handle))
    was_open = list(library.open)
    runtime.close(opened)
    runtime.free(address)
    return {
        "same": [opened] == was_open == [address],
        "left": [library.open, list(library.held)],
        "forged": refusal(lambda: runtime.open(bytes(64))),
        "full": refusal(lambda: runtime.allocate(N_BYTES + 1)),
        "twice": refusal(lambda: runtime.free(address)),
        "no runtime": refusal(lambda: loaded_runtime(Path("/dev/null"))),
    }


def main() -> None:
    if sys.argv[1:] == ["--hold"]:
        hold()
    cases = {name.removeprefix("case_"): case for name, case in globals().items() if name.startswith("case_")}
    sys.stdout.write(json.dumps({name: case() for name, case in cases.items()}) + "\n")


if __name__ == "__main__":
    main()
