"""Which harness works on a row, with which prompts, and what its tools are called.

Law     drawn from the row and the epoch alone: every member of a group has the same.
Errors  ConfigError, when the agent is made: a harness, settings or a template that there is not.
"""

from pathlib import Path
from typing import Any, NamedTuple

from paddock.agents.swe.config import SweConfig
from paddock.errors import ConfigError
from paddock.harness import Prompts, Template, harness_class, make_harness, needs_of
from paddock.harness.contract import Needs
from paddock.harness.making import check_settings
from paddock.types import JsonObject, Row

PLAIN = Prompts(user=(Path(__file__).parent / "prompt.jinja").read_text())
"""Of a harness that has no prompts of its own."""


class Variant(NamedTuple):
    """How a rollout is worked on."""

    name: str
    harness: str
    harness_config: JsonObject | None
    needs: Needs
    system: Template | None
    user: Template
    tool_names: dict[str, str]
    """Shown name by real name, of all of the harness's own tools."""


class Variants:
    """The variants of an agent's config."""

    def __init__(self, config: SweConfig, where: str) -> None:
        self._only = _variant(config, where)

    def of(self, row: Row) -> Variant:
        return self._only


def _variant(config: SweConfig, where: str) -> Variant:
    cls = harness_class(config.harness)
    check_settings(cls, config.harness_config or {}, f"{where}: harness_config")
    prompts, names = _own(cls, config)
    user = config.prompt_template if config.prompt_template is not None else prompts.user
    return Variant(
        name=config.harness,
        harness=config.harness,
        harness_config=config.harness_config,
        needs=needs_of(cls),
        system=Template(prompts.system, f"{where}: system prompt") if prompts.system is not None else None,
        user=Template(user, f"{where}: prompt_template"),
        tool_names={name: name for name in names},
    )


def _own(cls: type[Any], config: SweConfig) -> tuple[Prompts, list[str]]:
    """Prompts and tools of a class that has them."""
    if needs_of(cls) == "gold" or not hasattr(cls, "prompts"):
        return PLAIN, []
    harness: Any = make_harness(config.harness, config.harness_config)
    if not isinstance(harness.prompts, Prompts):
        raise ConfigError(f"{cls.__name__}.prompts: needs a Prompts, got {harness.prompts!r}", kind="harness_invalid")
    return harness.prompts, list(harness.own_tools)
