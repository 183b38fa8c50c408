"""Claims about rows of NeMo-RL through our servers: a result for each row, whatever becomes of it."""

import asyncio
import gc
import pickle
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from tests.training.nemo_rl.trainer import StubTrainer, failing, rows

from paddock.errors import ConfigError, InfraError
from paddock.training.nemo_rl.checks import check_group, check_result
from paddock.training.nemo_rl.records import Result
from paddock.training.nemo_rl.serving import EnvironmentService
from paddock.training.nemo_rl.streaming import ResultStream, RowResult, StatusError
from paddock.types import JsonObject


@asynccontextmanager
async def serving(trainer: StubTrainer, **more: Any) -> AsyncIterator[EnvironmentService]:
    service = EnvironmentService()
    service.start(trainer.dictionary(**more))
    try:
        yield service
    finally:
        await asyncio.to_thread(service.close)


async def results(service: EnvironmentService, given: list[JsonObject]) -> list[Result]:
    """By row."""
    done: list[RowResult] = [await one for one in service.run(given)]
    assert all(found.row is given[found.row["_rowidx"]] for found in done), "rows are the trainer's own"
    ordered = {found.row["_rowidx"]: found.result for found in done}
    return [ordered[nth] for nth in range(len(given))]


def reason(result: Result) -> str | None:
    """Why it is masked, where NeMo-RL reads it."""
    config = result["instance_config"]
    return config["mask_reason"] if config["mask_sample"] is True else None


def first_prompt(result: Result) -> list[int]:
    return next(item["prompt_token_ids"] for item in result["response"]["output"] if "prompt_token_ids" in item)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.02)


async def test_each_row_has_a_result_with_the_tokens_that_the_engine_gave(trainer: StubTrainer) -> None:
    async with serving(trainer) as service:
        found = await results(service, rows("yes", "no", size=3))
    assert [result["reward"] for result in found] == [1.0] * 6
    assert [reason(result) for result in found] == [None] * 6
    assert [violation for result in found for violation in check_result(result)] == []
    assert check_group(found[:3], size=3) == check_group(found[3:], size=3) == []
    assert first_prompt(found[0]) != first_prompt(found[3])
    told = sorted(
        (item["prompt_token_ids"], item["generation_token_ids"], item["generation_log_probs"])
        for result in found
        for item in result["response"]["output"]
    )
    assert told == sorted((seen.prompt, seen.sampled, seen.log_probs) for seen in trainer.chat.seen)
    assert len(trainer.lines("rollouts.jsonl")) == 6


async def test_neighbours_with_one_index_are_a_group_and_so_are_equal_ones_without(trainer: StubTrainer) -> None:
    async with serving(trainer) as service:
        indexed = await results(service, rows("yes", "yes", size=2))
        bare = await results(service, rows("yes", "no", size=2, index=None))
    stamps = [result["paddock"] for result in (*indexed, *bare)]
    assert [stamp["_ng_rollout_index"] for stamp in stamps] == [0, 1] * 4
    assert {stamp["_paddock_group_size"] for stamp in stamps} == {2}
    assert [stamp.get("_ng_task_index") for stamp in stamps] == [7, 7, 8, 8, None, None, None, None]
    assert len({stamp["_paddock_cohort"] for stamp in stamps}) == 4
    assert len({stamp["_paddock_run_id"] for stamp in stamps}) == 1


async def test_only_what_means_something_is_a_number_at_the_top(trainer: StubTrainer) -> None:
    async with serving(trainer) as service:
        (result,) = await results(service, rows("yes"))
    numbers = {key: value for key, value in result.items() if isinstance(value, bool | int | float)}
    assert numbers == {"reward": 1.0, "right": 1.0, "masked": False, "broken_splices": 0}


FAILED = {"raise": "verifier", "verifier": "verifier", "infra": "infra", "leak": "leak"}


async def test_what_failed_is_masked_and_its_siblings_are_not(trainer: StubTrainer) -> None:
    wrong = [{"answer": "yes", "grade": grade, "responses_create_params": {"input": "say yes"}} for grade in FAILED]
    async with serving(trainer) as service:
        found = await results(service, rows(*wrong, "yes"))
        masked = service.masked
    assert [reason(result) for result in found] == [*FAILED.values(), None]
    assert [result["reward"] for result in found] == [0.0] * 4 + [1.0]
    assert [violation for result in found for violation in check_result(result)] == []
    assert {tuple(first_prompt(result)) for result in found[:4]} == {(0,)}, "the prompt of no group"
    assert masked == {"infra": 1, "verifier": 2, "leak": 1}
    assert len(trainer.lines("failures.jsonl")) == 7, "a leak is not tried again"


WRONG: list[JsonObject] = [
    {"responses_create_params": {"input": "say yes"}, "answer": "yes", "agent_ref": {"name": "agnet"}},
    {"responses_create_params": {}, "answer": "yes"},
    {"responses_create_params": {"input": "say yes"}, "answer": "yes", "reward": 1.0},
    {"responses_create_params": {"input": "say yes"}},
    {"answer": "yes"},
]
"""An agent that is not there, no input, a result's key, no task, no request."""


async def test_a_row_that_can_not_run_is_masked(trainer: StubTrainer) -> None:
    async with serving(trainer) as service:
        found = await results(service, rows(*WRONG, "yes"))
    assert [reason(result) for result in found] == ["row"] * 5 + [None]
    assert [violation for result in found for violation in check_result(result)] == []
    assert "nearest: 'agent'" in found[0]["paddock"]["failure"]["message"]


