"""Running suites, and one behaviour against a plugin that is broken on purpose."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from paddock.conformance import Result, Subject, find_subject, run_one, run_suite, suite_for
from paddock.http import read_row
from paddock.server import Server
from paddock.types import JsonObject


@pytest.fixture
def run_all() -> Callable[[str], Awaitable[list[Result]]]:
    """Every behaviour of `KIND:NAME`."""

    async def run(words: str) -> list[Result]:
        subject = find_subject(words)
        return await run_suite(suite_for(subject.kind), subject)

    return run


@pytest.fixture
def outcome_of() -> Callable[..., Awaitable[Result]]:
    """The result of one behaviour for a class."""

    async def run(
        name: str, kind: str, cls: type[Server[Any]], block: JsonObject, rows: Sequence[JsonObject] = ()
    ) -> Result:
        behaviour = next(one for one in suite_for(kind) if one.name == name)
        subject = Subject(kind, "broken", cls, block, [read_row(row) for row in rows])  # type: ignore[arg-type]
        return await run_one(behaviour, subject, timeout_s=20.0)

    return run


@pytest.fixture
def repository() -> Path:
    return Path(__file__).parents[2]
