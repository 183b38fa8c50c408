"""Claims about what a new user gets wrong: each mistake ends in an error that says what and where, and leaves no thread
or process."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from tests.rollouts.conftest import Environment, completion, row

from paddock.errors import ConfigError, RequestError
from paddock.rollouts import Completion, RolloutOptions, open_rollouts
from paddock.types import JsonObject


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name == "paddock"] == []
    assert psutil.Process().children(recursive=True) == []


async def yes(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
    return completion("yes")


async def without_rollout(ids: list[int], sampling: JsonObject) -> Completion:
    return completion("yes")


async def text(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> str:
    return "yes"


async def raising(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
    raise KeyError("weights")


def not_async(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
    return completion("yes")


@pytest.mark.parametrize(
    ("words", "kind", "says"),
    [
        ({"engine": without_rollout}, "function_invalid", "without_rollout(ids, sampling, rollout=KEY)"),
        ({"engine": 5}, "function_invalid", "int is no function"),
        ({"model_server": "polcy"}, "model_server_unused", "they do at: policy_model"),
        ({"engine": None}, "engine_missing", "`engine_settings` are those of `engine`"),
        ({"servers": {"enviroment": "http://127.0.0.1:1"}}, "unknown_instance", "nearest: `environment`"),
    ],
)
def test_what_can_t_be_opened_says_why(
    environment: Environment, engine_settings: JsonObject, words: JsonObject, kind: str, says: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        open_rollouts(environment(), **{"engine": yes, "engine_settings": engine_settings, **words})
    assert (raised.value.kind, says in raised.value.message) == (kind, True)


def test_overrides_of_a_loaded_config_are_refused(environment: Environment, engine_settings: JsonObject) -> None:
    with pytest.raises(ConfigError, match=r"rollouts\.workers=2: overrides are of config files"):
        open_rollouts(environment(), "rollouts.workers=2", engine=yes, engine_settings=engine_settings)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (text, "it gave str, no `Completion`"),
        (raising, "the engine function raised KeyError: 'weights'"),
        (not_async, "is it `async def`?"),
    ],
)
def test_an_engine_that_fails_all_is_named_once(
    environment: Environment,
    engine_settings: JsonObject,
    caplog: pytest.LogCaptureFixture,
    function: Any,
    says: str,
) -> None:
    with open_rollouts(environment(), engine=function, engine_settings=engine_settings) as rollouts:
        groups = list(rollouts.groups([row()] * 3, 2))
    assert all(says in str(member.failure) for group in groups for member in group.members)
    warned = [one.getMessage() for one in caplog.records if one.name == "paddock.rollouts"]
    assert len(warned) == 1
    assert says in warned[0]


def test_a_row_of_an_unknown_agent_is_named_with_the_nearest(
    environment: Environment, engine_settings: JsonObject, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING),
        open_rollouts(environment(), engine=yes, engine_settings=engine_settings) as rollouts,
    ):
        first, second = rollouts.groups([row(), row(agent_ref={"name": "agnt"})], 1)
    (member,) = (member for group in (first, second) for member in group.members if member.mask)
    assert member.mask == "row"
    assert "nearest: 'agent'" in str(member.failure)
    assert "nearest: 'agent'" in caplog.text


@pytest.mark.parametrize("rows", ["rows.jsonl", row(), 3])
def test_what_holds_no_rows_is_refused_at_once(
    environment: Environment, engine_settings: JsonObject, rows: Any
) -> None:
    with open_rollouts(environment(), engine=yes, engine_settings=engine_settings) as rollouts:
        with pytest.raises(ConfigError, match="rows are objects"):
            rollouts.groups(rows, 2)
        with pytest.raises(ConfigError, match="at least one member, not '2'"):
            rollouts.groups([row()], "2")  # type: ignore[arg-type]


def test_an_error_of_the_rows_is_raised_as_it_is(environment: Environment, engine_settings: JsonObject) -> None:
    def rows() -> Iterator[JsonObject]:
        yield row()
        raise ValueError("my rows")

    with (
        open_rollouts(environment(), engine=yes, engine_settings=engine_settings) as rollouts,
        pytest.raises(ValueError, match="my rows"),
    ):
        list(rollouts.groups(rows(), 1))


async def test_a_plain_for_in_a_running_loop_says_how_it_is_read(
    environment: Environment, engine_settings: JsonObject
) -> None:
    """As a cell of a notebook has one."""
    with open_rollouts(environment(), engine=yes, engine_settings=engine_settings) as rollouts:
        with pytest.raises(RequestError, match="read groups by `async for`"):
            list(rollouts.groups([row()], 1))
        assert [group.rewards async for group in rollouts.groups([row()], 1)] == [[1.0]]


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_interrupt_in_the_middle_of_a_stream_ends_it(
    environment: Environment, engine_settings: JsonObject, workers: int
) -> None:
    ended = 0

    async def engine(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        nonlocal ended
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            await asyncio.sleep(3600)
        finally:
            ended += 1
        return completion("yes")

    options = RolloutOptions(workers=workers)
    with open_rollouts(environment(), engine=engine, engine_settings=engine_settings, options=options) as rollouts:
        with pytest.raises(KeyboardInterrupt):
            list(rollouts.groups([row()], 1))
        assert ended == 1
        assert rollouts.run_group({"responses_create_params": 3}, 1).members[0].mask == "row", "it goes on"
