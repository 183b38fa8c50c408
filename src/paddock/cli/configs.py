"""Config files and overrides as commands take them: in one list, files first or mixed.

An argument with `=`, or that begins with `~`, is an override; any other is a file.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

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


def load_config(arguments: Sequence[str], *, strict: bool = False, modelless: bool = False) -> "Config":
    """The config of a command's arguments; ConfigError when they name no file.

    With `modelless` no model is asked: agents may refer to model servers that the files do not have.
    """
    from paddock.collect.oracle import stand_ins
    from paddock.config import load

    files, overrides = split_arguments(arguments)
    if not files:
        raise ConfigError("name a config file, such as configs/demo.yaml", kind="no_config")
    extra = stand_ins(load(files, overrides, strict=strict, servers=())) if modelless else None
    return load(files, overrides, strict=strict, extra=extra)
