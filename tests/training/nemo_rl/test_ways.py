"""Claims about both ways into NeMo-RL: its calls of `nemo_gym`, and its calls of an actor, give the same."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.training.nemo_rl.trainer import SCRIPTED, StubTokenizer, StubTrainer, asking, rows

from paddock.errors import ConfigError, InfraError
from paddock.testing.vocabularies import small_vocabulary
from paddock.training.nemo_rl.actor import GymActor
from paddock.training.nemo_rl.checks import check_group, check_result
from paddock.training.nemo_rl.message_log import TensorMakers
from paddock.training.nemo_rl.postprocess import postprocess
from paddock.types import JsonObject

ROOT = Path(__file__).parents[3]
DRIVER = Path(__file__).with_name("drive_shim.py")
GIVEN = rows("yes", {**asking("no"), "answer": "yes"}, {**asking("yes"), "grade": "verifier"}, size=2)
"""Right, wrong, not judged."""
Streamed = list[tuple[int, JsonObject, dict[str, float] | None]]


def config(trainer: StubTrainer, **more: Any) -> JsonObject:
    """Of the actor, as `spinup_nemo_gym_actor` makes it."""
    body = trainer.dictionary()
    for added in ("policy_base_url", "policy_api_key", "policy_model_name"):
        del body[added]
    return {
        "model_name": "policy",
        "base_urls": [trainer.chat.url],
        "initial_global_config_dict": body,
        "invalid_tool_call_patterns": None,
        "thinking_tags": None,
        "require_routed_experts": False,
        "routed_experts_dtype": "int16",
        "use_fastokens": False,
        **more,
    }


async def stream(actor: GymActor, given: list[JsonObject]) -> Streamed:
    return [one async for one in actor.run_rollouts(given, "timing/rollout")]


async def by_actor(trainer: StubTrainer, given: list[JsonObject], **more: Any) -> Streamed:
    actor = GymActor(config(trainer, **more), TensorMakers(list, list))
    actor._spinup()
    actor.set_tokenizer(StubTokenizer())
    try:
        actor.health_check()
        return await stream(actor, given)
    finally:
        await asyncio.to_thread(actor.shutdown)


async def by_shim(dictionary: JsonObject, given: list[JsonObject]) -> JsonObject:
    def called() -> str:
        return subprocess.run(
            [sys.executable, DRIVER],
            input=json.dumps({"dictionary": dictionary, "rows": given}),
            env={**os.environ, "PYTHONPATH": str(ROOT / "shims")},
            capture_output=True,
            text=True,
            timeout=250,
            check=True,
        ).stdout

    told: JsonObject = json.loads(await asyncio.to_thread(called))
    return told


def summary(result: JsonObject) -> JsonObject:
    """A result without what is another in each run, and without ids."""
    own = {key: value for key, value in result.items() if key not in ("paddock", "response")}
    stamps = {key: result["paddock"].get(key) for key in ("_ng_task_index", "_ng_rollout_index", "outcome")}
    texts = [item.get("content") for item in result["response"]["output"]]
    return {**own, "stamps": stamps, "texts": texts}


@pytest.mark.slow
async def test_both_ways_give_the_same_and_a_dead_server_is_told(trainer: StubTrainer) -> None:
    apart = {
        "environment": {"resources_servers": {SCRIPTED: {"python": sys.executable}}},
        "serve": {"max_restarts": 0, "start_timeout_s": 100},
    }
    told = await by_shim(trainer.dictionary(**apart), GIVEN)
    streamed = await by_actor(trainer, GIVEN)
    assert [name for name, _ in told["results"]] == ["agent"] * 6
    theirs = [result for _, result in told["results"]]
    ours = {nth: given for nth, given, _ in streamed}
    assert sorted(ours) == list(range(6))
    for nth, result in enumerate(theirs):
        assert check_result(result) == []
        logged = ours[nth]["message_log"]
        made = postprocess(result)
        assert [(one["role"], one["token_ids"]) for one in logged] == [
            (message.role, message.token_ids) for message in made.messages
        ]
        assert logged[1]["generation_logprobs"] == made.messages[1].generation_log_probs
        assert summary(result) == summary(ours[nth]["full_result"])
    assert [result["reward"] for result in theirs] == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert [result["instance_config"]["mask_sample"] for result in theirs] == [False] * 4 + [True] * 2
    assert check_group(theirs[:2], size=2) == check_group(theirs[2:4], size=2) == []
    assert "environment: its process" in told["gone"]
    assert (told["status"], json.loads(told["content"])["error"]["owner"]) == (503, "infra")
    assert told["left"] == []


async def test_what_the_actor_streams_is_in_the_trainers_form(trainer: StubTrainer) -> None:
    streamed = await by_actor(trainer, rows("yes", size=3))
    assert [timing is None for _, _, timing in streamed] == [True, True, False]
    assert set(streamed[-1][2] or {}) == {
        f"timing/rollout/{name}" for name in ("await_results", "postprocess_results", "postprocess_results_pct")
    }
    for _, given, _ in streamed:
        assert set(given) == {"message_log", "input_message_log", "full_result"}
        user, assistant = given["message_log"]
        assert given["input_message_log"] == [user]
        assert set(user) == {"role", "content", "token_ids"}
        flags = {name: assistant[name] for name in ("is_invalid_tool_call", "has_malformed_thinking", "content")}
        assert flags == {"is_invalid_tool_call": False, "has_malformed_thinking": False, "content": ""}
        (item,) = given["full_result"]["response"]["output"]
        assert item["prompt_str"] == small_vocabulary().decode(user["token_ids"])
        assert item["generation_str"] == small_vocabulary().decode(assistant["token_ids"])
        assert not {"prompt_token_ids", "generation_token_ids", "generation_log_probs"} & set(item)
        json.dumps(given["full_result"])


async def test_flags_are_raised_by_the_patterns_that_were_given(trainer: StubTrainer) -> None:
    ((_, given, _),) = await by_actor(trainer, rows("yes"), invalid_tool_call_patterns=["ye"], thinking_tags=["s"])
    assert given["message_log"][1]["is_invalid_tool_call"]
    assert given["message_log"][1]["has_malformed_thinking"]


async def test_a_stream_that_is_left_ends_its_rollouts(trainer: StubTrainer) -> None:
    trainer.engine.gate = asyncio.Event()
    actor = GymActor(config(trainer), TensorMakers(list, list))
    actor._spinup()
    actor.set_tokenizer(StubTokenizer())
    task = asyncio.create_task(stream(actor, rows("something quite long to say", size=3)))
    async with asyncio.timeout(60):
        while trainer.engine.n_started < 3:
            await asyncio.sleep(0.02)
        task.cancel()
        while trainer.engine.n_cancelled < 3:
            await asyncio.sleep(0.02)
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(actor.shutdown)


async def test_an_actor_that_was_made_anew_says_what_happened(trainer: StubTrainer) -> None:
    actor = GymActor(config(trainer), TensorMakers(list, list))
    actor.set_tokenizer(StubTokenizer())
    with pytest.raises(InfraError, match="Ray restarted"):
        await stream(actor, rows("yes"))
    with pytest.raises(InfraError, match="Ray restarted"):
        actor.health_check()
    actor.shutdown()


async def test_without_a_tokenizer_or_rows_there_is_no_rollout(trainer: StubTrainer) -> None:
    actor = GymActor(config(trainer), TensorMakers(list, list))
    actor._spinup()
    try:
        with pytest.raises(InfraError, match="set_tokenizer"):
            await stream(actor, rows("yes"))
        with pytest.raises(ValueError, match="needs a row"):
            await stream(actor, [])
    finally:
        await asyncio.to_thread(actor.shutdown)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"require_routed_experts": True}, "router_replay"),
        ({"tokenizer_config": {"name": "m"}}, "images"),
        ({"base_url": "http://x"}, "base_url"),
    ],
)
def test_what_can_not_be_given_is_refused_before_anything_starts(change: JsonObject, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        GymActor({"model_name": "m", "base_urls": [], **change})._spinup()
