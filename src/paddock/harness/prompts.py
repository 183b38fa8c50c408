"""Templates of prompts in Jinja2, with the fields that the environment shows as the only variables.

Variables `problem_statement`, `workdir`, `repo`, `language`, `tools` (shown name by real name), and NeMo-Gym's
        `workspace_path` and `instance.{problem_statement, repo, repo_language, instance_id}`. No clock, no path of this
        machine, nothing random: the same session gives the same words.
Source  text, or the path of a file by its ending (`SUFFIXES`), found as config paths are.
Errors  ConfigError for a template that is malformed, is not found, or uses an unknown variable.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment

from paddock.config import find_file
from paddock.config.problems import suggestion
from paddock.errors import ConfigError
from paddock.types import JsonObject

VARIABLES = ("problem_statement", "workdir", "repo", "language", "tools", "workspace_path", "instance")
SUFFIXES = (".jinja", ".jinja2", ".j2")
_ENVIRONMENT = ImmutableSandboxedEnvironment(
    undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True
)


class Template:
    """A template, checked when it is made."""

    def __init__(self, given: str, where: str, variables: Sequence[str] = VARIABLES) -> None:
        """`given`: text or path; `where`: the template's name in errors, such as a config key. Raises ConfigError."""
        self._where = where
        try:
            text = _text(given)
            self._template = _ENVIRONMENT.from_string(text)
            unknown = sorted(find_undeclared_variables(_ENVIRONMENT.parse(text)) - set(variables))
        except TemplateError as error:
            raise ConfigError(f"{where}: {error}", kind="template") from error
        if unknown:
            hint = suggestion(unknown[0], variables)
            raise ConfigError(f"{where}: there is no variable `{unknown[0]}`{hint}", kind="template")

    def render(self, visible: JsonObject, workdir: str, tools: Mapping[str, str]) -> str:
        """Render the prompt. `visible`: visible fields of the session; `tools`: shown name by real name."""
        fields: dict[str, Any] = {name: visible.get(name, "") for name in ("problem_statement", "repo", "language")}
        fields |= {"workdir": workdir, "workspace_path": workdir, "tools": dict(tools)}
        fields["instance"] = {
            "problem_statement": fields["problem_statement"],
            "repo": fields["repo"],
            "repo_language": fields["language"],
            "instance_id": visible.get("instance_id", ""),
        }
        return self.fill(fields)

    def fill(self, fields: JsonObject) -> str:
        """Render the text with values of its variables. Raises ConfigError."""
        try:
            return self._template.render(fields)
        except TemplateError as error:
            raise ConfigError(f"{self._where}: {error}", kind="template") from error


def _text(given: str) -> str:
    if "\n" in given or not given.endswith(SUFFIXES):
        return given
    return find_file(given).read_text()
