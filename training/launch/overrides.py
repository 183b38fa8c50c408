"""Overrides on the command line of a trainer: `key.path=value`, whose value arrives as exactly that text.

Law     a value that the trainer's grammar would read as something else than that text (YAML for the built-in loop,
        Hydra's for NeMo-RL) is written as a quoted string. No secret stands on a command line.
Errors  ConfigError by the override's key: its value may be secret.
"""

import re
import shlex
from collections.abc import Iterable

import yaml

from paddock.collect.identity import blank_secrets
from paddock.config.overrides import parse_override
from paddock.config.problems import raise_all
from paddock.config.yaml_text import parse_value
from paddock.errors import ConfigError

_PLAIN_FOR_HYDRA = re.compile(r"[A-Za-z0-9_./@:+-]+")
_WORDS_OF_HYDRA = re.compile(r"(true|false|null|nan|[+-]?inf|[+-]?[0-9_.]+(e[+-]?[0-9]+)?)", re.IGNORECASE)


def yaml_override(key: str, text: str) -> str:
    try:
        plain = parse_value(text, key) == text
    except ConfigError:
        plain = False
    # Of one line, all but ASCII escaped.
    quoted = yaml.safe_dump(text, default_style='"', width=len(text) * 10 + 80).rstrip("\n")
    return f"{key}={text if plain else quoted}"


def hydra_override(key: str, text: str) -> str:
    if _PLAIN_FOR_HYDRA.fullmatch(text) and not _WORDS_OF_HYDRA.fullmatch(text):
        return f"{key}={text}"
    # A backslash is one, but before a quote: there it and the quote are escaped.
    quoted = re.sub(r"(\\*)('|\Z)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), text)
    return f"{key}='{quoted}'"


def words_of(text: str) -> list[str]:
    """The words of EXTRA_HYDRA_ARGS; ConfigError where a shell could not split it."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"EXTRA_HYDRA_ARGS: {error}: the words of a shell are meant", kind="override") from None


def refuse_secrets(overrides: Iterable[str]) -> None:
    """ConfigError for an override that gives a secret by its value."""
    problems = []
    for text in overrides:
        override = parse_override(text)
        key = str(override.path[-1])
        if blank_secrets(override.value, key) != override.value:
            problems.append(
                f"{override.origin}: a secret would stand on a command line and in a script: give it a variable's "
                f"name, as `${{oc.env:NAME}}`, and the launch that name (`env` of a profile)"
            )
    raise_all(problems, kind="secret")