async def test_a_failed_call_is_tried_again_and_then_masked(trainer: StubTrainer) -> None:
    trainer.chat.fault = failing(0, 2, 3)
    async with serving(trainer) as service:
        (again,) = await results(service, rows("yes"))
        (given_up,) = await results(service, rows("yes"))
    assert (reason(again), again["paddock"]["_ng_attempt_index"]) == (None, 1)
    assert (reason(given_up), given_up["reward"]) == ("infra", 0.0)


async def test_what_the_policy_did_not_sample_on_policy_never_trains(trainer: StubTrainer) -> None:
    given = rows("yes")
    given[0]["responses_create_params"]["temperature"] = 0.5
    async with serving(trainer) as service:
        (result,) = await results(service, given)
    assert reason(result) == "infra"
    assert "temperature" in trainer.chat.refused[0]


async def test_when_one_wait_is_cancelled_all_rollouts_of_the_call_end(trainer: StubTrainer) -> None:
    trainer.engine.gate = asyncio.Event()
    async with serving(trainer) as service:
        stream = service.run(rows("something quite long to say", size=4))
        waiting = asyncio.ensure_future(_first(stream))
        await until(lambda: trainer.engine.n_started == 4)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(lambda: trainer.engine.n_cancelled == 4)
        trainer.engine.gate = None
        assert reason((await results(service, rows("yes")))[0]) is None, "the servers go on"
    assert len(trainer.lines("rollouts.jsonl")) == 1


async def test_what_nobody_waits_for_any_more_ends(trainer: StubTrainer) -> None:
    trainer.engine.gate = asyncio.Event()
    async with serving(trainer) as service:
        stream = service.run(rows("something quite long to say", size=2))
        await until(lambda: trainer.engine.n_started == 2)
        del stream
        gc.collect()
        await until(lambda: trainer.engine.n_cancelled == 2)


async def test_who_waits_when_the_environment_is_shut_down_is_told(trainer: StubTrainer) -> None:
    trainer.engine.gate = asyncio.Event()
    async with serving(trainer) as service:
        waiting = asyncio.ensure_future(_first(service.run(rows("something quite long to say", size=2))))
        await until(lambda: trainer.engine.n_started == 2)
    with pytest.raises(StatusError, match="shut down"):
        await waiting
    await until(lambda: trainer.engine.n_cancelled == 2)
    assert trainer.lines("failures.jsonl") == []


async def test_awaitables_may_be_taken_all_at_once(trainer: StubTrainer) -> None:
    async with serving(trainer) as service:
        done = await asyncio.gather(*service.run(rows("yes", size=3)))
    assert sorted(one.row["_rowidx"] for one in done) == [0, 1, 2]


async def test_a_limit_lets_rollouts_in_by_groups(trainer: StubTrainer) -> None:
    said = {**trainer.dictionary()["eval"], "concurrency": 2}
    trainer.engine.gate = asyncio.Event()
    async with serving(trainer, eval=said) as service:
        stream = service.run(rows("something quite long to say", "another thing", size=2))
        await until(lambda: trainer.engine.n_started == 2)
        await asyncio.sleep(0.1)
        assert trainer.engine.n_started == 2
        trainer.engine.gate.set()
        found = [await one for one in stream]
    assert len(found) == 4


async def test_members_that_are_judged_together_are_let_in_together(trainer: StubTrainer) -> None:
    judged = {
        "environment": {
            "resources_servers": {"genrm": {"genrm_model_server": {"type": "models_servers", "name": "judge"}}}
        },
        "judge": {"models_servers": {"paddock.testing.judges:ScriptedJudge": {"prefers": "longer"}}},
    }
    given = rows({"responses_create_params": {"input": "say yes"}}, size=3)
    said = {**trainer.dictionary()["eval"], "concurrency": 2}
    async with serving(trainer, **judged, eval=said) as service:
        with pytest.raises(StatusError, match="judges the 3 rollouts of a row together") as raised:
            service.run(given)
        assert raised.value.status == 400
    said["concurrency"] = 3
    async with serving(trainer, **judged, eval=said) as service:
        found = await results(service, given)
    assert [reason(result) for result in found] == [None] * 3
    assert len({result["reward"] for result in found}) == 1, "they said the same"


async def test_what_was_never_started_says_so() -> None:
    service = EnvironmentService()
    with pytest.raises(InfraError, match="not started, or this is an actor that Ray restarted"):
        service.poll()
    with pytest.raises(InfraError, match="not started"):
        service.run(rows("yes"))
    service.close()


async def test_what_was_closed_holds_nothing(trainer: StubTrainer) -> None:
    async with serving(trainer) as service:
        service.poll()
    with pytest.raises(InfraError):
        service.poll()


async def test_what_fails_all_is_raised_with_a_status_and_ends_the_rest() -> None:
    loop = asyncio.get_running_loop()
    work: list[asyncio.Future[Result]] = [loop.create_future(), loop.create_future()]
    work[0].set_exception(InfraError("the disk is full", kind="disk"))
    with pytest.raises(StatusError, match="disk: the disk is full") as raised:
        await _first(ResultStream(rows("yes", "no"), work))
    assert work[1].cancelled()
    again: StatusError = pickle.loads(pickle.dumps(raised.value))
    assert (again.status, str(again)) == (503, "disk: the disk is full")
    assert orjson.loads(again.response_content)["error"]["kind"] == "disk"


async def test_a_folder_that_can_not_be_made_is_refused_before_anything_starts(trainer: StubTrainer) -> None:
    trainer.folder.write_text("a file")
    with pytest.raises(ConfigError, match=r"eval\.out"):
        EnvironmentService().start(trainer.dictionary())


async def _first(stream: Any) -> RowResult:
    done: RowResult = await next(stream)
    return done
