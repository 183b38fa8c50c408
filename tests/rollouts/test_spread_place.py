"""Claims about a trainer's rollouts in worker processes: each member ends once, as in one process, whatever becomes of
the workers; and nothing is left of them."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import orjson
import psutil
import pytest
from tests.collect.test_workers import until, workers
from tests.rollouts.conftest import Environment, completion, row

from paddock.config import Config, load
from paddock.config.yaml_text import parse
from paddock.conformance.scripted import ScriptedEnvironment
from paddock.errors import ConfigError, InfraError
from paddock.rollouts import Completion, RolloutGroup, RolloutOptions, open_rollouts
from paddock.server.runtime import open_runtime
from paddock.types import JsonObject, WeightSpan

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
ROOT = Path(__file__).parents[2]
TWO = RolloutOptions(workers=2)
TRAINER = """
import asyncio, sys
from pathlib import Path
import orjson
from paddock.config import Config
from paddock.rollouts import RolloutOptions, open_rollouts

async def sample(ids, sampling, *, rollout):
    print("asked", flush=True)
    await asyncio.sleep(3600)

config, row, settings = map(orjson.loads, Path(sys.argv[1]).read_bytes().splitlines())
config, two = Config.from_yaml(config), RolloutOptions(workers=2)
with open_rollouts(config, engine=sample, engine_settings=settings, options=two) as rollouts:
    rollouts.run_group(row, 4)
"""


@pytest.fixture(autouse=True)
def _plugins_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)


class JudgingEnvironment(ScriptedEnvironment):
    """Says that it compares the members of a group."""

    GROUP_WISE: ClassVar[bool] = True


def with_blocks(config: Config, blocks: JsonObject) -> Config:
    return load([], extra={**parse(config.to_yaml(), "config").tree, **blocks})


async def yes(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
    return completion("yes", 7)


def marked_rows(draw: random.Random, count: int) -> list[JsonObject]:
    """Rows of which some are right with `yes`, some wrong, some fail, and some can't be read."""
    kinds: list[JsonObject] = [row(), row("no"), row(grade="leak"), row(grade="verifier")]
    rows = [{**draw.choice(kinds), "mark": nth} for nth in range(count)]
    return [{"responses_create_params": 3} if draw.random() < 0.1 else one for one in rows]


