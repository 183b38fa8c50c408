"""Checks rows before they run: what the server that reads them refuses, and what a trainer would mix up.

Law     a row is read as a collection reads it: as a row, then by its agent's environment (`read_task`). The environment
        is that of a config, or one server for all rows, or that of an agent that published rows name; rows of other
        agents are checked as rows alone, and counted by agent.
Prompts NeMo-RL makes one group of all rollouts whose first prompts are equal, whatever rows they are of: rows with the
        same messages and tools are named. A row without messages has its problem statement in their place.
Memory  one row, and 16 bytes and a place for each prompt.
Errors  none for a wrong row: it is a `RowFinding`. ConfigError for what makes all rows unreadable.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from paddock.collect.routing import Router, environment
from paddock.collect.rows import RowFileLine, RowSource, read_line
from paddock.config import Config
from paddock.conformance.target import find_target
from paddock.errors import BugError, ConfigError, PaddockError, RowError, boundary
from paddock.server import ResourcesServer
from paddock.training.data.blends import AGENTS
from paddock.training.data.tables import numbered_lines
from paddock.types import Json, JsonObject, Row

SERVER = "resources_server"


class RowReader(NamedTuple):
    """What reads the rows of a check."""

    read: Callable[[Row], str | None]
    """The name of the server that read a row; None: there is none for it here. RowError for a row that it refuses."""
    own_prompt: Callable[[JsonObject], bool] = lambda _: False
    """Whether a row, as it stands in its file, needs no request to the model of its own."""


class RowFinding(NamedTuple):
    """A problem of a row, or a warning about it."""

    where: str
    message: str
    wrong: bool
    """False: it is a warning, the row can run."""

    def __str__(self) -> str:
        return f"{self.where}: {'' if self.wrong else 'warning: '}{self.message}"


class RowCounts:
    """The counts of a check."""

    def __init__(self) -> None:
        self.n_rows = 0
        self.n_wrong = 0
        self.n_repeated = 0
        """Rows with the prompt of an earlier row."""
        self.read_by: Counter[str] = Counter()
        self.unread: Counter[str] = Counter()
        """Rows by agent for which there is no server here; `no agent`: they name none."""


def config_reader(config: Config, *, agent: str | None = None) -> RowReader:
    """Reads each row by its agent of a config."""
    router = Router(config, default=agent)
    names = {chosen.environment for chosen in router.agents.values()}
    servers = {name: environment(config, name) for name in names}

    def read(row: Row) -> str:
        chosen = router.agent_of(row)
        servers[chosen.environment].read_task(row)
        return chosen.name

    return RowReader(read, own_prompt=router.makes_prompt)


def server_reader(spec: str) -> RowReader:
    """Reads all rows by one resources server with its default settings."""
    server = plain_server(spec)

    def read(row: Row) -> str:
        server.read_task(row)
        return spec

    return RowReader(read, own_prompt=lambda _: server.OWN_PROMPT)


def published_reader() -> RowReader:
    """Reads each row by the server of the agent that published rows name."""
    servers: dict[str, ResourcesServer[Any, Any]] = {}

    def read(row: Row) -> str | None:
        spec = AGENTS.get(row.agent_ref.name) if row.agent_ref is not None else None
        if spec is None:
            return None
        if spec not in servers:
            servers[spec] = plain_server(spec)
        servers[spec].read_task(row)
        return spec

    return RowReader(read)


def plain_server(spec: str) -> ResourcesServer[Any, Any]:
    """A resources server with its default config, not started."""
    server = find_target(f"{SERVER}:{spec}").build()
    assert isinstance(server, ResourcesServer)  # of that kind
    return server


def check_rows(paths: Sequence[Path], reader: RowReader, counts: RowCounts) -> Iterator[RowFinding]:
    """The findings about the rows of some files, which count as one data set."""
    seen: dict[bytes, tuple[int, int]] = {}
    for index, path in enumerate(paths):
        source = RowSource(path)
        for number, text in numbered_lines(path):
            line = RowFileLine(counts.n_rows, source, number, text)
            counts.n_rows += 1
            try:
                row = read_line(line, own_prompt=reader.own_prompt)
                _count(counts, row, _read(reader, row, line.where))
            except RowError as error:
                counts.n_wrong += 1
                yield RowFinding(line.where, error.message.removeprefix(f"{line.where}: "), wrong=True)
                continue
            digest = prompt_digest(row)
            if digest is None:
                continue
            first = seen.setdefault(digest, (index, number))
            if first != (index, number):
                counts.n_repeated += 1
                before = f"{paths[first[0]]}:{first[1]}"
                yield RowFinding(
                    line.where, f"has the first prompt of {before}: NeMo-RL makes one group of them", wrong=False
                )


def prompt_digest(row: Row) -> bytes | None:
    """A digest that is equal for rows with equal first prompts; None where the row has no prompt."""
    params = row.responses_create_params
    messages: Json = [_message(item) for item in _messages(params.get("input"))]
    if not messages:
        inner = params.get("metadata")
        messages = row.task.get("problem_statement") or (isinstance(inner, dict) and inner.get("problem_statement"))
        if not messages:
            return None
    fields = [params.get("instructions") or None, messages, params.get("tools") or []]
    return hashlib.blake2b(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()


def _messages(given: Json) -> list[JsonObject]:
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return given if isinstance(given, list) else []


def _message(item: JsonObject) -> JsonObject:
    """The message as models see it: without nulls and ids, a single part of text as that text."""
    fields = {key: value for key, value in item.items() if value is not None and key not in ("id", "status")}
    if "role" in fields:
        fields.pop("type", None)
    content = fields.get("content")
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict) and "text" in content[0]:
        fields["content"] = content[0]["text"]
    return fields


def _read(reader: RowReader, row: Row, where: str) -> str | None:
    try:
        with boundary(BugError, f"read_task of {where}"):
            return reader.read(row)
    except (RowError, ConfigError):
        raise
    except PaddockError as error:
        raise ConfigError(f"{where}: {error.message}", kind=error.kind) from error


def _count(counts: RowCounts, row: Row, reader: str | None) -> None:
    if reader is None:
        counts.unread[row.agent_ref.name if row.agent_ref is not None else "no agent"] += 1
    else:
        counts.read_by[reader] += 1
