"""Free variables of NeMo-Gym's files: top-level keys that only interpolations read, moved under `vars`.

Law     a key is moved when an interpolation reads it, else it stays where it is and is refused. Of a recipe's siblings
        only the values that are read are taken, so nothing of the trainer's config is kept or dumped.
"""

from collections.abc import Iterator, Set
from typing import Any

from paddock.config.trees import (
    REFERENCE,
    KeyPath,
    copy_tree,
    dotted,
    get_at,
    map_strings,
    merge,
    nested,
    rewrite_references,
    split,
    strings,
)
from paddock.types import JsonObject


def gather_variables(tree: JsonObject, free: Set[str], recipe_keys: JsonObject) -> list[str]:
    """Move, in place, what is read of `free` (keys of `tree`) and `recipe_keys` under `vars`; returns the problems."""
    taken: dict[KeyPath, Any] = {}
    pending = list(_read_paths({key: value for key, value in tree.items() if key not in free}))
    while pending:
        path = pending.pop()
        source = _source(path, tree, free, recipe_keys)
        if source is None or source[0] in taken:
            continue
        variable, value = source
        taken[variable] = value
        pending += _read_paths({"value": value})
    if not taken:
        return []
    problems = [
        f"`vars.{dotted(path)}` is given too, and differs" for path in taken if _differs(tree, path, taken[path])
    ]
    moved: JsonObject = {}
    for path, value in taken.items():
        moved = merge(moved, nested(path, copy_tree(value)))
    for key in {path[0] for path in taken} & set(tree) & free:
        del tree[key]
    tree["vars"] = merge(moved, tree.get("vars") or {})

    def change(path: KeyPath) -> KeyPath:
        return ("vars", *path) if any(path[: len(variable)] == variable for variable in taken) else path

    changed = map_strings(tree, lambda text: rewrite_references(text, change))
    tree.clear()
    tree.update(changed)
    return problems


def _read_paths(tree: JsonObject) -> Iterator[KeyPath]:
    for _, text in strings(tree):
        yield from map(split, REFERENCE.findall(text))


def _source(path: KeyPath, tree: JsonObject, free: Set[str], recipe_keys: JsonObject) -> tuple[KeyPath, Any] | None:
    """Where the value that `path` reads is to be under `vars`, and the value; None: it is no free variable."""
    if path[0] in free:
        return path[:1], tree[path[0]]
    if path[0] in tree or path[0] not in recipe_keys:
        return None
    try:
        return path, get_at(recipe_keys, path)
    except KeyError:
        return None


def _differs(tree: JsonObject, path: KeyPath, value: Any) -> bool:
    try:
        return bool(get_at(tree.get("vars") or {}, path) != value)
    except KeyError:
        return False
