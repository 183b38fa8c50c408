"""VllmEngine against a scripted server: what it samples, what it refuses, what it tries again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.vllm import EOS, Fault, ScriptedVllm, experts_of, log_prob, sampled

from paddock.errors import ConfigError, InfraError, PaddockError, RequestError
from paddock.http import Call
from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.engine import VllmEngine
from paddock.server.exact.engine import Chunk
from paddock.types import RoutedExperts, WeightSpan

PROMPT = [11, 12, 13]
FAST = {"first_retry_s": 0.01, "max_retry_s": 0.02, "health_interval_s": 0.05, "health_timeout_s": 0.5}


@asynccontextmanager
async def engine_of(vllm: ScriptedVllm, **fields: Any) -> AsyncIterator[VllmEngine]:
    config = VllmConfig(**{"base_url": vllm.url + "/v1", "model": "scripted", **FAST, **fields})
    engine = VllmEngine(config, name="policy")
    try:
        await engine.start()
        yield engine
    finally:
        await engine.stop()


async def answer(
    engine: VllmEngine, call: Call | None = None, prompt: list[int] = PROMPT, *, stream: bool = True, **params: Any
) -> Chunk:
    """All chunks as one."""
    chunks = [chunk async for chunk in engine.generate(prompt, params, call or Call(), rollout="s", stream=stream)]
    assert all(chunk.finish_reason is None for chunk in chunks[:-1])
    ids = [one for chunk in chunks for one in chunk.ids]
    return chunks[-1]._replace(ids=ids, log_probs=[value for chunk in chunks for value in chunk.log_probs])


def nth_call(fault: Fault, *numbers: int) -> Callable[[int], Fault | None]:
    """The fault of these calls, from 0; the two start-up checks are not counted."""
    return lambda nth: fault if nth - 2 in numbers else None


@pytest.mark.parametrize("stream", [True, False])
async def test_ids_and_log_probs_come_as_they_were_sampled(*, stream: bool) -> None:
    async with ScriptedVllm() as vllm, engine_of(vllm) as engine:
        found = await answer(engine, stream=stream)
        assert [body["stream"] for body in vllm.bodies] == [stream]
    assert found.ids == sampled(PROMPT, 8)
    assert found.ids[-1] == EOS
    assert found.log_probs == [log_prob(token) for token in found.ids]
    assert found.finish_reason == "stop"
    assert found.versions == (WeightSpan(version="7", start=0, end=8),)
    assert found.cached_tokens == 4


async def test_chunks_come_while_the_rest_is_being_sampled() -> None:
    async with ScriptedVllm(chunk_delay_s=0.05) as vllm, engine_of(vllm) as engine:
        stream = engine.generate(PROMPT, {}, Call(), rollout=None)
        first = await anext(stream)
        assert len(first.ids) < 8
        assert first.finish_reason is None
        await stream.aclose()


async def test_closing_the_generator_ends_the_sampling() -> None:
    async with ScriptedVllm(chunk_delay_s=0.05, count=200) as vllm, engine_of(vllm) as engine:
        stream = engine.generate(PROMPT, {}, Call(), rollout=None)
        await anext(stream)
        await stream.aclose()
        async with asyncio.timeout(2):
            while not vllm.cut_off:
                await asyncio.sleep(0.01)
        assert engine.replicas.all[0].running == 0


async def test_a_whole_answer_that_nobody_waits_for_is_not_sampled() -> None:
    async with ScriptedVllm(chunk_delay_s=0.05, count=200) as vllm, engine_of(vllm) as engine:
        asking = asyncio.create_task(answer(engine, stream=False))
        async with asyncio.timeout(2):
            while not vllm.bodies:
                await asyncio.sleep(0.01)
            asking.cancel()
            while not vllm.cut_off:
                await asyncio.sleep(0.01)
        assert engine.replicas.all[0].running == 0


async def test_a_stream_leaves_its_connection_to_the_next() -> None:
    async with ScriptedVllm() as vllm, engine_of(vllm, health_interval_s=60) as engine:
        for stream in (True, True, False, True):
            await answer(engine, stream=stream)
            await asyncio.sleep(0.02)
        assert vllm.connections == 1


async def test_every_parameter_that_shapes_the_distribution_is_sent() -> None:
    async with ScriptedVllm() as vllm, engine_of(vllm) as engine:
        await answer(engine, temperature=0.5, max_completion_tokens=5, top_p=None, stop=["x"])
    sent = vllm.bodies[0]
    assert sent["token_ids"] == PROMPT
    assert sent["stream"] is True
    assert sent["sampling_params"] == {
        "temperature": 0.5,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "stop": ["x"],
        "max_tokens": 5,
        "logprobs": 0,
    }


async def test_an_answer_gets_the_room_beside_the_prompt() -> None:
    async with ScriptedVllm(max_model_len=100) as vllm, engine_of(vllm) as engine:
        await answer(engine, prompt=[1] * 90)
        await answer(engine, prompt=[1] * 90, max_tokens=50)
        with pytest.raises(RequestError, match="maximum context length") as error:
            await answer(engine, prompt=[1] * 100)
    assert [body["sampling_params"]["max_tokens"] for body in vllm.bodies] == [10, 10]
    assert error.value.kind == "context_length_exceeded"
    assert error.value.to_wire()["error"]["code"] == "context_length_exceeded"


async def test_a_server_that_keeps_its_length_to_itself_says_when_a_prompt_is_too_long() -> None:
    async with ScriptedVllm(max_model_len=None) as vllm, engine_of(vllm) as engine:
        vllm._max_model_len = 100
        assert engine.max_tokens is None
        with pytest.raises(RequestError) as error:
            await answer(engine, prompt=[1] * 100)
    assert error.value.kind == "context_length_exceeded"


@pytest.mark.parametrize("budget", ["x", "5", True, [5]])
async def test_a_budget_that_is_no_number_is_refused(budget: Any) -> None:
    async with ScriptedVllm() as vllm, engine_of(vllm) as engine:
        with pytest.raises(RequestError, match="max_tokens: needs a number of tokens, got") as caught:
            await answer(engine, max_tokens=budget)
        assert caught.value.kind == "sampling_invalid"
        assert not vllm.bodies


async def test_n_and_unknown_parameters_are_refused() -> None:
    async with ScriptedVllm() as vllm, engine_of(vllm) as engine:
        with pytest.raises(RequestError, match="'n'"):
            await answer(engine, n=2)
        with pytest.raises(RequestError, match="temprature"):
            await answer(engine, temprature=1)
    with pytest.raises(ValueError, match="temprature"):
        VllmConfig(base_url="http://x", model="m", sampling_overrides={"temprature": 1})


@pytest.mark.parametrize("stream", [True, False])
async def test_an_older_server_is_asked_at_completions(*, stream: bool) -> None:
    async with ScriptedVllm(form="completions") as vllm, engine_of(vllm) as engine:
        found = await answer(engine, max_tokens=6, stream=stream)
        assert found.ids == sampled(PROMPT, 8)[:6]
        assert found.finish_reason == "length"
        assert found.log_probs == [log_prob(token) for token in found.ids]
        assert found.versions == (WeightSpan(version="7", start=0, end=6),)
    assert vllm.bodies[0]["prompt"] == PROMPT


async def test_a_version_that_changed_meanwhile_is_unknown() -> None:
    async with ScriptedVllm(form="completions", chunk_delay_s=0.02) as vllm, engine_of(vllm) as engine:
        stream = engine.generate(PROMPT, {}, Call(), rollout=None)
        await anext(stream)
        vllm.version = "8"
        last = [chunk async for chunk in stream][-1]
    assert last.finish_reason == "stop"
    assert last.versions == ()


async def test_a_server_without_versions_gives_none() -> None:
    async with ScriptedVllm(version=None) as vllm, engine_of(vllm) as engine:
        assert (await answer(engine)).versions == ()


async def test_a_server_without_ids_is_refused_at_the_start() -> None:
    async with ScriptedVllm(form="text") as vllm:
        with pytest.raises(ConfigError, match="--enable-scale-out") as error:
            async with engine_of(vllm):
                pass
    assert error.value.kind == "engine_not_exact"


async def test_a_model_that_is_not_served_is_refused_at_the_start() -> None:
    async with ScriptedVllm() as vllm:
        with pytest.raises(ConfigError, match="serves scripted"):
            async with engine_of(vllm, model="other"):
                pass
        async with engine_of(vllm, model="/models/scripted") as engine:
            await answer(engine)


async def test_the_key_is_brought_and_never_told() -> None:
    async with ScriptedVllm(key="geheim") as vllm:
        async with engine_of(vllm, api_key="geheim") as engine:
            await answer(engine)
        with pytest.raises(InfraError) as error:
            async with engine_of(vllm, api_key="falsch"):
                pass
    assert error.value.kind == "upstream_auth"
    assert "falsch" not in str(error.value)


async def test_log_probs_of_another_distribution_are_refused() -> None:
    async with ScriptedVllm(processed=False) as vllm, engine_of(vllm) as engine:
        await answer(engine)
        await answer(engine, temperature=0)
        for params in ({"temperature": 0.7}, {"top_p": 0.9}, {"top_k": 5}, {"min_tokens": 3}):
            with pytest.raises(InfraError, match="--logprobs-mode processed_logprobs") as error:
                await answer(engine, **params)
            assert error.value.kind == "log_probs_of_model"
            assert not error.value.retryable
    async with ScriptedVllm(processed=False) as vllm, engine_of(vllm, log_probs="any") as engine:
        await answer(engine, temperature=0.7)
    async with ScriptedVllm() as vllm, engine_of(vllm) as engine:
        await answer(engine, temperature=0.7)


@pytest.mark.parametrize(
    ("fault", "stream"),
    [
        *(("drop", True), ("500", True), ("429", True), ("abort_at_once", True)),
        *(("drop", False), ("500", False), ("no_log_probs", False), ("other_token", False), ("short_spans", False)),
    ],
)
async def test_a_call_of_which_nothing_has_come_is_tried_again(fault: Fault, *, stream: bool) -> None:
    async with ScriptedVllm(fault=nth_call(fault, 0, 1)) as vllm, engine_of(vllm) as engine:
        found = await answer(engine, stream=stream)
    assert found.ids == sampled(PROMPT, 8)
    assert len(vllm.bodies) == 3


async def test_tries_end() -> None:
    async with ScriptedVllm(fault=nth_call("500", *range(9))) as vllm, engine_of(vllm, attempts=3) as engine:
        with pytest.raises(InfraError) as error:
            await answer(engine)
    assert error.value.kind == "upstream_status"
    assert len(vllm.bodies) == 3


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("cut", "upstream_connection"),
        ("abort", "upstream_failed"),
        ("error_event", "upstream_failed"),
        ("garbage", "upstream_unreadable"),
        ("no_log_probs", "upstream_unreadable"),
        ("other_token", "upstream_unreadable"),
        ("no_reason", "upstream_no_finish_reason"),
        ("short_spans", "upstream_unreadable"),
    ],
)
async def test_what_breaks_after_something_was_sampled_is_raised(fault: Fault, kind: str) -> None:
    plan = nth_call(fault, 0)
    async with ScriptedVllm(fault=plan, chunk_delay_s=0.01) as vllm, engine_of(vllm) as engine:
        ids: list[int] = []
        with pytest.raises(PaddockError) as error:
            async for chunk in engine.generate(PROMPT, {}, Call(), rollout="s"):
                assert chunk.finish_reason is None
                ids += chunk.ids
        assert error.value.kind == kind
        assert isinstance(error.value, InfraError)
        assert len(vllm.bodies) == 1
        assert ids == sampled(PROMPT, 8)[: len(ids)]
        assert 0 < len(ids) < 8 or fault in ("no_reason",)
        assert (await answer(engine)).ids == sampled(PROMPT, 8), "the engine is as good as before"


@pytest.mark.parametrize("fault", ["hang", "stall"])
async def test_a_server_that_falls_silent_is_waited_for_until_the_deadline(fault: Fault) -> None:
    async with ScriptedVllm(fault=nth_call(fault, 0)) as vllm, engine_of(vllm) as engine:
        with pytest.raises(InfraError) as error:
            await answer(engine, Call().within(0.3))
        assert error.value.kind == "upstream_timeout"
        assert engine.replicas.all[0].state == "ready"


async def test_only_so_many_answers_are_sampled_at_once() -> None:
    async with ScriptedVllm(chunk_delay_s=0.01) as vllm, engine_of(vllm, max_concurrency=2) as engine:
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, engine.replicas.all[0].running)
                await asyncio.sleep(0.005)

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(answer(engine) for _ in range(6)))
        watching.cancel()
    assert most == 2


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("start", [0, len(PROMPT) - 1])
async def test_experts_are_those_of_the_tokens_they_were_asked_for(start: int, *, stream: bool) -> None:
    async with ScriptedVllm(experts=True) as vllm, engine_of(vllm, routed_experts=True) as engine:
        found = await answer(engine, stream=stream, routed_experts_start=start)
        assert found.routed_experts == RoutedExperts.of(experts_of([*PROMPT, *found.ids])[start:], start)
        assert (await answer(engine, stream=stream)).routed_experts is None, "who asks for none gets none"


@pytest.mark.parametrize(
    ("fault", "kind"), [("no_experts", "routed_experts_missing"), ("short_experts", "upstream_unreadable")]
)
@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_without_all_its_experts_is_none(fault: Fault, kind: str, *, stream: bool) -> None:
    vllm = ScriptedVllm(experts=True, fault=nth_call(fault, *range(9)))
    async with vllm, engine_of(vllm, routed_experts=True) as engine:
        with pytest.raises(InfraError) as error:
            await answer(engine, stream=stream, routed_experts_start=0)
    assert error.value.kind == kind


@pytest.mark.parametrize("form", ["generate", "completions"])
async def test_a_server_that_gives_no_experts_is_refused_at_the_start(form: Any) -> None:
    async with ScriptedVllm(form=form, experts=form != "generate") as vllm:
        with pytest.raises(ConfigError) as error:
            async with engine_of(vllm, routed_experts=True):
                pass
    assert error.value.kind == "routed_experts_missing"
