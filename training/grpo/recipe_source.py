"""Where a recipe is from: what of it differs from there, and what of it the source's own trainer does not read.

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

from paddock.config.late import Resolver
from paddock.config.reading import read
from paddock.config.trees import KeyPath, dotted, get_at, split, walk
from paddock.training.grpo.blocks import Block
from paddock.training.grpo.composing import Composed
from paddock.training.grpo.recipe import rule_for
from paddock.types import JsonObject

_UNREAD = Path(__file__).with_name("recipe_unread.yaml")
_PLACE: KeyPath = ("paddock", "recipe", "deviations")
_MEGATRON: KeyPath = ("policy", "megatron_cfg")


class Deviation(Block):
    """One key that is not as in the source."""

    source: Any
    """Its value there; null: it is not given there."""
    reason: str = Field(min_length=1)


class RecipeConfig(Block):
    """`paddock.recipe`."""

    source: str = Field(min_length=1)
    """Repository and files, or the section of a guide."""
    deviations: Mapping[str, Deviation | None] = {}
    """By key path; null: none after all, in a file that another one is laid under."""

    @property
    def named(self) -> dict[str, Deviation]:
        return {key: one for key, one in self.deviations.items() if one is not None}


class Unread(NamedTuple):
    """A key that the source's own trainer does not read."""

    key: str
    reason: str


@cache
def unread_table() -> dict[KeyPath, str]:
    """Reasons by key path, in which `*` is any key."""
    table = TypeAdapter(dict[str, str]).validate_python(read(_UNREAD, _UNREAD.name).tree)
    return {split(key): reason for key, reason in table.items()}


def unread(tree: JsonObject) -> list[Unread]:
    """What of a composed recipe its own trainer does not read; nothing of a block that is switched off."""
    table = unread_table()
    megatron = _value(tree, (*_MEGATRON, "enabled"))
    found = []
    for path, _ in walk(tree):
        reason = next((text for known, text in table.items() if _fits(known, path)), None)
        if reason is not None and (megatron or path[:2] != _MEGATRON):
            found.append(Unread(dotted(path), reason))
    return found


def deviation_problems(recipe: RecipeConfig | None, composed: Composed) -> Iterator[str]:
    """What is wrong with the deviations that a recipe names."""
    resolver = Resolver(composed.tree)
    for key, one in recipe.named.items() if recipe is not None else ():
        path = split(key)
        where = f"{composed.origin((*_PLACE, key))}: deviation `{key}`"
        if path[0] not in composed.tree and rule_for(path) is None:
            yield f"{where}: recipes have no block `{path[0]}`"
        elif composed.given(path) and resolver.collect(path, []) == one.source:
            yield f"{where}: the value is the source's, {one.source!r}: take the deviation out"
        elif not composed.given(path) and one.source is None:
            yield f"{where}: the key is given neither here nor in the source"


def deviation_lines(recipe: RecipeConfig, tree: JsonObject) -> Iterator[str]:
    """For `--dry-run`: `key: ours, there theirs: reason`."""
    if not recipe.named:
        yield f"deviations from {recipe.source}: none"
        return
    yield f"deviations from {recipe.source} ({len(recipe.named)}):"
    for key, one in recipe.named.items():
        ours = _word(_value(tree, split(key))) if _given(tree, split(key)) else "not given here"
        theirs = "not given" if one.source is None else _word(one.source)
        yield f"  {key}: {ours}, there {theirs}: {one.reason}"


def _fits(known: KeyPath, path: KeyPath) -> bool:
    return len(known) == len(path) and all(key in ("*", own) for key, own in zip(known, path, strict=True))


def _given(tree: JsonObject, path: KeyPath) -> bool:
    try:
        get_at(tree, path)
    except KeyError:
        return False
    return True


def _value(tree: JsonObject, path: KeyPath) -> Any:
    """None where it is not given."""
    return get_at(tree, path) if _given(tree, path) else None


def _word(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return ", ".join(f"{key} {_word(item)}" for key, item in value.items())
    return f"{len(value)} entries" if isinstance(value, list) else str(value)
