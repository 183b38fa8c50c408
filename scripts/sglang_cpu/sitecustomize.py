"""Modules without content in place of those that SGLang imports and only a GPU, or a picture, has a use for.

Memory  what SGLang keeps beside a GPU's (routed experts) it registers with CUDA; without one there is nothing to do.
Law     only in the environment that scripts/setup_sglang.sh makes. `sgl_kernel` is half a gigabyte of CUDA; there is no
        torchvision for this torch.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
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


class HostMemoryFinder(MetaPathFinder, Loader):
    """Finds the module that registers memory with CUDA, and leaves that out."""

    NAME = "sglang.srt.mem_cache.pool_host.common"
    spec: ModuleSpec | None = None
    """SGLang's own."""

    def find_spec(self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self.NAME:
            return None
        self.spec = PathFinder.find_spec(name, path)
        return ModuleSpec(name, self, origin=self.spec.origin if self.spec else None)

    def exec_module(self, module: ModuleType) -> None:
        if self.spec is None or self.spec.loader is None:
            raise ImportError(self.NAME)
        self.spec.loader.exec_module(module)
        module._cuda_host_register = lambda *_arguments: None  # type: ignore[attr-defined]


sys.meta_path[:0] = [AbsentFinder(), HostMemoryFinder()]
