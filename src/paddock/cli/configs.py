"""Config files and overrides as commands take them: in one list, files first or mixed.

An argument with `=`, or that begins with `~`, is an override; any other is a file, or the name of a plugin: the config
that the plugin ships.
"""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from paddock.errors import ConfigError

if TYPE_CHECKING:
    from paddock.config import Config


class ConfigArguments(NamedTuple):
    """The arguments of a command that name its config."""

    files: list[str]
    overrides: list[str]


def add_run_arguments(parser: argparse.ArgumentParser, epilog: str, *, dry_run: str) -> None:
    """The arguments of a command that trains; `dry_run`: what it does with --dry-run."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = epilog
    parser.add_argument(
        "config",
        nargs="+",
        metavar="CONFIG|key=value",
        help="config files, later ones win, and key.path=value overrides",
    )
    parser.add_argument("--out", metavar="DIR", help="folder of the run (default: runs/NAME of the first config file)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in the folder")
    parser.add_argument("--strict", action="store_true", help="refuse config keys that have no effect here")
    parser.add_argument("--dry-run", action="store_true", help=dry_run)


def split_arguments(arguments: Sequence[str]) -> ConfigArguments:
    """Files and overrides, each in their order."""
    overrides = [text for text in arguments if "=" in text or text.startswith("~")]
    return ConfigArguments([text for text in arguments if text not in overrides], overrides)


def load_config(
    arguments: Sequence[str], *, strict: bool = False, modelless: bool = False, harness: str | None = None
) -> "Config":
    """The config of a command's arguments; ConfigError when they name no file.

    `modelless`: no model is called, so agents may refer to model servers that the files do not have. `harness`:
    replaces the harness, or the mix of several, of every agent that has one, with its own defaults.
    """
    from paddock.collect.oracle import stand_ins
    from paddock.config import load

    words, overrides = split_arguments(arguments)
    files = [_file_of(word) for word in words]
    if not files:
        raise ConfigError("name a config file, such as configs/demo.yaml", kind="no_config")
    if not modelless and harness is None:
        try:
            return load(files, overrides, strict=strict)
        except ConfigError as error:
            raise _with_hint(error, words) from error
    written = load(files, overrides, strict=strict, servers=())
    models = stand_ins(written) if modelless else {}
    agents = _with_harness(written, harness) if harness is not None else {}
    return load(files, overrides, strict=strict, extra={**models, **agents})


def _with_hint(error: ConfigError, words: Sequence[str]) -> ConfigError:
    """Where plugins alone are named, and no model server: what is missing, and what to type."""
    from paddock.server.targets import find_plugin

    plugins = [find_plugin(word) for word in words]
    if not all(plugins) or any(plugin.kind == "models_servers" for plugin in plugins if plugin):
        return error
    hint = f"name a model server too, as in `{' '.join(words)} openai`, or ask no model with --oracle"
    return ConfigError(f"{error.message}\n{hint}", kind=error.kind)


def _file_of(word: str) -> str:
    """The config file that an argument names; a plugin's own, where it is a plugin's name."""
    from paddock.config import find_file
    from paddock.server.targets import find_plugin

    plugin = find_plugin(word)
    if plugin is None:
        return word
    try:
        return str(find_file(plugin.config_path))
    except ConfigError as error:
        raise ConfigError(
            f"`{word}` is a plugin ({plugin.kind}) that ships no config: name a config file", kind="no_config"
        ) from error


def _with_harness(config: "Config", harness: str) -> dict[str, Any]:
    """Changes to the agents that have a harness."""
    from paddock.config import resolve_class

    instances = config.instances.items()
    agents = {name: instance.implementation for name, instance in instances if instance.kind == "agents"}
    fields = {name: resolve_class(spec, "agents").config_type.model_fields for name, spec in agents.items()}
    with_harness = {name: spec for name, spec in agents.items() if "harness" in fields[name]}
    if not with_harness:
        have = ", ".join(f"{name} ({spec})" for name, spec in agents.items()) or "none"
        raise ConfigError(
            f"--harness {harness}: no agent of the config has a harness; agents: {have}", kind="no_harness"
        )
    changes = {"harness": harness, "harness_config": None}
    return {name: {"agents": {spec: {**changes, **_without_mixing(spec)}}} for name, spec in with_harness.items()}


def _without_mixing(spec: str) -> dict[str, Any]:
    """The setting with which an agent that may mix harnesses uses one."""
    from paddock.config import resolve_class

    switch = "run_with_mixed_prompts"
    return {switch: False} if switch in resolve_class(spec, "agents").config_type.model_fields else {}
