"""Config trees: plain dicts, lists and scalars as YAML gives them, and what composing them needs.

Shapes  a key path is a tuple of keys; a list index is its digits. `dotted` is the form that people read and write.
        An interpolation `${a.b}` and a directive `${copy:a.b}` are plain strings here.
Law     no function changes its arguments, except those named `..._in_place`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

from paddock.errors import ConfigError
from paddock.types import JsonObject

KeyPath = tuple[str, ...]

REFERENCE = re.compile(r"(?<!\\)\$\{\s*([A-Za-z_][\w-]*(?:\.[\w-]+)*)\s*\}")
"""An absolute interpolation of a fixed path; relative and computed ones are left to OmegaConf."""
_DIRECTIVE = re.compile(r"\$\{\s*(copy|inherit_from)\s*:\s*([^${}\s]+)\s*\}")


class Directive(NamedTuple):
    """`${verb:path}`: the value of a key that is to be replaced by what is at `path`."""

    verb: str
    path: str


def dotted(path: KeyPath) -> str:
    return ".".join(path)


def split(path: str) -> KeyPath:
    return tuple(path.split("."))


def as_directive(value: Any) -> Directive | None:
    """The directive that the whole string is; None: it is none."""
    match = _DIRECTIVE.fullmatch(value.strip()) if isinstance(value, str) else None
    return Directive(match[1], match[2]) if match else None


def copy_tree(value: Any) -> Any:
    """A plain copy that shares no container with `value`; keys and paths become strings, tuples lists."""
    if isinstance(value, Mapping):
        return {str(key): copy_tree(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copy_tree(item) for item in value]
    return str(value) if isinstance(value, PurePath) else value


def merge(base: Any, over: Any) -> Any:
    """`over` laid on `base`: mappings merge key by key, anything else replaces; a mapping of indices edits a list.

    A mapping over `${copy:path}` keeps the copy and lays its own keys on it.
    """
    if not isinstance(over, dict):
        return copy_tree(over)
    if isinstance(base, dict):
        merged = {key: copy_tree(value) for key, value in base.items() if key not in over}
        return {key: merge(base[key], over[key]) if key in over else merged[key] for key in base} | {
            key: copy_tree(value) for key, value in over.items() if key not in base
        }
    if isinstance(base, list) and over and all(str(key).isdigit() for key in over):
        return _edit_list(base, over)
    directive = as_directive(base)
    if directive is not None:
        return {f"_{directive.verb}": directive.path, **copy_tree(over)}
    return copy_tree(over)


def _edit_list(items: list[Any], edits: JsonObject) -> list[Any]:
    out = copy_tree(items)
    for key, value in edits.items():
        if int(key) >= len(items):
            raise ConfigError(f"no item {key} in a list of {len(items)}", kind="config_invalid")
        out[int(key)] = merge(items[int(key)], value)
    return list(out)


def child(node: Any, key: str) -> Any:
    """`node[key]` of a mapping or a list; KeyError where there is none."""
    if isinstance(node, dict) and key in node:
        return node[key]
    if isinstance(node, list) and key.isdigit() and int(key) < len(node):
        return node[int(key)]
    raise KeyError(key)


def keys_of(node: Any) -> list[str]:
    """The keys below a node; none for a scalar."""
    if isinstance(node, dict):
        return [str(key) for key in node]
    return [str(index) for index in range(len(node))] if isinstance(node, list) else []


def get_at(tree: Any, path: KeyPath) -> Any:
    """The value at `path`; KeyError with the first key that is not there."""
    for key in path:
        tree = child(tree, key)
    return tree


def nested(path: KeyPath, value: Any) -> Any:
    """A tree with `value` at `path` and nothing else."""
    for key in reversed(path):
        value = {key: value}
    return value


def set_in_place(tree: Any, path: KeyPath, value: Any) -> None:
    """Replace the value at an existing parent's key."""
    parent = get_at(tree, path[:-1])
    if isinstance(parent, list):
        parent[int(path[-1])] = value
    else:
        parent[path[-1]] = value


def delete_in_place(tree: Any, path: KeyPath) -> None:
    """Remove the key at `path`; KeyError where there is none."""
    parent = get_at(tree, path[:-1])
    child(parent, path[-1])
    del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]


def walk(tree: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Every node with its path, parents first."""
    yield path, tree
    for key in keys_of(tree):
        yield from walk(child(tree, key), (*path, key))


def strings(tree: Any) -> Iterator[tuple[KeyPath, str]]:
    return ((path, node) for path, node in walk(tree) if isinstance(node, str))


def map_strings(tree: Any, change: Callable[[str], str]) -> Any:
    """A copy with `change` applied to every string value."""
    if isinstance(tree, dict):
        return {str(key): map_strings(value, change) for key, value in tree.items()}
    if isinstance(tree, list):
        return [map_strings(item, change) for item in tree]
    return change(tree) if isinstance(tree, str) else tree


def rewrite_references(text: str, change: Callable[[KeyPath], KeyPath]) -> str:
    """`text` with the path of every absolute interpolation changed."""
    return REFERENCE.sub(lambda match: "${" + dotted(change(split(match[1]))) + "}", text)


def clash(left: Any, right: Any, path: KeyPath = ()) -> KeyPath | None:
    """The path of the first value that differs between two trees which both have it; None: there is none."""
    if isinstance(left, dict) and isinstance(right, dict):
        clashes = (clash(left[key], right[key], (*path, key)) for key in left if key in right)
        return next((key_path for key_path in clashes if key_path is not None), None)
    return None if left == right else path
