"""Modules without content in place of those that SGLang imports and only a GPU, or a picture, has a use for.

Law     only in the environment that scripts/setup_sglang.sh makes. `sgl_kernel` is half a gigabyte of CUDA; there is no
        torchvision for this torch.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

ABSENT = ("torchvision", "sgl_kernel")


class AbsentValue:
    """Whatever a module without content is asked for; it can be called and asked again."""

    def __init__(self, *_arguments: Any, **_named: Any) -> None:
        return

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return AbsentValue()

    def __call__(self, *_arguments: Any, **_named: Any) -> Any:
        return AbsentValue()


class AbsentModule(ModuleType):
    """A package that has every name."""

    __path__: list[str] = []
    __version__ = "0.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return AbsentValue()


class AbsentFinder(MetaPathFinder, Loader):
    """Finds the packages of `ABSENT`, whatever is below them."""

    def find_spec(self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in ABSENT else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return AbsentModule(spec.name)

    def exec_module(self, _module: ModuleType) -> None:
        return


sys.meta_path.insert(0, AbsentFinder())
