"""References between instances: every mapping that is exactly `{type, name}` with a server type, at any depth.

Law     a reference names an existing instance of its type. `{type: function, name: ...}` and the like are no
        references; a type that is nearly a server type is a mistake.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from paddock.config.problems import nearly, suggestion
from paddock.config.settings import KINDS, Instance
from paddock.config.trees import KeyPath, dotted, walk

_OPEN = ("${", "???")
"""Marks of a value that is not known yet."""


class Found(NamedTuple):
    path: KeyPath
    type: str
    name: str


def references(block: Any, where: KeyPath) -> Iterator[Found]:
    """Each reference of a block, resolved or not."""
    for path, node in walk(block, where):
        if isinstance(node, dict) and set(node) == {"type", "name"} and all(isinstance(node[key], str) for key in node):
            kind = node["type"]
            if kind in KINDS or nearly(kind, KINDS):
                yield Found(path, kind, node["name"])


def bad_references(
    block: Any, where: KeyPath, instances: Mapping[str, Instance], named: Collection[str]
) -> Iterator[tuple[KeyPath, str]]:
    """What is wrong with a block's references; `named` are instances that exist but may themselves be wrong."""
    for found in references(block, where):
        if any(mark in found.name for mark in _OPEN):
            continue
        fitting = [name for name, instance in instances.items() if instance.kind == found.type]
        target = instances.get(found.name)
        if found.type not in KINDS:
            yield (
                found.path,
                f"`{dotted((*found.path, 'type'))}`: unknown server type `{found.type}`{suggestion(found.type, KINDS)}",
            )
        elif target is None and found.name not in named:
            hint = suggestion(found.name, fitting, label=f"instances of {found.type}")
            yield found.path, f"`{dotted(found.path)}`: no instance `{found.name}`{hint}"
        elif target is not None and target.kind != found.type:
            hint = suggestion(found.name, fitting, label=f"instances of {found.type}")
            yield (
                found.path,
                f"`{dotted(found.path)}`: `{found.name}` is one of {target.kind}, not of {found.type}{hint}",
            )
