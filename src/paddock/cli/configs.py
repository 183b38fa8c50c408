"""Config files and overrides as commands take them: in one list, files first or mixed.

An argument with `=`, or that begins with `~`, is an override; any other is a file.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from paddock.errors import ConfigError

if TYPE_CHECKING:
    from paddock.config import Config


class Arguments(NamedTuple):
    files: list[str]
    overrides: list[str]


def split_arguments(arguments: Sequence[str]) -> Arguments:
    """Files and overrides, each in their order."""
    overrides = [text for text in arguments if "=" in text or text.startswith("~")]
    return Arguments([text for text in arguments if text not in overrides], overrides)


def load_config(
    arguments: Sequence[str], *, strict: bool = False, modelless: bool = False, harness: str | None = None
) -> "Config":
    """The config of a command's arguments; ConfigError when they name no file.

    With `modelless` no model is asked: agents may refer to model servers that the files do not have. `harness` takes
    the place of that of every agent that has one, and of a mix of several, with its own defaults.
    """
    from paddock.collect.oracle import stand_ins
    from paddock.config import load

    files, overrides = split_arguments(arguments)
    if not files:
        raise ConfigError("name a config file, such as configs/demo.yaml", kind="no_config")
    if not modelless and harness is None:
        return load(files, overrides, strict=strict)
    written = load(files, overrides, strict=strict, servers=())
    models = stand_ins(written) if modelless else {}
    agents = _with_harness(written, harness) if harness is not None else {}
    return load(files, overrides, strict=strict, extra={**models, **agents})


def _with_harness(config: "Config", harness: str) -> dict[str, Any]:
    """Changes to the agents that have a harness."""
    from paddock.config import resolve_class

    agents = {name: one.implementation for name, one in config.instances.items() if one.kind == "agents"}
    fields = {name: resolve_class(spec, "agents").config_type.model_fields for name, spec in agents.items()}
    having = {name: spec for name, spec in agents.items() if "harness" in fields[name]}
    if not having:
        have = ", ".join(f"{name} ({spec})" for name, spec in agents.items()) or "none"
        raise ConfigError(
            f"--harness {harness}: no agent of the config has a harness; agents: {have}", kind="no_harness"
        )
    changes = {"harness": harness, "harness_config": None}
    return {name: {"agents": {spec: {**changes, **_unmixed(spec)}}} for name, spec in having.items()}


def _unmixed(spec: str) -> dict[str, Any]:
    """What makes an agent that may mix harnesses keep to its own."""
    from paddock.config import resolve_class

    switch = "run_with_mixed_prompts"
    return {switch: False} if switch in resolve_class(spec, "agents").config_type.model_fields else {}
