"""mini-swe-agent's own configuration, as its `-c` takes it: files of YAML, and `key.path=value`, laid over each other.

Form    blocks `agent`, `environment`, `model`, `run`. What is in them the program checks itself; a file that is no such
        thing is refused here, with its name. A name without a folder that is no file here is one of the program's own.
Ours    where the program runs and whom it asks is not theirs to say: `PLACES`, `ROUTES`.
Source  mini-swe-agent 2.4.6.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import yaml

from paddock.config import find_file
from paddock.config.problems import suggestion
from paddock.errors import ConfigError
from paddock.types import JsonObject

BLOCKS = ("agent", "environment", "model", "run")
ACTION_REGEX = r"```mswea_bash_command\s*\n(.*?)\n```"
"""Of a text-based action, where no file says another."""
_XML_REGEX = r"<mswea_bash_command>(.*?)</mswea_bash_command>"
_OWN_REGEXES = {"swebench_xml.yaml": _XML_REGEX}
"""Of the program's own files that say one."""


class Layer(NamedTuple):
    """One of several configurations; later ones go before earlier ones."""

    name: str
    blocks: JsonObject | None
    """None: the program knows what the name means."""


def layers(specs: Sequence[str]) -> list[Layer]:
    return [_layer(spec) for spec in specs]


def action_regex(given: Sequence[Layer]) -> str | None:
    """What the policy's texts are searched with; None: nothing says so."""
    regex = None
    for layer in given:
        model = (layer.blocks or {}).get("model") or {}
        inline = re.fullmatch(r"model\.action_regex=(.*)", layer.name, re.DOTALL)
        regex = inline[1] if inline else model.get("action_regex", _OWN_REGEXES.get(layer.name, regex))
    return regex


def _layer(spec: str) -> Layer:
    if "=" in spec:
        return Layer(spec, None)
    try:
        path = find_file(spec)
    except ConfigError:
        if "/" in spec:
            raise
        return Layer(spec if spec.endswith(".yaml") else f"{spec}.yaml", None)
    try:
        blocks = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: no YAML that can be read: {error}", kind="program_config") from error
    if not isinstance(blocks, dict) or not all(isinstance(block, dict | None) for block in blocks.values()):
        raise ConfigError(f"{path}: needs blocks {', '.join(BLOCKS)}", kind="program_config")
    unknown = next((name for name in blocks if name not in BLOCKS), None)
    if unknown is not None:
        hint = suggestion(str(unknown), BLOCKS)
        raise ConfigError(f"{path}: mini-swe-agent has no block `{unknown}`{hint}", kind="program_config")
    if (blocks.get("run") or {}).get("env_startup_command"):
        text = "the environment prepares its sandbox itself"
        raise ConfigError(f"{path}: run.env_startup_command: {text}; leave it out", kind="program_config")
    return Layer(str(path), {name: block for name, block in blocks.items() if block is not None})
