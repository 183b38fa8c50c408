"""The target of a check: a plugin's class, the block it is configured with, and rows for it.

Words   `resources_server:pivot`, `agents:single_step`, `models_server:my_pkg.mod:Class`; singular and plural are the
        same. The block is that of the plugin's own `configs/<name>.yaml` unless a config is given; rows are its
        `data/example.jsonl` unless a file is. Model servers that a resources server asks are those of the given config.
Errors  ConfigError: an unknown kind or plugin with the nearest, an unreadable file of rows.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paddock.collect.rows import RowSource, lines, read_line
from paddock.collect.settings import Selection
from paddock.config import KINDS, Config, Kind, find_file, load, resolve_class, validate
from paddock.config.problems import suggestion
from paddock.config.yaml_text import parse
from paddock.errors import ConfigError, RowError
from paddock.http import Peer
from paddock.server import Server
from paddock.types import JsonObject, Row

_KIND_WORDS: dict[str, Kind] = {
    "resources_server": "resources_servers",
    "agent": "agents",
    "models_server": "models_servers",
    "model_server": "models_servers",
    "model_servers": "models_servers",
}
SANDBOX_WORDS = ("sandbox", "sandboxes")
"""Not of a plugin: see `sandboxes`."""
HARNESS_WORDS = ("harness", "harnesses")
"""Of a plugin that is no server: see `harnesses`."""
REFERENCES = {
    "resources_server": {"type": "resources_servers", "name": "environment"},
    "model_server": {"type": "models_servers", "name": "policy"},
}
"""The references of an agent under test."""


class ModelTarget(NamedTuple):
    """A model server that the plugin under test asks, such as a judge."""

    name: str
    cls: type[Server[Any]]
    block: JsonObject


class ServerTarget(NamedTuple):
    """A plugin under test that is a server."""

    kind: Kind
    spec: str
    cls: type[Server[Any]]
    block: JsonObject
    rows: list[Row]
    models: tuple[ModelTarget, ...] = ()
    """Model servers of the given config that a resources server's block names: they run beside it in a check."""

    def build(self, peers: Mapping[str, Peer] | None = None, **changes: Any) -> Server[Any]:
        """Build the server, not started, with `changes` to keys of its block. Raises ConfigError."""
        config = validate(self.cls.config_type, {**self.block, **changes}, self.spec)
        return self.cls(config, name="target", peers={} if peers is None else peers)

    def build_models(self, peers: Mapping[str, Peer]) -> list[Server[Any]]:
        """Build the model servers that it asks, not started. Raises ConfigError."""
        return [cls(validate(cls.config_type, block, name), name=name, peers=peers) for name, cls, block in self.models]


def find_target(words: str, *, config: Config | None = None, rows: Path | None = None) -> ServerTarget:
    """Find the plugin that `KIND:NAME` names. Raises ConfigError."""
    kind_word, colon, spec = words.partition(":")
    kind = kind_of(kind_word)
    if not colon or not spec:
        raise ConfigError(f"{words!r}: needs KIND:NAME, such as resources_server:pivot", kind="subject_invalid")
    cls = resolve_class(spec, kind)
    block = _block(kind, spec, config)
    models = _models(spec, config) if config is not None and kind == "resources_servers" else ()
    if kind == "agents":
        block = {**{key: value for key, value in block.items() if key != "datasets"}, **REFERENCES}
    return ServerTarget(kind, spec, cls, block, read_rows(rows or _own_rows(cls)), models)


def kind_of(word: str) -> Kind:
    kind = next((kind for kind in KINDS if kind == word), None) or _KIND_WORDS.get(word)
    if kind is None:
        raise ConfigError(
            f"no kind {word!r}{suggestion(word, (*_KIND_WORDS, *SANDBOX_WORDS, *HARNESS_WORDS))}", kind="kind_unknown"
        )
    return kind


def read_rows(path: Path | None) -> list[Row]:
    """Read all rows of a file; an empty list where there is none. Raises ConfigError for an unreadable row."""
    if path is None:
        return []
    try:
        return [read_line(line) for line in lines([RowSource(path)], Selection())]
    except RowError as error:
        raise ConfigError(error.message, kind="rows_wrong") from error


def _block(kind: Kind, spec: str, config: Config | None) -> JsonObject:
    """Return the plugin's first block in the config, else in its own config file; else an empty one."""
    if config is None:
        try:
            path = find_file(f"{kind}/{spec}/configs/{spec}.yaml")
        except ConfigError:
            return {}
        config = load([path], servers=())
    tree = parse(config.to_yaml(), "composed config").tree
    names = _instances(kind, spec, config)
    if not names:
        return {}
    block: JsonObject = tree[names[0]][kind][spec] or {}
    # What the environment must give is not there in a check: such keys keep their defaults.
    return {key: value for key, value in block.items() if "${" not in str(value) and value != "???"}


def _models(spec: str, config: Config) -> tuple[ModelTarget, ...]:
    """Return the model servers that the plugin's first block in the config names."""
    instances = _instances("resources_servers", spec, config)[:1]
    found = [config.instance(name) for each in instances for name in config.references(each)]
    return tuple(
        ModelTarget(one.name, resolve_class(one.implementation, one.kind), config.block(one.name))
        for one in found
        if one.kind == "models_servers"
    )


def _instances(kind: Kind, spec: str, config: Config) -> list[str]:
    return [name for name, entry in config.instances.items() if (entry.kind, entry.implementation) == (kind, spec)]


def _own_rows(cls: type[Server[Any]]) -> Path | None:
    file = sys.modules[cls.__module__].__file__
    path = Path(file).parent / "data" / "example.jsonl" if file else None
    return path if path is not None and path.is_file() else None
