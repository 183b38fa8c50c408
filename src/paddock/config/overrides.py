"""Overrides on a command line: `key.path=value`, `+key.path=value`, `++key.path=value`, `~key.path`.

Law     a value is YAML, so `3`, `true`, `[a, b]` and `{a: 1}` have their types; `key=` is null. `+` may name an
        instance that is not there yet and changes nothing else. `~` deletes, and the key must be there.
Names   an implementation `package.module:Class` is one key with its dots:
        `judge.models_servers.my_pkg.judges:Judge.position_bias=0.5`.
Errors  ConfigError that quotes the override's key.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from paddock.config.aliases import alias_table
from paddock.config.plugins import implementations
from paddock.config.settings import KINDS
from paddock.config.trees import KeyPath, dotted, split
from paddock.config.yaml_text import parse_value
from paddock.errors import ConfigError


class Override(NamedTuple):
    """One change to a composed config."""

    path: KeyPath
    value: Any
    delete: bool
    adds: bool
    """Written with `+`: may name a new instance."""

    @property
    def origin(self) -> str:
        """How notes and errors name it: by its key, for its value may be secret."""
        return f"override `{dotted(self.path)}`"


def parse_override(text: str) -> Override:
    """Parse one override."""
    if text.startswith("~"):
        key, _, _ = text[1:].partition("=")
        return Override(_path(key, text), value=None, delete=True, adds=False)
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"override `{text}`: write `key.path=value`, or `~key.path` to delete", kind="override")
    typed = parse_value(value, f"override `{key}`")
    return Override(_path(key.lstrip("+"), text), value=typed, delete=False, adds=key.startswith("+"))


def parse_overrides(texts: Sequence[str]) -> list[Override]:
    return [parse_override(text) for text in texts]


def _path(key: str, text: str) -> KeyPath:
    path = split(key.strip())
    if not all(path):
        raise ConfigError(f"override `{text}`: `{key}` is no key path", kind="override")
    return _with_class_whole(path)


def _with_class_whole(path: KeyPath) -> KeyPath:
    """The keys of a `package.module:Class`, which stands where an implementation does, are one."""
    table = alias_table()
    start = 4 if path[:2] == ("env", "nemo_gym") else 2
    if len(path) <= start:
        return path
    kind, name = table.kind(path[start - 1]), path[start]
    if kind not in KINDS or name in implementations(kind) or table.implementation(kind, name) is not None:
        return path
    end = next((nth for nth, part in enumerate(path[start:], start + 1) if ":" in part), start + 1)
    return (*path[:start], dotted(path[start:end]), *path[end:])
