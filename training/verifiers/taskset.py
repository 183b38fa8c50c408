"""Rows of ours as a verifiers taskset, and the keys that name their environments: `--env.taskset.*`.

Law     a task's data is the whole row, as JSON; it travels to an environment server, which reads no row file.
Errors  ConfigError for a config or a row file that can't be read, and for an environment that judges rollouts
        together; RowError for a line that is no row.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from pydantic import Field
from verifiers.v1 import Task, TaskConfig, TaskData, Taskset, TasksetConfig

from paddock.collect import EvalSettings
from paddock.collect.plan import find_sources
from paddock.collect.routing import Router
from paddock.collect.rows import lines, read_line
from paddock.collect.settings import Selection
from paddock.config import Config, load, validate
from paddock.errors import ConfigError
from paddock.rollouts.client import FUNCTION, POLICY, with_model_server
from paddock.types import JsonObject


class PaddockTasksetConfig(TasksetConfig):  # type: ignore[misc]
    """Which environments, which rows of theirs, and how the model is asked."""

    config: list[str]
    """Config files of the environments."""
    overrides: list[str] = Field(default_factory=list)
    """`key=value` over them."""
    rows: list[str] = Field(default_factory=list)
    """Row files; none: the datasets of the config's agents."""
    split: str | None = None
    """Which of those datasets; None: all, where they are of one type."""
    model_server: str = POLICY
    """The model server of the config that asks verifiers' endpoint instead of its own."""
    engine: dict[str, Any] = Field(default_factory=dict)
    """Settings of `models_servers/function`, with a `train` client. `tokenizer` is by default the client's
    `renderer_model_name`, else the model: a folder."""
    upstream: dict[str, Any] = Field(default_factory=dict)
    """Settings of `models_servers/openai`, with an `eval` client, beside endpoint and model."""


class PaddockData(TaskData):  # type: ignore[misc]
    """The data of a task."""

    row: dict[str, Any]
    """The row, with the name of its agent."""


class PaddockTask(Task[PaddockData]):  # type: ignore[misc]
    """A row. The environment runs and judges it; a task has no hooks of its own."""


class PaddockTaskset(Taskset[PaddockTask, PaddockTasksetConfig]):  # type: ignore[misc]
    """The rows of a config."""

    def load(self) -> Iterator[PaddockTask]:
        # Which endpoint the model server will ask is said with each episode.
        asked = with_model_server(read_config(self.config), self.config.model_server, FUNCTION, {"function": "later"})
        for row in rows_of(asked, rows=self.config.rows, split=self.config.split):
            yield PaddockTask(PaddockData(row=row, prompt=prompt_text(row)), TaskConfig())


def read_config(keys: PaddockTasksetConfig) -> Config:
    """The config of the environments, without a server of their own for the model."""
    return load(list(keys.config), keys.overrides, servers=())


def rows_of(config: Config, *, rows: list[str], split: str | None) -> Iterator[JsonObject]:
    """The rows of the files, else those of the datasets, each with its agent's name."""
    settings = validate(EvalSettings, config.top("eval") or {}, "eval")
    settings = settings.model_copy(update={"rows": tuple(rows) or settings.rows, "split": split or settings.split})
    router = Router(config, default=settings.agent)
    for line in lines(find_sources(config, settings, router), Selection()):
        row = read_line(line, own_prompt=partial(router.makes_prompt, source_agent=line.source.agent))
        agent = router.agent_of(row, source_agent=line.source.agent)
        if agent.group_wise:
            raise ConfigError(
                f"{agent.environment} judges the rollouts of a row together, and verifiers runs each by itself",
                kind="group_unknown",
            )
        yield {**row.to_wire(), "agent_ref": {"name": agent.name}}


def prompt_text(row: Mapping[str, Any]) -> str:
    """What the row first says, for those who look at tasks; the model sees what the agent makes of the row."""
    given = (row.get("responses_create_params") or {}).get("input") or ""
    if isinstance(given, str):
        return given
    texts = [item["content"] for item in given if isinstance(item, dict) and isinstance(item.get("content"), str)]
    return "\n\n".join(texts)
