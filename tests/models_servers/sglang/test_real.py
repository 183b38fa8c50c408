"""SglangEngine before a real SGLang: its ids and log-probs are exact, also where weights change within an answer."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from tests.support.real_sglang import CONTEXT, RealSglang, real_sglang

from paddock.errors import InfraError, RequestError
from paddock.http import Call
from paddock.models_servers.sglang.config import SglangConfig
from paddock.models_servers.sglang.engine import SglangEngine
from paddock.server.exact.engine import Chunk

VARIABLE = "PADDOCK_SGLANG_PYTHON"
PROMPT = list(range(20, 60))
LONG = 600
pytestmark = [
    pytest.mark.trainer,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),  # a start of SGLang on a busy machine is in it
]


@pytest.fixture(scope="module")
def sglang(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSglang]:
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(f"{VARIABLE} names no interpreter: scripts/setup_sglang.sh makes one")
    with real_sglang(python, tmp_path_factory.mktemp("sglang")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def engine(sglang: RealSglang) -> AsyncIterator[SglangEngine]:
    """Before the first model, whose version is `first`."""
    sglang.post("/update_weights_from_disk", {"model_path": str(sglang.models[0]), "weight_version": "first"})
    config = SglangConfig(model=str(sglang.models[0]), base_url=sglang.url, first_retry_s=0.05)
    made = SglangEngine(config)
    try:
        await made.start()
        yield made
    finally:
        await made.stop()


async def answer(engine: SglangEngine, prompt: list[int] = PROMPT, *, stream: bool = True, **params: Any) -> Chunk:
    """All chunks as one."""
    return joined([chunk async for chunk in engine.generate(prompt, params, Call(), rollout="s", stream=stream)])


def joined(chunks: list[Chunk]) -> Chunk:
    ids = [one for chunk in chunks for one in chunk.ids]
    return chunks[-1]._replace(ids=ids, log_probs=[value for chunk in chunks for value in chunk.log_probs])


@pytest.mark.parametrize("stream", [True, False])
async def test_log_probs_are_those_of_the_model(engine: SglangEngine, sglang: RealSglang, *, stream: bool) -> None:
    found = await answer(engine, stream=stream, max_tokens=200, ignore_eos=True)
    assert (len(found.ids), found.finish_reason) == (200, "length"), "more than the 128 that SGLang takes by itself"
    assert found.log_probs == pytest.approx(sglang.log_probs(sglang.models[0], PROMPT, found.ids), abs=1e-5)
    assert [(span.version, span.start, span.end) for span in found.versions] == [("first", 0, 200)]


async def test_it_says_what_it_does(engine: SglangEngine) -> None:
    (traits,) = engine.traits
    assert traits == (CONTEXT, True, True)


async def test_log_probs_follow_the_temperature_and_cut_offs_are_refused(engine: SglangEngine) -> None:
    hot = await answer(engine, max_tokens=40, temperature=50.0, ignore_eos=True)
    assert min(hot.log_probs) > -7.0, "near ln(512) each: the temperature is in them"
    with pytest.raises(InfraError) as raised:
        await answer(engine, top_p=0.9)
    assert raised.value.kind == "log_probs_of_model"


async def test_the_stop_token_is_the_last_id(engine: SglangEngine) -> None:
    """`ignore_eos` would have SGLang pass over these, too."""
    free = await answer(engine, max_tokens=60, temperature=0)
    stop = free.ids[-1]
    found = await answer(engine, max_tokens=60, temperature=0, stop_token_ids=[stop])
    assert found.finish_reason == "stop"
    assert found.ids == free.ids[: free.ids.index(stop) + 1]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_prompt_that_is_too_long_is_refused(engine: SglangEngine, *, stream: bool) -> None:
    with pytest.raises(RequestError) as raised:
        await answer(engine, [21] * (CONTEXT + 10), stream=stream, max_tokens=1)
    assert raised.value.kind == "context_length_exceeded"


async def test_weights_that_change_under_an_answer_give_it_two_spans(engine: SglangEngine, sglang: RealSglang) -> None:
    """Paused by `retract`, SGLang goes on by itself: before and after, each is of its own weights."""
    await changed(engine, sglang, {"mode": "retract"})


async def test_an_answer_that_is_ended_for_new_weights_is_continued(engine: SglangEngine, sglang: RealSglang) -> None:
    await changed(engine, sglang, {"mode": "abort"})


async def changed(engine: SglangEngine, sglang: RealSglang, pause: dict[str, str]) -> None:
    chunks: list[Chunk] = []
    params = {"max_tokens": LONG, "ignore_eos": True}
    async for chunk in engine.generate(PROMPT, params, Call(), rollout="s", stream=True):
        before = sum(len(one.ids) for one in chunks)
        chunks.append(chunk)
        if before < 50 <= before + len(chunk.ids):
            update = {"model_path": str(sglang.models[1]), "weight_version": "second"}
            for path, body in (("pause_generation", pause), ("update_weights_from_disk", update)):
                await asyncio.to_thread(sglang.post, f"/{path}", body)
            await asyncio.to_thread(sglang.post, "/continue_generation", {})
    found = joined(chunks)
    assert (len(found.ids), found.finish_reason) == (LONG, "length")
    first, second = found.versions
    assert (first.version, second.version) == ("first", "second")
    assert 50 <= first.end == second.start < second.end == LONG
    for span, model in zip(found.versions, sglang.models, strict=True):
        expected = sglang.log_probs(model, PROMPT, found.ids)
        assert found.log_probs[span.start : span.end] == pytest.approx(expected[span.start : span.end], abs=1e-5)
