"""The source of a recipe: where the recipe differs from it, and which keys the source's own trainer does not read.

Law     a deviation names a key, the source's value and the reason; one that is as in the source is an error, so that
        none is left behind when a value goes back. A key that is not given here was taken out.
Source  keys that no library reads: `recipe_unread.yaml`, found by reading NVIDIA-NeMo/RL and NVIDIA-NeMo/Gym.
Errors  problems are returned, each with its place.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, TypeAdapter

from paddock.config.interpolation import Resolver
from paddock.config.trees import KeyPath, dotted, get_at, split, walk
from paddock.config.yaml_text import read_document
from paddock.training.grpo.blocks import SettingsBlock
from paddock.training.grpo.compose import ConfigTree
from paddock.training.grpo.recipe import rule_for
from paddock.types import JsonObject

_UNREAD = Path(__file__).with_name("recipe_unread.yaml")
_DEVIATIONS: KeyPath = ("paddock", "recipe", "deviations")
_MEGATRON: KeyPath = ("policy", "megatron_cfg")


class Deviation(SettingsBlock):
    """One key that is not as in the source."""

    source: Any
    """The key's value in the source; None: it is not given there."""
    reason: str = Field(min_length=1)
    """Why it differs, for whoever reads the recipe."""


class RecipeConfig(SettingsBlock):
    """`paddock.recipe`."""

    source: str = Field(min_length=1)
    """Repository and files, or the section of a guide."""
    deviations: Mapping[str, Deviation | None] = {}
    """Deviations by key path; null takes back one of a file below."""

    @property
    def active(self) -> dict[str, Deviation]:
        return {key: deviation for key, deviation in self.deviations.items() if deviation is not None}


class UnreadKey(NamedTuple):
    """A key that the source's own trainer does not read."""

    key: str
    reason: str


@cache
def unread_table() -> dict[KeyPath, str]:
    """Reasons by key path, in which `*` is any key."""
    table = TypeAdapter(dict[str, str]).validate_python(read_document(_UNREAD, _UNREAD.name).tree)
    return {split(key): reason for key, reason in table.items()}


def unread_keys(tree: JsonObject) -> list[UnreadKey]:
    """The keys of a composed recipe that its own trainer does not read; none of a block that is switched off."""
    table = unread_table()
    megatron = _value(tree, (*_MEGATRON, "enabled"))
    unread = []
    for path, _ in walk(tree):
        reason = next((text for pattern, text in table.items() if _matches(pattern, path)), None)
        if reason is not None and (megatron or path[:2] != _MEGATRON):
            unread.append(UnreadKey(dotted(path), reason))
    return unread


def deviation_problems(recipe: RecipeConfig | None, composed: ConfigTree) -> Iterator[str]:
    """Problems of the deviations that a recipe names."""
    resolver = Resolver(composed.tree)
    for key, deviation in recipe.active.items() if recipe is not None else ():
        path = split(key)
        where = f"{composed.origin((*_DEVIATIONS, key))}: deviation `{key}`"
        if path[0] not in composed.tree and rule_for(path) is None:
            yield f"{where}: recipes have no block `{path[0]}`"
        elif composed.has(path) and resolver.collect(path, []) == deviation.source:
            yield f"{where}: the value is the source's, {deviation.source!r}: take the deviation out"
        elif not composed.has(path) and deviation.source is None:
            yield f"{where}: the key is given neither here nor in the source"


def deviation_lines(recipe: RecipeConfig, tree: JsonObject) -> Iterator[str]:
    """Lines for `--dry-run`: `key: ours, there theirs: reason`."""
    if not recipe.active:
        yield f"deviations from {recipe.source}: none"
        return
    yield f"deviations from {recipe.source} ({len(recipe.active)}):"
    for key, deviation in recipe.active.items():
        ours = _as_yaml(_value(tree, split(key))) if _given(tree, split(key)) else "not given here"
        theirs = "not given" if deviation.source is None else _as_yaml(deviation.source)
        yield f"  {key}: {ours}, there {theirs}: {deviation.reason}"


def _matches(pattern: KeyPath, path: KeyPath) -> bool:
    return len(pattern) == len(path) and all(key in ("*", own) for key, own in zip(pattern, path, strict=True))


def _given(tree: JsonObject, path: KeyPath) -> bool:
    try:
        get_at(tree, path)
    except KeyError:
        return False
    return True


def _value(tree: JsonObject, path: KeyPath) -> Any:
    """The value of a key; None where it is not given."""
    return get_at(tree, path) if _given(tree, path) else None


def _as_yaml(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return ", ".join(f"{key} {_as_yaml(item)}" for key, item in value.items())
    return f"{len(value)} entries" if isinstance(value, list) else str(value)
