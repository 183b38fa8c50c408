"""SglangEngine against a scripted server: what it samples, what it continues, what it refuses, what it tries again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.sglang import ANSWER, EOS, Fault, ScriptedSglang, log_prob

from paddock.errors import ConfigError, InfraError, PaddockError, RequestError
from paddock.http import Call
from paddock.models_servers.sglang.config import SglangConfig
from paddock.models_servers.sglang.engine import SglangEngine
from paddock.server.exact.engine import Chunk
from paddock.types import WeightSpan

PROMPT = [11, 12, 13]
FAST = {"first_retry_s": 0.01, "max_retry_s": 0.02, "start_check_timeout_s": 5}


@asynccontextmanager
async def engine_of(*servers: ScriptedSglang, **fields: Any) -> AsyncIterator[SglangEngine]:
    urls = [server.url + "/v1" for server in servers]
    engine = SglangEngine(SglangConfig(**{"base_url": urls, "model": "scripted", **FAST, **fields}))
    try:
        await engine.start()
        yield engine
    finally:
        await engine.stop()


async def answer(
    engine: SglangEngine, call: Call | None = None, *, rollout: str | None = "s", stream: bool = True, **params: Any
) -> Chunk:
    """All chunks as one."""
    chunks = [chunk async for chunk in engine.generate(PROMPT, params, call or Call(), rollout=rollout, stream=stream)]
    assert all(chunk.finish_reason is None for chunk in chunks[:-1])
    ids = [one for chunk in chunks for one in chunk.ids]
    return chunks[-1]._replace(ids=ids, log_probs=[value for chunk in chunks for value in chunk.log_probs])


def nth_call(fault: Fault, *numbers: int) -> Callable[[int], Fault | None]:
    return lambda nth: fault if nth in numbers else None


@pytest.mark.parametrize("incremental", [True, False])
@pytest.mark.parametrize("stream", [True, False])
async def test_ids_and_log_probs_come_as_they_were_sampled(*, stream: bool, incremental: bool) -> None:
    """Whether an event has all of the answer, or what is new."""
    async with ScriptedSglang(incremental=incremental) as sglang, engine_of(sglang) as engine:
        found = await answer(engine, stream=stream)
        assert [body["stream"] for body in sglang.bodies] == [stream]
    assert found.ids == ANSWER
    assert found.ids[-1] == EOS
    assert found.log_probs == [log_prob(token) for token in ANSWER]
    assert (found.finish_reason, found.cached_tokens) == ("stop", 4)
    assert found.versions == [WeightSpan(version="default", start=0, end=8)]


async def test_every_parameter_that_shapes_the_distribution_is_sent() -> None:
    async with ScriptedSglang() as sglang, engine_of(sglang) as engine:
        await answer(engine, seed=3, stop=["x"], top_k=0, max_tokens=50, max_completion_tokens=40)
        await answer(engine)
    first, second = [body["sampling_params"] for body in sglang.bodies]
    neutral = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
    penalties = {"presence_penalty": 0.0, "frequency_penalty": 0.0}
    text = {"no_stop_trim": True, "skip_special_tokens": False}
    assert first == {**neutral, **penalties, **text, "sampling_seed": 3, "stop": ["x"], "max_new_tokens": 40}
    assert second["max_new_tokens"] == 1000 - len(PROMPT), "SGLang ends an answer of nobody's bound after 128 tokens"


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_that_was_ended_for_new_weights_goes_on_with_a_span_for_each(*, stream: bool) -> None:
    versions = (("1", 3), ("2", 5), ("3", 8))
    faults: tuple[Fault | None, ...] = ("abort", "abort_at_once", None)
    sglang = ScriptedSglang(fault=lambda nth: faults[nth], versions=versions)
    async with sglang, engine_of(sglang) as engine:
        found = await answer(engine, stream=stream, max_tokens=20)
    assert found.ids == ANSWER
    assert [body["input_ids"] for body in sglang.bodies] == [PROMPT, PROMPT + ANSWER[:3], PROMPT + ANSWER[:3]]
    assert [body["sampling_params"]["max_new_tokens"] for body in sglang.bodies] == [20, 17, 17]
    assert [(span.version, span.start, span.end) for span in found.versions] == [("1", 0, 3), ("2", 3, 5), ("3", 5, 8)]


async def test_a_rollout_keeps_to_one_server_and_is_named_to_a_router() -> None:
    async with ScriptedSglang() as one, ScriptedSglang() as two, engine_of(one, two) as engine:
        for nth in range(8):
            for _ in range(2):
                await answer(engine, rollout=f"secret{nth}")
        keys = [*one.keys, *two.keys]
        assert not set(one.keys) & set(two.keys)
        assert one.keys
        assert two.keys
        assert len(set(keys)) == 8
        assert not any("secret" in str(key) for key in keys)
        for _ in range(2):
            await answer(engine, rollout=None)
        assert one.keys[-1] is two.keys[-1] is None


async def test_a_rollout_whose_server_is_gone_moves_to_the_next() -> None:
    async with ScriptedSglang() as one, engine_of(one) as _:
        pass
    async with ScriptedSglang() as two:
        async with one, engine_of(one, two) as engine:
            await one.__aexit__(None, None, None)
            for nth in range(4):
                assert (await answer(engine, rollout=str(nth))).ids == ANSWER
        assert len(two.bodies) == 4


@pytest.mark.parametrize("fault", ["drop", "500", "429", "cut", "no_reason"])
async def test_what_failed_before_a_token_came_is_tried_again(fault: Fault) -> None:
    async with ScriptedSglang(fault=nth_call(fault, 0, 1)) as sglang, engine_of(sglang) as engine:
        assert (await answer(engine, stream=False)).ids == ANSWER
        assert len(sglang.bodies) == 3


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("500", "upstream_status"),
        ("400", "upstream_refused"),
        ("abort_500", "upstream_status"),
        ("error_event", "context_length_exceeded"),
        ("garbage", "upstream_unreadable"),
        ("no_log_probs", "upstream_unreadable"),
        ("other_token", "upstream_unreadable"),
        ("no_stop_token", "upstream_unreadable"),
        ("short_spans", "upstream_unreadable"),
        ("cut_prompt", "upstream_unreadable"),
        ("cut", "upstream_connection"),
        ("nothing", "upstream_empty"),
        ("no_reason", "upstream_no_finish_reason"),
    ],
)
async def test_what_is_not_exact_is_no_answer(fault: Fault, kind: str) -> None:
    async with ScriptedSglang(fault=lambda _: fault) as sglang, engine_of(sglang) as engine:
        with pytest.raises(PaddockError) as raised:
            await answer(engine)
    assert raised.value.kind == kind


async def test_what_was_begun_is_not_tried_again() -> None:
    async with ScriptedSglang(fault=nth_call("cut", 0)) as sglang, engine_of(sglang) as engine:
        with pytest.raises(InfraError):
            await answer(engine)
        assert len(sglang.bodies) == 1


async def test_a_deadline_and_a_closed_generator_end_the_sampling() -> None:
    async with ScriptedSglang(fault=nth_call("hang", 0), event_delay_s=0.2) as sglang, engine_of(sglang) as engine:
        with pytest.raises(InfraError) as raised:
            await answer(engine, Call().within(0.1))
        assert raised.value.kind == "upstream_timeout"
        stream = engine.generate(PROMPT, {}, Call(), rollout=None)
        await anext(stream)
        await stream.aclose()
        async with asyncio.timeout(5):
            while sglang.cut_off < 2:
                await asyncio.sleep(0.01)


async def test_an_answer_that_is_whole_is_not_waited_for() -> None:
    async with ScriptedSglang(fault=nth_call("stall_at_end", 0)) as sglang, engine_of(sglang) as engine:
        async with asyncio.timeout(10):
            assert (await answer(engine)).ids == ANSWER


@pytest.mark.parametrize(
    ("params", "original", "exact"),
    [
        ({}, False, True),
        ({"temperature": 0.7, "presence_penalty": 0.5, "logit_bias": {"5": 1.0}}, False, True),
        ({"temperature": 0}, True, True),
        ({"temperature": 0.7}, True, False),
        ({"top_p": 0.9}, False, False),
        ({"top_k": 20}, False, False),
        ({"min_p": 0.1}, False, False),
    ],
)
async def test_log_probs_of_another_distribution_are_refused(params: Any, *, original: bool, exact: bool) -> None:
    async with ScriptedSglang(original_log_probs=original) as sglang:
        async with engine_of(sglang, log_probs="any") as engine:
            assert (await answer(engine, **params)).ids == ANSWER
        async with engine_of(sglang) as engine:
            if exact:
                assert (await answer(engine, **params)).ids == ANSWER
                return
            with pytest.raises(InfraError) as raised:
                await answer(engine, **params)
    assert (raised.value.kind, raised.value.retryable) == ("log_probs_of_model", False)


@pytest.mark.parametrize(
    ("server", "fields", "kind"),
    [
        ({"dropped": ("return_logprob",)}, {}, "engine_not_exact"),
        ({}, {"model": "other"}, "model_unknown"),
        ({"max_model_len": None}, {}, "max_model_len_unknown"),
    ],
)
async def test_a_server_that_cannot_be_exact_does_not_start(server: Any, fields: Any, kind: str) -> None:
    async with ScriptedSglang(**server) as sglang:
        with pytest.raises(ConfigError) as raised:
            async with engine_of(sglang, **fields):
                pass
    assert raised.value.kind == kind


async def test_the_key_is_sent_and_a_wrong_one_is_said() -> None:
    async with ScriptedSglang(key="geheim") as sglang:
        async with engine_of(sglang, api_key="geheim", max_model_len=500) as engine:
            assert engine.max_tokens == 500
            assert (await answer(engine)).ids == ANSWER
        with pytest.raises(InfraError) as raised:
            async with engine_of(sglang, api_key="falsch"):
                pass
    assert raised.value.kind == "upstream_auth"
    assert "falsch" not in raised.value.message


async def test_a_parameter_that_sglang_is_not_told_of_is_refused() -> None:
    async with ScriptedSglang() as sglang, engine_of(sglang) as engine:
        with pytest.raises(RequestError) as raised:
            await answer(engine, beam_width=2)
    assert raised.value.kind == "sampling_invalid"
