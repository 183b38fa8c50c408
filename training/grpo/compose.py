"""Files and overrides of a training run, merged as they are written: nothing is resolved or checked.

Order   a file's `defaults` (paths beside it, left to right), the file, the next file, then overrides: later wins.
        Mappings merge key by key, anything else replaces; a mapping with `_override_: true` replaces too.
Source  NeMo-RL, `nemo_rl/utils/config.py`. Paths of `env.nemo_gym.config_paths` that are found beside their file are
        made absolute, so that they mean the same in the composed tree.
Errors  ConfigError: a file that is not there, a circle of `defaults`, an override that is none.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddock.config.files import find_file
from paddock.config.overrides import Override
from paddock.config.problems import suggestion
from paddock.config.trees import KeyPath, copy_tree, delete_in_place, dotted, get_at, keys_of, merge, nested, walk
from paddock.config.yaml_text import read_document
from paddock.errors import ConfigError
from paddock.types import JsonObject

_REPLACES = "_override_"
_SERVERS: KeyPath = ("env", "nemo_gym")


@dataclass
class ConfigTree:
    """The merged tree of all files and overrides."""

    tree: JsonObject = field(default_factory=dict)
    origins: dict[KeyPath, str] = field(default_factory=dict)
    """Where each key was given last: `file:line`, or the override."""
    overridden: set[KeyPath] = field(default_factory=set)
    """Keys that an override gives."""

    def origin(self, path: KeyPath) -> str:
        """Where the key, or the nearest one above it, was given."""
        origins = (self.origins[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.origins)
        return next(origins, "config")

    def has(self, path: KeyPath) -> bool:
        try:
            get_at(self.tree, path)
        except KeyError:
            return False
        return True


def compose(paths: Sequence[str | Path], overrides: Sequence[Override]) -> ConfigTree:
    """The tree of `paths` with `overrides` applied."""
    composed = ConfigTree()
    for path in paths:
        _file(composed, find_file(path), ())
    for change in overrides:
        if change.delete:
            _delete(composed, change)
            continue
        composed.tree = _merge_over(composed.tree, nested(change.path, change.value))
        for below, _ in walk(change.value):
            composed.origins[(*change.path, *below)] = change.origin
            composed.overridden.add((*change.path, *below))
    return composed


def _file(composed: ConfigTree, path: Path, active: tuple[Path, ...]) -> None:
    path = Path(os.path.normpath(path))
    key = path.resolve()
    if key in active:
        circle = " -> ".join(map(str, [*active[active.index(key) :], key]))
        raise ConfigError(f"config files are defaults of each other: {circle}", kind="config_invalid")
    origin = str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
    document = read_document(path, origin)
    tree = dict(document.tree)
    for parent in _defaults(tree.pop("defaults", None), origin):
        _file(composed, find_file(parent, beside=path.parent), (*active, key))
    _anchor(tree, path.parent)
    composed.tree = _merge_over(composed.tree, tree)
    composed.origins |= {path: f"{origin}:{line}" for path, line in document.lines.items()}


def _defaults(value: Any, origin: str) -> Iterator[str]:
    named = [value] if isinstance(value, str) else (value or [])
    if not isinstance(named, list) or not all(isinstance(path, str) for path in named):
        raise ConfigError(
            f"{origin}: `defaults` must be a file or a list of files, got {value!r}", kind="config_invalid"
        )
    yield from named


def _anchor(tree: JsonObject, folder: Path) -> None:
    try:
        servers = get_at(tree, _SERVERS)
    except KeyError:
        return
    paths = servers.get("config_paths") if isinstance(servers, dict) else None
    if isinstance(paths, list):
        servers["config_paths"] = [_beside(path, folder) for path in paths]


def _beside(path: Any, folder: Path) -> Any:
    file = folder / path if isinstance(path, str) else None
    return str(file.resolve()) if file is not None and file.is_file() else path


def _merge_over(base: Any, over: Any) -> Any:
    if not isinstance(over, dict):
        return copy_tree(over)
    own = {key: value for key, value in over.items() if key != _REPLACES}
    if over.get(_REPLACES):
        base = None
    if isinstance(base, list):
        return merge(base, own)
    below = base if isinstance(base, dict) else {}
    return {**below, **{key: _merge_over(below.get(key), value) for key, value in own.items()}}


def _delete(composed: ConfigTree, change: Override) -> None:
    try:
        delete_in_place(composed.tree, change.path)
    except KeyError as error:
        have = keys_of(composed.tree)
        for depth in range(len(change.path)):
            if composed.has(change.path[:depth]):
                have = keys_of(get_at(composed.tree, change.path[:depth]))
        hint = suggestion(str(error.args[0]), have)
        raise ConfigError(f"{change.origin}: no key `{dotted(change.path)}`{hint}", kind="override") from None
    composed.overridden.add(change.path)
