"""For Megatron-Bridge where TransformerEngine is missing: modules in its place, where every name is an empty class.

Megatron-Bridge imports TransformerEngine for adapters, which nothing here uses. `put` comes after the import of
`megatron.core`, which looks for it too and has to find none.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

NAME = "transformer_engine"


class _Names(type):
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
    return _Names(name, (), {})


class _Finder(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname.split(".")[0] == NAME else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def put() -> None:
    if "megatron.core" not in sys.modules:
        raise AssertionError("megatron.core is imported first, and finds no TransformerEngine")
    sys.meta_path.append(_Finder())
