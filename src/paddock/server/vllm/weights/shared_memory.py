"""Memory that a trainer writes and the workers of engines on the same machine read: of the CPU, or of one GPU.

Notice  says to another process where such memory is, as JSON: nothing of it is run. It is read by `read_shared`, which
        refuses what is not exactly a notice, and memory that is not what the notice says.
CPU     a file without a name anywhere (memfd), which the other process opens through `/proc`: for that both have to be
        of one user, and see each other's processes. Nothing of it is left when the trainer is gone, however it ended.
GPU     see `cuda_memory`.
Trial   before anything is sent workers read a few bytes (`ReadTrial`): who can't is on another machine, of another user
        or in another container, or has another GPU, and shares nothing with the trainer.
Law     whoever reads copies, and keeps nothing open: memory of a trainer that died is free when the copy has ended.
Errors  SharedMemoryError: a notice that is none, memory that is gone, is another's or is shorter than said.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import Annotated, Literal, Protocol

import torch
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from paddock.server.vllm.weights.cuda_memory import CudaNotice, copy_from_cuda, make_cuda_buffer

CPU = torch.device("cpu")
PREFIX = "paddock-weights-"
TRIAL_BYTES = 16


class FileNotice(BaseModel):
    """Where a trainer's memory of the CPU is."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["file"] = "file"
    pid: int = Field(gt=0)
    """The trainer's process."""
    fd: int = Field(ge=0)
    """The file's number in that process."""
    name: str = Field(pattern=rf"^{PREFIX}[0-9a-f]{{32}}$")
    """Drawn at random: a file of that number without this name is another one."""


Notice = Annotated[FileNotice | CudaNotice, Field(discriminator="kind")]
_NOTICE: TypeAdapter[Notice] = TypeAdapter(Notice)


class SharedMemoryError(Exception):
    """Memory that was announced can't be read."""


class ReadTrial(BaseModel):
    """A few bytes that whoever shares the trainer's memory can read."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    notice: str
    """A notice as JSON."""
    content: str = Field(pattern=r"^([0-9a-f]{2})+$")
    """Drawn at random, in hexadecimal digits."""

    def problem(self, device: torch.device) -> str:
        """Why they can't be read; empty: they can. `device`: the reader's, used for memory of a GPU."""
        wanted = torch.frombuffer(bytearray.fromhex(self.content), dtype=torch.uint8)
        try:
            is_cuda = isinstance(_parsed(self.notice), CudaNotice)
            found = torch.empty(len(wanted), dtype=torch.uint8, device=device if is_cuda else CPU)
            read_shared(self.notice, found)
        except SharedMemoryError as error:
            return str(error)
        return "" if torch.equal(found.to(CPU), wanted) else "what it reads is not what the trainer wrote"


class SharedBuffer(Protocol):
    """Memory that other processes may read."""

    data: torch.Tensor
    """uint8; not to be used after `close`."""

    @property
    def notice(self) -> Notice: ...

    def close(self) -> None: ...


class FileBuffer:
    """Memory of the CPU."""

    def __init__(self, n_bytes: int) -> None:
        self._name = PREFIX + token_hex(16)
        self._fd = os.memfd_create(self._name)
        try:
            os.ftruncate(self._fd, n_bytes)
            path = f"/proc/self/fd/{self._fd}"
            self.data = torch.from_file(path, shared=True, size=n_bytes, dtype=torch.uint8)
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def notice(self) -> FileNotice:
        return FileNotice(pid=os.getpid(), fd=self._fd, name=self._name)

    def close(self) -> None:
        """The pages are free when `data` is gone too."""
        os.close(self._fd)


def make_shared(n_bytes: int, device: torch.device) -> SharedBuffer:
    """Memory on the device that other processes may read. RuntimeError, OSError: there is none left."""
    return make_cuda_buffer(n_bytes, device) if device.type == "cuda" else FileBuffer(n_bytes)


@contextmanager
def read_trial(device: torch.device) -> Iterator[ReadTrial]:
    """A trial that can be read within. RuntimeError, OSError: such memory can't be shared here at all."""
    content = token_bytes(TRIAL_BYTES)
    buffer = make_shared(TRIAL_BYTES, device)
    try:
        buffer.data.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        if device.type == "cuda":
            torch.cuda.current_stream(device).synchronize()
        yield ReadTrial(notice=as_notice(buffer.notice).decode(), content=content.hex())
    finally:
        buffer.close()


def as_notice(notice: Notice) -> bytes:
    return _NOTICE.dump_json(notice)


def read_shared(notice: bytes | str, data: torch.Tensor) -> None:
    """Copy the first bytes of announced memory to `data`, as many as it has: uint8, on the device of that memory."""
    found = _parsed(notice)
    try:
        if isinstance(found, CudaNotice):
            copy_from_cuda(found, data)
        else:
            _read_file(found, data)
    except (OSError, RuntimeError) as error:
        raise SharedMemoryError(f"the trainer's memory can't be read: {error}") from error


def _parsed(notice: bytes | str) -> Notice:
    try:
        return _NOTICE.validate_json(notice)
    except ValidationError as error:
        where = "; ".join(f"{'.'.join(map(str, one['loc']))} {one['msg']}".strip() for one in error.errors())
        raise SharedMemoryError(f"the trainer's notice of shared memory is none: {where}") from error


def _read_file(notice: FileNotice, data: torch.Tensor) -> None:
    with _opened(notice) as fd:
        left = memoryview(data.numpy())
        start = 0
        while left:
            count = os.preadv(fd, [left], start)
            if not count:
                raise RuntimeError(f"it ends after {start} bytes of {len(data)}")
            left, start = left[count:], start + count


@contextmanager
def _opened(notice: FileNotice) -> Iterator[int]:
    path = Path(f"/proc/{notice.pid}/fd/{notice.fd}")
    wanted = f"/memfd:{notice.name} (deleted)"
    if (there := str(path.readlink())) != wanted:
        raise RuntimeError(f"it is {there}")
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if (there := str(Path(f"/proc/self/fd/{fd}").readlink())) != wanted:
            raise RuntimeError(f"it is {there}")
        yield fd
    finally:
        os.close(fd)
