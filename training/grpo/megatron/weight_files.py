"""The safetensors of a model, of which each process reads the slices that it holds.

Law     what is read is a view of the file: of the rest of its tensor no byte comes into memory, and none of the file
        stays there once the view is gone.
Errors  ConfigError for a folder without safetensors, and for a weight that is in none.
"""

from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import safe_open

from paddock.errors import ConfigError
from paddock.training.grpo.sharded_weights import safetensor_files


class WeightSlice(NamedTuple):
    """One of the like parts into which a tensor is split along a dimension."""

    dim: int
    parts: int
    part: int


class WeightFiles:
    """The files of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file_of: dict[str, Path] = {}
        for file in safetensor_files(folder):
            with safe_open(file, framework="pt") as reader:
                self._file_of |= dict.fromkeys(reader.keys(), file)
        if not self._file_of:
            raise ConfigError(f"policy.model_name: {folder} has no safetensors", kind="model")

    def shape(self, name: str) -> tuple[int, ...]:
        with safe_open(self._file(name), framework="pt") as reader:
            return tuple(reader.get_slice(name).get_shape())

    def read(self, name: str, own: WeightSlice | None = None) -> torch.Tensor:
        """A tensor, or one part of it. Its size has to be a multiple of the number of parts."""
        with safe_open(self._file(name), framework="pt") as reader:
            found = reader.get_slice(name)
            if own is None:
                return found[:]
            size = found.get_shape()[own.dim] // own.parts
            return found[(*[slice(None)] * own.dim, slice(own.part * size, (own.part + 1) * size))]

    def _file(self, name: str) -> Path:
        if name not in self._file_of:
            raise ConfigError(f"policy.model_name: {self._folder}: its files have no {name}", kind="model")
        return self._file_of[name]
