"""Tensors in buckets: so many bytes go at once, whatever the tensors are.

Shapes  a bucket is uint8; each tensor in it starts at a multiple of `ALIGNMENT` bytes, whole. A tensor that is larger
        than a bucket has one of its own size.
Memory  two buckets: one is filled while the other is sent.
Errors  ValueError: a tensor without a dense layout.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Self

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


def bucket_size(forms: Sequence[TensorForm]) -> int:
    return sum(_aligned(form.n_bytes) for form in forms)


def as_header(forms: Sequence[TensorForm]) -> bytes:
    return orjson.dumps([tuple(form) for form in forms])


def from_header(header: bytes) -> list[TensorForm]:
    return [TensorForm(name, dtype, tuple(shape)) for name, dtype, shape in orjson.loads(header)]


def pack(tensors: Iterable[tuple[str, torch.Tensor]], bucket_bytes: int, device: torch.device) -> Iterator[Bucket]:
    """The tensors in buckets on `device`. A bucket is valid until the second one after it is asked for."""
    buffers: list[torch.Tensor | None] = [None, None]
    nth, used, forms = 0, 0, list[TensorForm]()
    for name, tensor in tensors:
        form = TensorForm.of(name, tensor)
        size = _aligned(form.n_bytes)
        if forms and used + size > bucket_bytes:
            yield _filled(forms, buffers[nth % 2], used)
            nth, used, forms = nth + 1, 0, []
        buffer = buffers[nth % 2]
        if buffer is None or len(buffer) < used + size:
            buffers[nth % 2] = buffer = None
            buffer = buffers[nth % 2] = torch.empty(max(bucket_bytes, size), dtype=torch.uint8, device=device)
        target = buffer[used : used + form.n_bytes].view(tensor.dtype).view(tensor.shape)
        target.copy_(tensor.detach())
        forms.append(form)
        used += size
    if forms:
        yield _filled(forms, buffers[nth % 2], used)


def unpack(bucket: Bucket) -> list[tuple[str, torch.Tensor]]:
    """The tensors, which share the bucket's memory."""
    tensors, start = [], 0
    for form in bucket.forms:
        flat = bucket.data[start : start + form.n_bytes].view(getattr(torch, form.dtype))
        tensors.append((form.name, flat.view(form.shape)))
        start += _aligned(form.n_bytes)
    return tensors


def _filled(forms: list[TensorForm], buffer: torch.Tensor | None, used: int) -> Bucket:
    assert buffer is not None  # something was written to it
    return Bucket(forms, buffer[:used])


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT
