"""Directives: a part of the config made from another part, and keys taken away.

Forms   `_copy: path` lays the mapping's own keys on a copy of what is at `path`; `_inherit_from: path` does so and
        takes the source away. `key: ${copy:path}` and `key: ${inherit_from:path}` are the whole value.
        `_delete_key: "a,b"`, or a list, removes keys of its mapping afterwards, inherited ones too.
Law     the result does not depend on the order of keys: a source is expanded before it is used, so chains work, and
        inherited sources go away at the end, so two heirs of one source get the same.
Errors  ConfigError for a source that is not there (with the nearest name), a cycle (with its members), a key that
        can't be deleted because it is not there.
"""

from typing import Any

from paddock.config.problems import suggestion
from paddock.config.trees import (
    KeyPath,
    as_directive,
    child,
    copy_tree,
    delete_in_place,
    dotted,
    get_at,
    keys_of,
    merge,
    set_in_place,
    split,
)
from paddock.errors import ConfigError
from paddock.types import JsonObject

_HEADS = ("_copy", "_inherit_from")
_DELETE = "_delete_key"
DIRECTIVE_KEYS = (*_HEADS, _DELETE)


def expand(tree: JsonObject) -> JsonObject:
    """`tree` with every directive carried out."""
    expansion = _Expansion(copy_tree(tree))
    expansion.expand_below(())
    for path in expansion.moved:
        _prune(expansion.tree, path)
    return expansion.tree


class _Expansion:
    """A tree while its directives are carried out."""

    def __init__(self, tree: JsonObject) -> None:
        self.tree = tree
        self.moved: set[KeyPath] = set()
        self.active: list[KeyPath] = []

    def expand_below(self, path: KeyPath) -> None:
        """Carry out every directive at and below `path`."""
        self.expand_node(path)
        for key in keys_of(get_at(self.tree, path)):
            self.expand_below((*path, key))

    def expand_node(self, path: KeyPath) -> None:
        """Carry out the directives of the node at `path` itself."""
        node = get_at(self.tree, path)
        directive = as_directive(node)
        heads = [key for key in _HEADS if isinstance(node, dict) and key in node]
        if directive is None and not heads and not (isinstance(node, dict) and _DELETE in node):
            return
        if path in self.active:
            members = " -> ".join(f"`{dotted(member)}`" for member in [*self.active[self.active.index(path) :], path])
            raise ConfigError(f"directives go in a circle: {members}", kind="directive")
        self.active.append(path)
        if directive is not None:
            self._put(path, self._source(directive.path, directive.verb == "inherit_from", path))
        else:
            self._put(path, self._overlay(node, heads, path))
        self.active.pop()

    def _overlay(self, node: JsonObject, heads: list[str], path: KeyPath) -> JsonObject:
        base: Any = {}
        for head in heads:
            source = self._source(node[head], head == "_inherit_from", path)
            if not isinstance(source, dict):
                raise ConfigError(f"`{dotted((*path, head))}`: `{node[head]}` is no mapping", kind="directive")
            base = merge(base, source)
        own = {key: value for key, value in node.items() if key not in DIRECTIVE_KEYS}
        out: JsonObject = merge(base, own)
        for name in _names(node.get(_DELETE), path):
            try:
                delete_in_place(out, split(name))
            except KeyError:
                where = dotted((*path, _DELETE))
                raise ConfigError(
                    f"`{where}`: no key `{name}`{suggestion(name, keys_of(out))}", kind="directive"
                ) from None
        return out

    def _source(self, text: Any, moves: bool, user: KeyPath) -> Any:
        """An expanded copy of what is at the path `text`."""
        if not isinstance(text, str) or not text.strip():
            raise ConfigError(f"`{dotted(user)}`: a directive needs a key path, got {text!r}", kind="directive")
        path = split(text.strip())
        for depth, key in enumerate(path):
            self.expand_node(path[:depth])
            try:
                child(get_at(self.tree, path[:depth]), key)
            except KeyError:
                have = keys_of(get_at(self.tree, path[:depth]))
                raise ConfigError(
                    f"`{dotted(user)}`: nothing at `{text}`: no `{key}`{suggestion(key, have)}", kind="directive"
                ) from None
        self.expand_below(path)
        if moves:
            self.moved.add(path)
        return copy_tree(get_at(self.tree, path))

    def _put(self, path: KeyPath, value: Any) -> None:
        if path:
            set_in_place(self.tree, path, value)
        else:
            self.tree = value
        # What was copied is expanded already, but the node's own keys may hold directives of their own.
        self.expand_node(path)


def _names(value: Any, path: KeyPath) -> list[str]:
    """The keys that `_delete_key` names."""
    names = value.split(",") if isinstance(value, str) else (value if value is not None else [])
    if not isinstance(names, list) or not all(isinstance(name, str) and name.strip() for name in names):
        raise ConfigError(f"`{dotted((*path, _DELETE))}`: needs keys, as `a,b` or a list", kind="directive")
    return [name.strip() for name in names]


def _prune(tree: JsonObject, path: KeyPath) -> None:
    """Remove a moved source, and the mappings that it leaves empty."""
    try:
        delete_in_place(tree, path)
    except KeyError:
        # A source inside a source that is gone already.
        return
    while len(path) > 1 and get_at(tree, path[:-1]) == {}:
        path = path[:-1]
        delete_in_place(tree, path)