def seen(groups: list[RolloutGroup]) -> Counter[Any]:
    """Each member with all that is the same wherever it runs."""
    return Counter(
        (
            group.row_index,
            member.member,
            member.outcome,
            member.reward,
            member.mask,
            member.failure,
            tuple(tuple(entry.sample.ids) for entry in member.samples),
            member.rollout.row.task.get("mark") if member.rollout is not None else None,
        )
        for group in groups
        for member in group.members
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_has_each_member_once_as_in_one_process(
    environment: Environment, engine_settings: JsonObject, seed: int
) -> None:
    draw = random.Random(seed)
    rows, size = marked_rows(draw, draw.randint(5, 25)), draw.randint(1, 4)
    found = []
    for options in (RolloutOptions(), TWO.model_copy(update={"max_rollouts": draw.randint(size, 16)})):
        with open_rollouts(environment(), engine=yes, engine_settings=engine_settings, options=options) as rollouts:
            found.append(seen(list(rollouts.groups(rows, size))))
    assert found[1] == found[0]
    assert set(found[0].values()) == {1}
    assert len(found[0]) == len(rows) * size
    assert workers() == []


def test_a_long_answer_and_its_versions_come_whole(environment: Environment, engine_settings: JsonObject) -> None:
    answer, log_probs = [*completion("yes").ids[:1]] * 4000, [-1 / (nth + 3) for nth in range(4000)]
    asked: list[JsonObject] = []

    async def engine(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> AsyncIterator[Completion]:
        asked.append(sampling)
        yield Completion(answer[:3000], log_probs[:3000], None)
        spans = [WeightSpan(version="1", start=0, end=10), WeightSpan(version="2", start=10, end=4000)]
        yield Completion(answer[3000:], log_probs[3000:], "length", weight_versions=spans)

    given = row()
    given["responses_create_params"]["temperature"] = 0.5
    with open_rollouts(environment(), engine=engine, engine_settings=engine_settings, options=TWO) as rollouts:
        sample = rollouts.run_group(given, 1).members[0].samples[0].sample
    assert (sample.ids[-4000:], sample.log_probs[-4000:]) == (answer, log_probs)
    spans = [(span.weight_version, span.end - span.start) for span in sample.spans if span.trained]
    assert spans == [("1", 10), ("2", 3990)]
    assert asked[0]["temperature"] == 0.5


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_workers_that_are_killed_cost_no_member(
    environment: Environment, engine_settings: JsonObject, seed: int, tmp_path: Path
) -> None:
    """In the middle of a stream, each of them once or more."""
    draw, killed = random.Random(seed), 0

    async def engine(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        await asyncio.sleep(draw.random() / 20)
        return completion("yes")

    options = TWO.model_copy(update={"max_rollouts": 8, "out": str(tmp_path / "runs")})
    groups = []
    with open_rollouts(
        environment(max_attempts=9), engine=engine, engine_settings=engine_settings, options=options
    ) as rollouts:
        for group in rollouts.groups([{**row(), "mark": nth} for nth in range(40)], 4):
            groups.append(group)
            if len(groups) % 10 == 3:
                os.kill(draw.choice(workers()).pid, signal.SIGKILL)
                killed += 1
        failures = (tmp_path / "runs" / rollouts.folder_name / "failures.jsonl").read_bytes().splitlines()
    assert killed == 4
    found = seen(groups)
    assert set(found.values()) == {1}
    assert len(found) == 160
    assert {key[3] for key in found} == {1.0}
    kinds = Counter(orjson.loads(line)["kind"] for line in failures)
    assert set(kinds) == {"worker_lost"}
    assert 1 <= kinds["worker_lost"] <= killed * 8
    assert workers() == []


def test_a_member_whose_workers_are_all_lost_has_failed_by_the_machine(
    environment: Environment, engine_settings: JsonObject
) -> None:
    async def engine(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        for worker in workers():
            os.kill(worker.pid, signal.SIGKILL)
        await asyncio.sleep(3600)
        return completion("yes")

    with open_rollouts(environment(max_attempts=2), engine=engine, engine_settings=engine_settings, options=TWO) as one:
        member = one.run_group(row(), 1).members[0]
    assert (member.outcome, member.reward, member.mask) == ("infra", None, "infra")
    assert "worker_lost" in str(member.failure)
    assert member.rollout is not None and member.rollout.row.task["answer"] == "yes"


async def test_while_paused_no_worker_asks_the_engine_and_weights_reach_all(
    environment: Environment, engine_settings: JsonObject
) -> None:
    asked: list[str | None] = []

    async def engine(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        asked.append(rollout)
        assert threading.current_thread() is threading.main_thread()
        return completion("yes")

    async with open_rollouts(environment(), engine=engine, engine_settings=engine_settings, options=TWO) as rollouts:
        await rollouts.announce_weights(12)
        await rollouts.run_group(row(), 4)
        before = len(asked)
        await rollouts.pause()
        task = asyncio.ensure_future(rollouts.run_group(row(), 8))
        await asyncio.sleep(0.5)
        assert len(asked) == before == 4
        await rollouts.announce_weights(13)
        await rollouts.resume()
        group = await task
    versions = [span.weight_version for member in group.members for span in member.samples[0].sample.spans]
    assert set(versions) == {"13"}
    assert len(set(asked)) == 12


async def test_leaving_a_stream_ends_what_workers_run(environment: Environment, engine_settings: JsonObject) -> None:
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

    async with open_rollouts(environment(), engine=engine, engine_settings=engine_settings, options=TWO) as rollouts:
        async for group in rollouts.groups([row()] * 4, 1):
            assert group.rewards == [1.0]
            break
        await until(lambda: len(ended) == 3)
        assert len(workers()) == 2, "they go on"
        first.clear()
        assert (await rollouts.run_group(row(), 1)).rewards == [1.0]


async def test_a_stream_that_is_not_read_holds_workers_back(
    environment: Environment, engine_settings: JsonObject
) -> None:
    asked = 0

    async def engine(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        nonlocal asked
        asked += 1
        return completion("yes")

    options = RolloutOptions(workers=2, max_groups=2)
    async with open_rollouts(
        environment(), engine=engine, engine_settings=engine_settings, options=options
    ) as rollouts:
        stream = aiter(rollouts.groups([row()] * 6, 3))
        await anext(stream)
        await asyncio.sleep(0.5)
        assert asked <= 3 * (2 + 1)
        assert len([group async for group in stream]) == 5
    assert asked == 18


def test_closing_ends_what_workers_run(environment: Environment, engine_settings: JsonObject) -> None:
    started = threading.Event()

    async def engine(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        started.set()
        await asyncio.sleep(3600)
        return completion("yes")

    rollouts = open_rollouts(environment(), engine=engine, engine_settings=engine_settings, options=TWO)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            rollouts.run_group(row(), 4)
        except InfraError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(30)
    rollouts.close()
    assert workers() == []
    thread.join(30)
    assert [getattr(error, "kind", None) for error in errors] == ["shut_down"]


def test_a_trainer_that_is_killed_leaves_no_worker(
    environment: Environment, engine_settings: JsonObject, tmp_path: Path
) -> None:
    given = tmp_path / "given.jsonl"
    given.write_bytes(b"\n".join(map(orjson.dumps, (environment().to_yaml(), row(), engine_settings))))
    with subprocess.Popen([sys.executable, "-c", TRAINER, str(given)], stdout=subprocess.PIPE) as trainer:
        assert trainer.stdout is not None
        assert [trainer.stdout.readline() for _ in range(4)] == [b"asked\n"] * 4
        below = psutil.Process(trainer.pid).children(recursive=True)
        trainer.kill()
    assert len(below) >= 4
    _, alive = psutil.wait_procs(below, 20)
    assert alive == []


async def test_servers_that_run_already_serve_all_workers(
    environment: Environment, engine_settings: JsonObject
) -> None:
    config = environment()
    async with open_runtime(config, names=["environment"], listen=True, token="of-the-servers") as runtime:
        url = str(runtime.servers["environment"].url)
        opened = open_rollouts(
            config,
            engine=yes,
            engine_settings=engine_settings,
            options=TWO,
            servers={"environment": url},
            token="of-the-servers",
        )
        async with opened as rollouts:
            assert (await rollouts.run_group(row(), 4)).rewards == [1.0] * 4


def test_the_config_s_own_model_server_may_sample(environment: Environment) -> None:
    model: JsonObject = {"models_servers": {"paddock.conformance.scripted:ScriptedModel": {}}}
    config = with_blocks(environment(), {"policy_model": model})
    with open_rollouts(config, options=TWO) as rollouts:
        group = rollouts.run_group(row(), 4)
    assert group.rewards == [1.0] * 4
    assert [member.mask for member in group.members] == ["not_exact"] * 4


@pytest.mark.parametrize("options", [{"cluster": "nowhere"}, {"workers": 0}])
def test_options_that_can_t_be_are_refused(environment: Environment, options: JsonObject) -> None:
    config = with_blocks(environment(), {"rollouts": options})
    with pytest.raises(ConfigError, match=f"rollouts.{next(iter(options))}"):
        open_rollouts(config, engine=yes)


def test_what_needs_one_process_is_refused_at_the_start(environment: Environment, engine_settings: JsonObject) -> None:
    judging: JsonObject = {"resources_servers": {f"{__name__}:JudgingEnvironment": {}}}
    config = with_blocks(environment(), {"environment": judging})
    with pytest.raises(ConfigError, match="judges the rollouts of a row together") as raised:
        open_rollouts(config, engine=yes, engine_settings=engine_settings, options=TWO)
    assert raised.value.kind == "not_spread"
    assert workers() == []
