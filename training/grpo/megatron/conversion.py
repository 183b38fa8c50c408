"""Weights between the form of Hugging Face and a rank's shards of Megatron-core: the seam to the bridges.

Source  `mbridge` (core 0.16.1, Python 3.11); NVIDIA-NeMo/Megatron-Bridge, `megatron.bridge` (core 0.19, Python 3.12).
Law     parallel state (`megatron.core.parallel_state`) is initialised before a conversion is made. `models`, `load` and
        `export` are collectives: every rank calls them, in the same order, and exhausts what `export` gives.
        Exported names, shapes and values are those of the checkpoint: what was loaded comes out bit for bit.
Errors  ConfigError for a folder, an architecture or a layout that can't be read; what the bridges raise is not caught.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol


class HfWeight(NamedTuple):
    """One tensor of a checkpoint."""

    name: str
    """The name in Hugging Face's files."""
    tensor: Any
    """`torch.Tensor`, whole, on the CPU or on this rank's device."""


class Conversion(Protocol):
    """One checkpoint's folder, and this rank's part of it."""

    def models(self) -> list[Any]:
        """Make this rank's stages (`megatron.core.models.gpt.GPTModel`), not wrapped, with weights that mean
        nothing."""
        ...

    def load(self, models: list[Any]) -> None:
        """Load the checkpoint's weights into the models, tensor by tensor: never is a whole model in memory."""
        ...

    def export(self, models: list[Any]) -> Iterator[HfWeight]:
        """Give every weight, whole, on all ranks or on rank 0 alone (the others get none then, but take part)."""
        ...
