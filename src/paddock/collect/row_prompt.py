"""Prompts of rows that bring none: a template, filled with a row's own keys (NeMo-Gym's `prompt_config`).

Source  nemo-gym 0.4.0, `nemo_gym/prompt.py`: a YAML file with `user` and perhaps `system`, texts for `str.format_map`:
        `{question}` is the row's key of that name, a brace is written twice.
Errors  ConfigError: no such file, or one of another form. RowError: the row has a prompt already, or no key of a name.
"""

import hashlib
from pathlib import Path
from typing import NamedTuple

from paddock.config.files import find_file
from paddock.config.yaml_text import parse
from paddock.errors import ConfigError, RowError
from paddock.types import JsonObject


class RowPrompt(NamedTuple):
    """A template of the messages that a row's request begins with."""

    user: str
    system: str | None = None

    @property
    def sha256(self) -> str:
        return hashlib.sha256("\0".join([self.user, self.system or ""]).encode()).hexdigest()

    def fill(self, wire: JsonObject, where: str) -> JsonObject:
        """The row with its request's `input`; the row's other parameters are kept. `where`: begins an error."""
        params = wire.get("responses_create_params") or {}
        if not isinstance(params, dict) or params.get("input"):
            raise RowError(
                f"{where}: has a `responses_create_params.input`, and its dataset a `prompt_config`: keep one of them",
                kind="row_invalid",
            )
        texts = {"system": self.system, "user": self.user}
        messages = [
            {"role": role, "content": _filled(text, wire, where)} for role, text in texts.items() if text is not None
        ]
        return {**wire, "responses_create_params": {**params, "input": messages}}


def read_prompt(path: str, *, beside: Path | None = None) -> RowPrompt:
    """The template of a file, which is looked for like a config path."""
    file = find_file(path, beside=beside)
    try:
        tree = parse(file.read_text(), str(file)).tree
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: can't be read: {error}", kind="prompt_unreadable") from error
    user, system = tree.get("user"), tree.get("system")
    if not isinstance(user, str) or not isinstance(system, str | None):
        raise ConfigError(
            f"{file}: a prompt needs `user`, a text, and may have `system`, another one", kind="prompt_unreadable"
        )
    return RowPrompt(user, system)


def _filled(text: str, wire: JsonObject, where: str) -> str:
    try:
        return text.format_map(wire)
    except KeyError as error:
        text = f"{where}: no key {error} for its prompt; it has: {', '.join(wire)}"
        raise RowError(text, kind="row_invalid") from error
    except (ValueError, IndexError, AttributeError, TypeError) as error:
        raise RowError(f"{where}: its prompt can't be made: {error}", kind="row_invalid") from error
