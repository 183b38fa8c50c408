"""Running suites, and one behaviour against a plugin that is broken on purpose."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from paddock.conformance import BehaviourResult, ServerTarget, find_target, run_behaviour, run_suite, suite_for
from paddock.http import read_row
from paddock.server import Server
from paddock.types import JsonObject


@pytest.fixture
def run_all() -> Callable[[str], Awaitable[list[BehaviourResult]]]:
    """Every behaviour of `KIND:NAME`."""

    async def run(words: str) -> list[BehaviourResult]:
        target = find_target(words)
        return await run_suite(suite_for(target.kind), target)

    return run


@pytest.fixture
def outcome_of() -> Callable[..., Awaitable[BehaviourResult]]:
    """The result of one behaviour for a class."""

    async def run(
        name: str, kind: str, cls: type[Server[Any]], block: JsonObject, rows: Sequence[JsonObject] = ()
    ) -> BehaviourResult:
        behaviour = next(one for one in suite_for(kind) if one.name == name)
        target = ServerTarget(kind, "broken", cls, block, [read_row(row) for row in rows])  # type: ignore[arg-type]
        return await run_behaviour(behaviour, target, timeout_s=20.0)

    return run


@pytest.fixture
def repository() -> Path:
    return Path(__file__).parents[2]
