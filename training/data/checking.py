"""Rows before they run: what the server that will read them refuses, and what a trainer would mix up.

Law     a row is read as a collection reads it: as a row, then by its agent's environment (`read_task`). Who that is a
        config says, or one server for all rows, or the agents that published rows name; rows of other agents are
        checked as rows alone, and counted by agent.
Prompts NeMo-RL makes one group of all rollouts whose first prompts are equal, whatever rows they are of: rows with the
        same messages and tools are named. A row without messages has its problem statement in their place.
Memory  one row, and 16 bytes and a place for each prompt.
Errors  none for a wrong row: it is a `Finding`. ConfigError for what makes all rows unreadable.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from paddock.collect.routing import Router, environment
from paddock.collect.rows import Line, Source, read_line
from paddock.config import Config
from paddock.conformance.subjects import find_subject
from paddock.errors import BugError, ConfigError, PaddockError, RowError, boundary
from paddock.server import ResourcesServer
from paddock.training.data.blends import AGENTS
from paddock.training.data.tables import numbered_lines
from paddock.types import Json, JsonObject, Row

SERVER = "resources_server"


class Reader(NamedTuple):
    """Who reads rows."""

    read: Callable[[Row], str | None]
    """RowError for a row that is refused; the name of who read it, None: nobody here can."""
    own_prompt: bool = False
    """Rows need not bring a request to the model."""


class Finding(NamedTuple):
    where: str
    message: str
    wrong: bool
    """False: a warning, the row runs."""

    def __str__(self) -> str:
        return f"{self.where}: {'' if self.wrong else 'warning: '}{self.message}"


class Counts:
    """What a check has seen."""

    def __init__(self) -> None:
        self.n_rows = 0
        self.n_wrong = 0
        self.n_repeated = 0
        """Rows whose prompt an earlier row has."""
        self.read_by: Counter[str] = Counter()
        self.unread: Counter[str] = Counter()
        """Rows by agent that nobody here can read; `no agent`: they name none."""


def config_reader(config: Config, *, agent: str | None = None) -> Reader:
    """The agents of a config, each row by its own."""
    router = Router(config, default=agent)
    names = {one.environment for one in router.agents.values()}
    servers = {name: environment(config, name) for name in names}
    likely = router.fallback(None)

    def read(row: Row) -> str:
        chosen = router.agent_of(row)
        servers[chosen.environment].read_task(row)
        return chosen.name

    return Reader(read, own_prompt=likely is not None and likely.own_prompt)


def server_reader(spec: str) -> Reader:
    """One resources server with its own defaults, for all rows."""
    server = plain_server(spec)

    def read(row: Row) -> str:
        server.read_task(row)
        return spec

    return Reader(read, own_prompt=server.OWN_PROMPT)


def published_reader() -> Reader:
    """The servers of the agents that published rows name."""
    servers: dict[str, ResourcesServer[Any, Any]] = {}

    def read(row: Row) -> str | None:
        spec = AGENTS.get(row.agent_ref.name) if row.agent_ref is not None else None
        if spec is None:
            return None
        if spec not in servers:
            servers[spec] = plain_server(spec)
        servers[spec].read_task(row)
        return spec

    return Reader(read)


def plain_server(spec: str) -> ResourcesServer[Any, Any]:
    """A resources server, built with its own config and not started."""
    server = find_subject(f"{SERVER}:{spec}").build()
    assert isinstance(server, ResourcesServer)  # of that kind
    return server


def check(paths: Sequence[Path], reader: Reader, counts: Counts) -> Iterator[Finding]:
    """What is to be said of the rows of some files, which count as one data set."""
    seen: dict[bytes, tuple[int, int]] = {}
    for index, path in enumerate(paths):
        source = Source(path)
        for number, text in numbered_lines(path):
            line = Line(counts.n_rows, source, number, text)
            counts.n_rows += 1
            try:
                row = read_line(line, own_prompt=reader.own_prompt)
                _count(counts, row, _read(reader, row, line.where))
            except RowError as error:
                counts.n_wrong += 1
                yield Finding(line.where, error.message.removeprefix(f"{line.where}: "), wrong=True)
                continue
            digest = prompt_digest(row)
            if digest is None:
                continue
            first = seen.setdefault(digest, (index, number))
            if first != (index, number):
                counts.n_repeated += 1
                before = f"{paths[first[0]]}:{first[1]}"
                yield Finding(
                    line.where, f"has the first prompt of {before}: NeMo-RL makes one group of them", wrong=False
                )


def prompt_digest(row: Row) -> bytes | None:
    """Equal for rows whose first prompts are; None where the row does not tell."""
    params = row.responses_create_params
    messages: Json = [_message(one) for one in _messages(params.get("input"))]
    if not messages:
        inner = params.get("metadata")
        messages = row.task.get("problem_statement") or (isinstance(inner, dict) and inner.get("problem_statement"))
        if not messages:
            return None
    told = [params.get("instructions") or None, messages, params.get("tools") or []]
    return hashlib.blake2b(orjson.dumps(told, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()


def _messages(given: Json) -> list[JsonObject]:
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return given if isinstance(given, list) else []


def _message(item: JsonObject) -> JsonObject:
    """As models see it: nulls and ids say nothing, one part of text is that text."""
    kept = {key: value for key, value in item.items() if value is not None and key not in ("id", "status")}
    if "role" in kept:
        kept.pop("type", None)
    content = kept.get("content")
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict) and "text" in content[0]:
        kept["content"] = content[0]["text"]
    return kept


def _read(reader: Reader, row: Row, where: str) -> str | None:
    try:
        with boundary(BugError, f"read_task of {where}"):
            return reader.read(row)
    except (RowError, ConfigError):
        raise
    except PaddockError as error:
        raise ConfigError(f"{where}: {error.message}", kind=error.kind) from error


def _count(counts: Counts, row: Row, reader: str | None) -> None:
    if reader is None:
        counts.unread[row.agent_ref.name if row.agent_ref is not None else "no agent"] += 1
    else:
        counts.read_by[reader] += 1
