"""References between instances: every mapping that is exactly `{type, name}` with a server type, at any depth.

Law     a reference names an existing instance of its type. `{type: function, name: ...}` and the like are no
        references; a typo of a server type is a mistake.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from paddock.config.problems import is_typo, suggestion
from paddock.config.settings import KINDS, Instance
from paddock.config.trees import KeyPath, dotted, walk

_UNRESOLVED = ("${", "???")
"""Marks of a value that is not known yet."""
_NO_MODEL = "; add a config that has a model, such as `configs/openai.yaml`"


class InstanceReference(NamedTuple):
    """A reference, and where it stands."""

    path: KeyPath
    type: str
    name: str


def references(block: Any, where: KeyPath) -> Iterator[InstanceReference]:
    """Each reference of a block, resolved or not."""
    for path, node in walk(block, where):
        if isinstance(node, dict) and set(node) == {"type", "name"} and all(isinstance(node[key], str) for key in node):
            kind = node["type"]
            if kind in KINDS or is_typo(kind, KINDS):
                yield InstanceReference(path, kind, node["name"])


def bad_references(
    block: Any, where: KeyPath, instances: Mapping[str, Instance], named: Collection[str]
) -> Iterator[tuple[KeyPath, str]]:
    """What is wrong with a block's references; `named` are instances that exist but may themselves be wrong."""
    for path, kind, name in references(block, where):
        if any(mark in name for mark in _UNRESOLVED):
            continue
        candidates = [other for other, instance in instances.items() if instance.kind == kind]
        target = instances.get(name)
        if kind not in KINDS:
            yield path, f"`{dotted((*path, 'type'))}`: unknown server type `{kind}`{suggestion(kind, KINDS)}"
        elif target is None and name not in named:
            hint = suggestion(name, candidates, label=f"instances of {kind}")
            added = _NO_MODEL if kind == "models_servers" and not candidates else ""
            yield path, f"`{dotted(path)}`: no instance `{name}`{hint}{added}"
        elif target is not None and target.kind != kind:
            hint = suggestion(name, candidates, label=f"instances of {kind}")
            yield path, f"`{dotted(path)}`: `{name}` is one of {target.kind}, not of {kind}{hint}"
