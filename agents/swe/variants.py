"""Which harness works on a row, with which prompts, and what its tools are called.

Law     drawn from the row and the epoch alone (`paddock.harness.draws`): every member of a group has the same, unless
        the config says `mix_per_rollout`. All that may be drawn is made and checked when the agent is made.
Errors  ConfigError, when the agent is made: a harness, settings or a template that does not exist.
"""

from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from paddock.agents.swe.config import PromptOverride, SweAgentConfig
from paddock.errors import ConfigError
from paddock.harness import Program, Prompts, Template, harness_class, make_harness, needs_of
from paddock.harness.contract import Needs
from paddock.harness.draws import draw, seed_of, shown_names
from paddock.harness.factory import check_settings
from paddock.types import JsonObject, Row

DEFAULT_PROMPTS = Prompts(user=(Path(__file__).parent / "prompt.jinja").read_text())
"""Prompts for a harness that has none of its own."""
EXAMPLE: JsonObject = {"problem_statement": "It fails.", "repo": "a/b", "language": "python", "instance_id": "a__b-1"}
"""What a session may show; every template is rendered with it once, when the agent is made."""


class Variant(NamedTuple):
    """A harness with its settings, prompts and tool names: how a rollout is worked on."""

    name: str
    harness: str
    harness_config: JsonObject | None
    needs: Needs
    system: Template | None
    user: Template
    program: Program | None
    """What has to be installed for it; None: nothing."""
    tool_names: dict[str, str]
    """Shown name by real name, of all of the harness's own tools."""


class Variants:
    """The variants of an agent's config."""

    def __init__(self, config: SweAgentConfig, where: str) -> None:
        self._seed = config.mixing_seed
        self._per_rollout = config.mix_per_rollout
        self._options = config.options or [PromptOverride()]
        self._weights = [option.weight for option in self._options]
        self._variants: list[Variant] = []
        for index, option in enumerate(self._options):
            key_path = f"{where}: agent_prompt_overrides.{index}" if config.options else where
            self._variants.append(_variant(config, option, key_path, self._free_name(config, option)))

    def all(self) -> list[Variant]:
        """Return every variant that may be drawn, with the tools' own names."""
        return list(self._variants)

    def of(self, row: Row) -> Variant:
        """Draw the variant of a row's group."""
        seed = seed_of(row, self._seed, per_rollout=self._per_rollout)
        index = draw(self._weights, seed)
        option, variant = self._options[index], self._variants[index]
        names = shown_names(
            list(variant.tool_names), seed, diversify=option.diversify_tool_names, camel=option.camel_case_tool_names
        )
        return variant._replace(tool_names=names)

    def _free_name(self, config: SweAgentConfig, option: PromptOverride) -> str:
        if option.name is not None:
            return option.name
        base = option.harness or config.harness
        taken = {*(option.name for option in self._options), *(variant.name for variant in self._variants)}
        names = chain([base], (f"{base}-{number}" for number in count(2)))
        return next(name for name in names if name not in taken)


def _variant(config: SweAgentConfig, option: PromptOverride, where: str, name: str) -> Variant:
    harness = option.harness or config.harness
    own_settings = option.harness_config
    settings = config.harness_config if own_settings is None and harness == config.harness else own_settings
    cls = harness_class(harness)
    check_settings(cls, settings or {}, f"{where}: harness_config")
    prompts, tools = _prompts_and_tools(cls, harness, settings)
    names = {tool: tool for tool in tools}
    system = option.system_prompt_template if option.system_prompt_template is not None else prompts.system
    user, user_key = _user(config, option, prompts)
    return Variant(
        name=name,
        harness=harness,
        harness_config=settings,
        needs=needs_of(cls),
        system=_template(system, f"{where}: system_prompt_template", names) if system is not None else None,
        user=_template(user, f"{where}: {user_key}", names),
        program=getattr(make_harness(harness, settings), "program", None) if needs_of(cls) == "model" else None,
        tool_names=names,
    )


def _user(config: SweAgentConfig, option: PromptOverride, prompts: Prompts) -> tuple[str, str]:
    """Return the template of the first user message, and the config key that gives it."""
    if option.user_prompt_template is not None:
        return option.user_prompt_template, "user_prompt_template"
    return (config.prompt_template if config.prompt_template is not None else prompts.user), "prompt_template"


def _template(text: str, where: str, names: dict[str, str]) -> Template:
    """Compile a template and try it; ConfigError where it cannot be rendered."""
    template = Template(text, where)
    template.render(EXAMPLE, "/testbed", names)
    return template


def _prompts_and_tools(cls: type[Any], harness: str, settings: JsonObject | None) -> tuple[Prompts, list[str]]:
    """Return the prompts and the names of the tools of a harness class; the defaults where it has none."""
    if needs_of(cls) == "gold" or not hasattr(cls, "prompts"):
        return DEFAULT_PROMPTS, []
    instance: Any = make_harness(harness, settings)
    prompts = instance.prompts
    if not isinstance(prompts, Prompts):
        raise ConfigError(f"{cls.__name__}.prompts: needs a Prompts, got {prompts!r}", kind="harness_invalid")
    return prompts, list(instance.own_tools)
