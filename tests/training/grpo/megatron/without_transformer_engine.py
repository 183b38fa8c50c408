"""Megatron-Bridge on a CPU, without TransformerEngine: `prepare` is the policy's set-up hook.

Megatron-Bridge imports TransformerEngine for adapters, which nothing here uses: modules stand in its place in which
every name is an empty class. They come after the import of `megatron.core`, which looks for it too and may find none.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from tests.training.grpo.megatron import cpu_megatron

NAME = "transformer_engine"


class _StandInType(type):
    """Names of a class are classes like it."""

    def __getattr__(cls, name: str) -> type:
        return _named(name)


class _Module(ModuleType):
    __version__ = "0.0"

    def __getattr__(self, name: str) -> type:
        return _named(name)


def _named(name: str) -> type:
    if name.startswith("__"):
        raise AttributeError(name)
    return _StandInType(name, (), {})


class _Finder(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname.split(".")[0] == NAME else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def prepare() -> None:
    """For this thread, and, once, for the process."""
    cpu_megatron.prepare()
    import_module("megatron.core.models.gpt.gpt_layer_specs")
    if not any(isinstance(one, _Finder) for one in sys.meta_path):
        sys.meta_path.append(_Finder())
