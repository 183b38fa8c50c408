"""Tensors in buckets: so many bytes go at once, whatever the tensors are.

Shapes  a bucket is uint8; each tensor in it starts at a multiple of `ALIGNMENT` bytes, whole. A tensor that is larger
        than a bucket has one of its own size.
Memory  two buckets: one is filled while the other is sent.
Errors  ValueError: a tensor without a dense layout.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self
from weakref import ref

import numpy as np
import orjson
import torch

ALIGNMENT = 16


class TensorForm(NamedTuple):
    """What a tensor in a bucket is."""

    name: str
    """In the checkpoint's format."""
    dtype: str
    """As torch names it, without `torch.`."""
    shape: tuple[int, ...]

    @classmethod
    def of(cls, name: str, tensor: torch.Tensor) -> Self:
        return cls(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))

    @property
    def n_bytes(self) -> int:
        dtype: torch.dtype = getattr(torch, self.dtype)
        return int(torch.Size(self.shape).numel() * dtype.itemsize)


class Bucket(NamedTuple):
    """Some tensors, one after the other."""

    forms: list[TensorForm]
    data: torch.Tensor


class ReceiveMemory:
    """Memory for the buckets that a worker receives, which is used again when nobody holds what was in it: new pages
    of the CPU cost more than what is copied to them. Torch does so itself on a GPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._held: list[tuple[np.ndarray[Any, Any], ref[np.ndarray[Any, Any]]]] = []
        """Each with what its last bucket's tensors hold, dead when they are gone."""

    def empty(self, n_bytes: int) -> torch.Tensor:
        if self._device.type != "cpu":
            return torch.empty(n_bytes, dtype=torch.uint8, device=self._device)
        free = [memory for memory, lease in self._held if lease() is None]
        memory = next((memory for memory in free if len(memory) >= n_bytes), None)
        if memory is None:
            memory = np.empty(n_bytes, np.uint8)
        lease = memory[:n_bytes]
        kept = [(other, held) for other, held in self._held if held() is not None][-1:]
        self._held = [*kept, (memory, ref(lease))]
        return torch.from_numpy(lease)


def bucket_size(forms: Sequence[TensorForm]) -> int:
    return sum(_aligned(form.n_bytes) for form in forms)


def as_header(forms: Sequence[TensorForm]) -> bytes:
    return orjson.dumps([tuple(form) for form in forms])


def from_header(header: bytes) -> list[TensorForm]:
    return [TensorForm(name, dtype, tuple(shape)) for name, dtype, shape in orjson.loads(header)]


def pack(
    tensors: Iterable[tuple[str, torch.Tensor]], bucket_bytes: int, buffer: Callable[[int, int], torch.Tensor]
) -> Iterator[Bucket]:
    """The tensors in buckets. `buffer`: gives memory for a bucket, 0 or 1 in turn, of at least so many bytes. A bucket
    is valid until the second one after it is asked for."""
    nth, used, forms, data = 0, 0, list[TensorForm](), torch.empty(0)
    for name, tensor in tensors:
        form = TensorForm.of(name, tensor)
        size = _aligned(form.n_bytes)
        if forms and used + size > bucket_bytes:
            yield Bucket(forms, data[:used])
            nth, used, forms = nth + 1, 0, []
        if not forms:
            data = buffer(nth % 2, max(bucket_bytes, size))
        target = data[used : used + form.n_bytes].view(tensor.dtype).view(tensor.shape)
        target.copy_(tensor.detach())
        forms.append(form)
        used += size
    if forms:
        yield Bucket(forms, data[:used])


def unpack(bucket: Bucket) -> list[tuple[str, torch.Tensor]]:
    """The tensors, which share the bucket's memory."""
    tensors, start = [], 0
    for form in bucket.forms:
        flat = bucket.data[start : start + form.n_bytes].view(getattr(torch, form.dtype))
        tensors.append((form.name, flat.view(form.shape)))
        start += _aligned(form.n_bytes)
    return tensors


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT
