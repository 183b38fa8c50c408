"""The tools and templates that a harness shows the model: `profiles/<name>.json` beside the class; templates are files.

Extends a profile that says which other it extends lists that one's tools by name, and has its options and templates
        where it gives none.
Source  names, parameters, types and required lists are those of the program that `source` names; descriptions, prompts
        and grammar comments are ours.
Errors  ConfigError: no such profile (the ones there are, listed), a file that is no profile.
"""

from functools import lru_cache
from pathlib import Path

import orjson
from pydantic import ValidationError

from paddock.config.problems import suggestion
from paddock.errors import ConfigError, describe
from paddock.types import JsonObject, Record

DEFAULT = "default"


class ToolProfile(Record):
    """The tools, templates and options of a harness."""

    source: str
    """Program, version and mode."""
    tools: list[JsonObject]
    """The `tools` of each request: `function` tools, and `custom` ones with a grammar."""
    parallel_tool_calls: bool = True
    system: str | None
    """Template file of the system message, below `prompts/`; None: there is none."""
    user: str
    """Template file of the first user message, below `prompts/`."""
    options: JsonObject = {}
    """For the toolbox: limits and switches."""

    @property
    def tool_names(self) -> list[str]:
        return [str(tool["name"]) for tool in self.tools]


@lru_cache(maxsize=64)
def load_profile(folder: Path, name: str) -> ToolProfile:
    """Load a profile of a harness's folder by its name. Raises ConfigError."""
    path = folder / "profiles" / f"{name}.json"
    there = sorted(file.stem for file in (folder / "profiles").glob("*.json"))
    if name not in there:
        hint = suggestion(name, there)
        raise ConfigError(f"profile {name!r}: not one of {', '.join(there)}{hint}", kind="profile_unknown")
    try:
        return ToolProfile.model_validate(_extended(folder, orjson.loads(path.read_bytes())))
    except ValidationError as error:
        raise ConfigError(f"{path}: {describe(error)}", kind="profile_invalid") from error
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{path}: no JSON: {error}", kind="profile_invalid") from error


def _extended(folder: Path, given: JsonObject) -> JsonObject:
    """What a file says, over what it extends: tools by name are that profile's, options are over its options."""
    if "extends" not in given:
        return given
    extended = load_profile(folder, given.pop("extends"))
    by_name = dict(zip(extended.tool_names, extended.tools, strict=True))
    tools = [by_name.get(tool, tool) if isinstance(tool, str) else tool for tool in given.get("tools", extended.tools)]
    return {**dict(extended), **given, "tools": tools, "options": {**extended.options, **given.get("options", {})}}
