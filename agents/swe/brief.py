"""What a harness is told of a row: the prompt, and what the environment lets an agent see.

Law     all of it comes from the session; the row itself is not looked at. The same session gives the same words.
Errors  ConfigError for a template that is none or reads what there is not; RowError for a session without an image or
        without a problem.
"""

from pathlib import Path
from typing import Any, NamedTuple, cast

from jinja2 import StrictUndefined, TemplateError
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment

from paddock.config.problems import suggestion
from paddock.errors import ConfigError, RowError
from paddock.harness import Task
from paddock.sandbox import SandboxLimits, SandboxSpec
from paddock.types import Session

VARIABLES = ("problem_statement", "workdir", "repo", "language")
OURS = ("network",)
"""Keys of a session that tell the agent server what to do; no harness sees them."""
_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)


class Brief(NamedTuple):
    """A row as it is to be worked on."""

    task: Task
    spec: SandboxSpec


class Prompt:
    """A prompt's template."""

    def __init__(self, template: str | None) -> None:
        text = template if template is not None else (Path(__file__).parent / "prompt.jinja").read_text()
        try:
            self._template = _ENVIRONMENT.from_string(text)
            unknown = sorted(find_undeclared_variables(_ENVIRONMENT.parse(text)) - set(VARIABLES))
        except TemplateError as error:
            raise ConfigError(f"prompt_template: {error}", kind="template") from error
        if unknown:
            hint = suggestion(unknown[0], VARIABLES)
            raise ConfigError(f"prompt_template: there is no variable `{unknown[0]}`{hint}", kind="template")

    def render(self, fields: dict[str, Any]) -> str:
        return self._template.render({name: fields.get(name, "") for name in VARIABLES})


def brief(session: Session, prompt: Prompt, limits: SandboxLimits) -> Brief:
    """What a session asks for."""
    if not session.image:
        raise RowError("the environment names no image: this agent works in a sandbox", kind="no_image")
    visible = {name: value for name, value in session.visible.items() if name not in OURS}
    if not visible.get("problem_statement"):
        raise RowError("problem_statement: the environment shows none", kind="no_problem")
    workdir = session.workdir or "/"
    spec = SandboxSpec(
        image=session.image,
        workdir=workdir,
        limits=limits,
        network=cast("Any", session.visible.get("network", "none")),
        labels={"instance": str(visible.get("instance_id", ""))},
    )
    text = prompt.render({**visible, "workdir": workdir})
    task = Task(prompt=text, tools=session.tools, visible=visible)
    return Brief(task, spec)
