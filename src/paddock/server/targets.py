"""What a command or a notebook names, as a config: config files, or one plugin that is served alone.

Law     a bare word that is no file is a plugin: the instances of that plugin in its own `configs/<name>.yaml`, else one
        instance of that name with defaults. Only what is served needs to be complete: its agent may lack a model.
Errors  ConfigError that names the nearest file or plugin.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from paddock.config import KINDS, Config, Kind, find_file, implementations, load
from paddock.errors import ConfigError
from paddock.types import JsonObject


class Target(NamedTuple):
    config: Config
    names: list[str] | None
    """The instances to serve, with what they need; None: all."""


class Plugin(NamedTuple):
    kind: Kind
    name: str

    @property
    def config_path(self) -> str:
        return f"{self.kind}/{self.name}/configs/{self.name}.yaml"


def load_target(
    words: Sequence[str | Path],
    *,
    names: Sequence[str] | None = None,
    extra: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> Target:
    """Files or a plugin, `key=value` overrides among them, and the instances asked for."""
    overrides = [word for word in words if isinstance(word, str) and is_override(word)]
    paths = [word for word in words if word not in overrides]
    plugin = find_plugin(paths[0]) if len(paths) == 1 else None
    chosen = list(names) if names else None
    if plugin is None:
        config = load(paths, overrides, extra=extra, strict=strict, servers=chosen)
        return Target(config, chosen)
    own = _configured_instances(plugin)
    if own is None:
        own = [plugin.name]
        bare: JsonObject = {plugin.name: {plugin.kind: {plugin.name: {}}}}
        config = load([], overrides, extra={**bare, **(extra or {})}, strict=strict, servers=chosen or own)
    else:
        config = load([plugin.config_path], overrides, extra=extra, strict=strict, servers=chosen or own)
    return Target(config, chosen or own)


def is_override(word: str) -> bool:
    """`key=value`, `+key=value`, `++key=value` or `~key`."""
    return "=" in word or word.startswith(("~", "+"))


def find_plugin(word: str | Path) -> Plugin | None:
    """The plugin that a word names; None: it looks like a file. ConfigError: it is neither."""
    if not isinstance(word, str) or not word.isidentifier() or Path(word).exists():
        return None
    matching = [Plugin(kind, word) for kind in KINDS if word in implementations(kind)]
    if not matching:
        plugins = ", ".join(sorted({name for kind in KINDS for name in implementations(kind)}))
        raise ConfigError(f"`{word}` is neither a config file nor a plugin; plugins: {plugins}", kind="target_unknown")
    # A resources server comes first: it is what runs alone.
    return matching[0]


def _configured_instances(plugin: Plugin) -> list[str] | None:
    """The plugin's instances in its own config file; None: it has no such file."""
    try:
        path = find_file(plugin.config_path)
    except ConfigError:
        return None
    return list(_instances(path, plugin))


def _instances(path: Path, plugin: Plugin) -> Iterator[str]:
    tree = yaml.safe_load(path.read_text())
    for name, blocks in tree.items() if isinstance(tree, dict) else ():
        if isinstance(blocks, dict) and plugin.name in (blocks.get(plugin.kind) or {}):
            yield name
