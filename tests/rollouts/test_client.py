"""Claims about the interface for trainers: groups, masks, exact samples, back-pressure, and clean ends."""

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.rollouts.conftest import Environment, completion, row

import paddock
from paddock.errors import ConfigError, InfraError, RequestError
from paddock.rollouts import Completion, RolloutOptions, open_rollouts
from paddock.types import JsonObject


async def yes(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
    return completion("yes", 7)


def test_a_group_has_rewards_and_the_ids_that_the_engine_saw(
    environment: Environment, engine_settings: JsonObject
) -> None:
    asked: list[list[int]] = []

    async def engine(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        asked.append(ids)
        return completion("yes" if len(asked) % 2 else "no", 7)

    with open_rollouts(environment(), engine=engine, engine_settings=engine_settings) as rollouts:
        group = rollouts.run_group(row(), 4)
    assert sorted(group.rewards) == [0.0, 0.0, 1.0, 1.0]
    assert [member.member for member in group.members] == [0, 1, 2, 3]
    for member in group.members:
        (entry,) = member.samples
        said = completion("yes" if member.reward else "no")
        assert entry.sample.ids == [*asked[0], *said.ids]
        assert entry.sample.loss_mask == [0] * len(asked[0]) + [1] * len(said.ids)
        assert entry.sample.log_probs[len(asked[0]) :] == said.log_probs
        assert [span.weight_version for span in entry.sample.spans if span.trained] == ["7"]
        assert member.metrics["right"] == member.reward


@pytest.mark.parametrize(("grade", "mask"), [("infra", "infra"), ("verifier", "verifier"), ("leak", "leak")])
def test_a_failed_member_has_no_reward_and_says_why(
    environment: Environment, engine_settings: JsonObject, grade: str, mask: str
) -> None:
    with open_rollouts(environment(), engine=yes, engine_settings=engine_settings) as rollouts:
        group = rollouts.run_group(row(grade=grade), 2)
        unreadable = rollouts.run_group({"responses_create_params": 3}, 2)
    assert group.rewards == [None, None]
    assert [member.mask for member in group.members] == [mask, mask]
    assert group.trainable == []
    assert all(not member.samples and member.failure for member in group.members)
    assert [member.mask for member in unreadable.members] == ["row", "row"]


def test_a_member_that_failed_is_run_anew_as_often_as_is_asked(
    environment: Environment, engine_settings: JsonObject
) -> None:
    calls: Counter[str | None] = Counter()

    async def engine(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        calls[rollout] += 1
        if len(calls) <= 2:
            raise OSError("the engine's machine died")
        return completion("yes")

    def rewards(max_rerolls: int) -> list[float | None]:
        calls.clear()
        options = RolloutOptions(max_rerolls=max_rerolls)
        with open_rollouts(environment(), engine=engine, engine_settings=engine_settings, options=options) as rollouts:
            found: list[float | None] = rollouts.run_group(row(), 3).rewards
            return found

    assert sorted(rewards(0), key=str) == [1.0, None, None]
    assert rewards(1) == [1.0, 1.0, 1.0]


def test_samples_are_those_of_the_command(
    environment: Environment, engine_settings: JsonObject, tmp_path: Path
) -> None:
    options = RolloutOptions(out=str(tmp_path / "runs"))
    with open_rollouts(environment(), engine=yes, engine_settings=engine_settings, options=options) as rollouts:
        groups = list(rollouts.groups([row(), row("no"), row(grade="infra")], 2))
        folder = tmp_path / "runs" / rollouts.folder_name
    command = [sys.executable, "-m", "paddock", "samples", str(folder)]
    lines = subprocess.run(command, check=True, capture_output=True).stdout.splitlines()
    ours = [entry.to_wire() for group in groups for member in group.members for entry in member.samples]
    key = orjson.dumps
    assert sorted(lines) == sorted(key(wire) for wire in ours)
    assert len(lines) == 4


async def test_a_stream_that_is_not_read_holds_the_others_back(
    environment: Environment, engine_settings: JsonObject
) -> None:
    asked = 0

    async def engine(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        nonlocal asked
        asked += 1
        return completion("yes")

    options = RolloutOptions(max_groups=2)
    async with open_rollouts(
        environment(), engine=engine, engine_settings=engine_settings, options=options
    ) as rollouts:
        stream = aiter(rollouts.groups([row()] * 6, 3))
        await anext(stream)
        await asyncio.sleep(0.5)
        assert asked <= 3 * (2 + 1)
        rest = [group async for group in stream]
    assert asked == 18
    assert len(rest) == 5


async def test_leaving_a_stream_ends_what_it_began(environment: Environment, engine_settings: JsonObject) -> None:
    ended: list[str] = []
    first = asyncio.Event()

    async def engine(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        if not first.is_set():
            first.set()
            return completion("yes")
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return completion("no")

    async with open_rollouts(environment(), engine=engine, engine_settings=engine_settings) as rollouts:
        async for group in rollouts.groups([row()] * 4, 1):
            assert group.rewards == [1.0]
            break
        async with asyncio.timeout(10):
            while len(ended) < 3:
                await asyncio.sleep(0.01)


async def test_while_paused_the_engine_is_not_called(environment: Environment, engine_settings: JsonObject) -> None:
    asked: list[str | None] = []

    async def engine(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        asked.append(rollout)
        return completion("yes")

    async with open_rollouts(environment(), engine=engine, engine_settings=engine_settings) as rollouts:
        await rollouts.pause()
        task = asyncio.ensure_future(rollouts.run_group(row(), 2))
        await asyncio.sleep(0.3)
        assert asked == []
        await rollouts.announce_weights(12)
        await rollouts.resume()
        group = await task
    assert len(asked) == 2
    spans = group.members[0].samples[0].sample.spans
    assert [span.weight_version for span in spans if span.trained] == ["12"]


def test_the_engine_is_called_in_the_trainers_loop(environment: Environment, engine_settings: JsonObject) -> None:
    threads: set[int] = set()

    async def engine(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        threads.add(threading.get_ident())
        return completion("yes")

    async def train() -> list[float | None]:
        async with open_rollouts(environment(), engine=engine, engine_settings=engine_settings) as rollouts:
            found: list[float | None] = (await rollouts.run_group(row(), 2)).rewards
            return found

    assert asyncio.run(train()) == [1.0, 1.0]
    assert threads == {threading.get_ident()}


def test_members_may_be_asked_for_one_by_one(environment: Environment, engine_settings: JsonObject) -> None:
    with open_rollouts(environment(), engine=yes, engine_settings=engine_settings) as rollouts:
        members = [rollouts.run_member(row(), member=nth, size=3, index=5, group="a") for nth in range(3)]
    assert [member.member for member in members] == [0, 1, 2]
    stamps = [member.rollout.row.stamp for member in members]
    assert {(stamp.group_id, stamp.group_size, stamp.cohort) for stamp in stamps} == {(5, 3, "a")}


def test_a_row_may_be_run_anew_while_it_runs(environment: Environment, engine_settings: JsonObject) -> None:
    async def train() -> list[float | None]:
        async with open_rollouts(environment(), engine=yes, engine_settings=engine_settings) as rollouts:
            asked = [rollouts.run_member(row(), member=0, size=2, index=5, group=name) for name in "ab"]
            return [member.reward for member in await asyncio.gather(*asked)]

    assert asyncio.run(train()) == [1.0, 1.0]


def test_what_is_no_group_is_said(environment: Environment, engine_settings: JsonObject) -> None:
    not_a_row: Any = [row()]
    with open_rollouts(environment(), engine=yes, engine_settings=engine_settings) as rollouts:
        with pytest.raises(ConfigError, match="a row is an object"):
            rollouts.run_group(not_a_row, 1)
        with pytest.raises(ConfigError, match="at least one member"):
            rollouts.run_group(row(), 0)
        with pytest.raises(ConfigError, match="no member 2"):
            rollouts.run_member(row(), member=2, size=2)
        unreadable = rollouts.run_group({"responses_create_params": 3}, 1).members[0]
    assert "responses_create_params" in str(unreadable.failure)


def test_leaving_a_stream_and_its_client_by_an_error_says_that_error(
    environment: Environment, engine_settings: JsonObject
) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        open_rollouts(environment(), engine=yes, engine_settings=engine_settings) as rollouts,
    ):
        for group in rollouts.groups([row()] * 4, 1):
            assert len(group.members) / 0 == 1


def test_after_its_end_it_says_so(environment: Environment, engine_settings: JsonObject) -> None:
    rollouts = open_rollouts(environment(), engine=yes, engine_settings=engine_settings)
    rollouts.close()
    with pytest.raises(RequestError, match="closed"):
        rollouts.run_group(row(), 1)


def test_closing_ends_rollouts_that_run(environment: Environment, engine_settings: JsonObject) -> None:
    started = threading.Event()

    async def engine(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        started.set()
        await asyncio.sleep(3600)
        return completion("yes")

    rollouts = open_rollouts(environment(), engine=engine, engine_settings=engine_settings)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            rollouts.run_group(row(), 1)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(30)
    rollouts.close()
    thread.join(30)
    assert isinstance(errors[0], InfraError)
    assert errors[0].kind == "shut_down"


@pytest.mark.parametrize(
    ("settings", "kind"),
    [({"tokenizer": "/no/folder"}, "tokenizer_missing"), ({"tool_parser": "klingon"}, "parser_unknown")],
)
def test_what_an_engine_lacks_is_said_at_once(
    environment: Environment, engine_settings: JsonObject, settings: JsonObject, kind: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        open_rollouts(environment(), engine=yes, engine_settings={**engine_settings, **settings})
    assert raised.value.kind == kind


def test_what_is_public_can_be_imported() -> None:
    found: dict[str, Any] = {name: getattr(paddock, name) for name in paddock.__all__}
    assert found["open_rollouts"] is open_rollouts


@pytest.mark.parametrize("name", ["policy_model", "environment", "nobody"])
def test_only_a_vllm_has_replicas(environment: Environment, engine_settings: JsonObject, name: str) -> None:
    refusal = pytest.raises(ConfigError, match=f"`{name}` .*: weights are sent to a model server `vllm`")
    with open_rollouts(environment(), engine=yes, engine_settings=engine_settings) as rollouts, refusal as refused:
        rollouts.replicas(name)
    assert refused.value.kind == "no_replicas"
