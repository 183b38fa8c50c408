"""VllmEngine with a real vLLM that it starts: its ids and log-probs are exact, and its death is survived."""

import asyncio
import math
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import pytest_asyncio

from paddock.errors import InfraError, RequestError
from paddock.http import Call
from paddock.models_servers.vllm.engine import VllmEngine
from paddock.server.exact.engine import Chunk

if TYPE_CHECKING:
    from tests.models_servers.vllm.conftest import SmallVllm

PROMPT = list(range(20, 60))
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),  # a start of vLLM on a busy machine is in it
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(small_vllm: "SmallVllm") -> AsyncIterator[VllmEngine]:
    async with small_vllm.engine() as made:
        yield made


async def answer(engine: VllmEngine, prompt: list[int] = PROMPT, *, stream: bool = True, **params: Any) -> Chunk:
    """All chunks as one."""
    chunks = [chunk async for chunk in engine.generate(prompt, params, Call(), rollout="s", stream=stream)]
    ids = [one for chunk in chunks for one in chunk.ids]
    return chunks[-1]._replace(ids=ids, log_probs=[value for chunk in chunks for value in chunk.log_probs])


async def test_it_was_started_so_that_ids_log_probs_and_versions_are_exact(engine: VllmEngine) -> None:
    traits = engine.replicas.all[0].traits
    assert (traits.form, traits.log_probs, traits.versions) == ("generate", "sampled", "spans")
    assert engine.max_tokens == 4096


async def test_log_probs_are_those_of_what_is_sampled_from(engine: VllmEngine) -> None:
    plain = await answer(engine, max_tokens=1, seed=1, ignore_eos=True)
    two = [await answer(engine, max_tokens=1, temperature=2.0, allowed_token_ids=[5, 6], seed=n) for n in range(24)]
    only = await answer(engine, max_tokens=4, temperature=1.0, top_k=1, ignore_eos=True)
    assert plain.versions[0].end == 1
    seen = {found.ids[0]: math.exp(found.log_probs[0]) for found in two}
    assert sum(seen.values()) == pytest.approx(1.0, abs=1e-4), "of two that are allowed, one or the other"
    assert only.log_probs == [0.0] * 4


async def test_a_prompt_with_its_answer_can_be_sampled_from_again(engine: VllmEngine) -> None:
    """Greedy, the second half of an answer is what its first half as a prompt gives, log-probs included."""
    whole = await answer(engine, max_tokens=24, temperature=0, ignore_eos=True)
    rest = await answer(engine, PROMPT + whole.ids[:10], max_tokens=14, temperature=0, ignore_eos=True)
    assert rest.ids == whole.ids[10:]
    assert rest.log_probs == pytest.approx(whole.log_probs[10:], abs=1e-4)


async def test_a_whole_answer_says_what_a_streamed_one_says(engine: VllmEngine) -> None:
    streamed, whole = [
        await answer(engine, stream=stream, max_tokens=24, temperature=0, ignore_eos=True) for stream in (True, False)
    ]
    assert whole.log_probs == pytest.approx(streamed.log_probs, abs=1e-4)
    assert whole._replace(log_probs=[], cached_tokens=0) == streamed._replace(log_probs=[], cached_tokens=0)


async def test_the_token_that_completes_a_stop_text_is_the_last(engine: VllmEngine) -> None:
    free = await answer(engine, max_tokens=60, seed=3, ignore_eos=True)
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(engine.replicas.all[0].traits.model) / "tokenizer.json"))
    texts = [tokenizer.decode([one]) for one in free.ids]
    at = next(nth for nth, text in enumerate(texts) if nth > 3 and len(text) > 2 and text.isascii())
    stopped = await answer(engine, max_tokens=60, seed=3, ignore_eos=True, stop=[texts[at][:2]])
    assert stopped.finish_reason == "stop"
    assert stopped.ids == free.ids[: len(stopped.ids)]
    assert len(stopped.ids) <= at + 1
    assert stopped.versions[0].end == len(stopped.ids)


async def test_a_prompt_that_is_too_long_is_refused_by_us_and_by_vllm(engine: VllmEngine) -> None:
    with pytest.raises(RequestError) as ours:
        await answer(engine, [21] * 4096)
    assert ours.value.kind == "context_length_exceeded"
    replica = engine.replicas.all[0]
    body = {"model": replica.traits.model, "token_ids": [21] * 5000, "sampling_params": {"max_tokens": 1}}
    with pytest.raises(RequestError) as theirs:
        await replica.client.post("/inference/v1/generate", body, 30.0)
    assert theirs.value.kind == "context_length_exceeded"


async def test_many_at_once_and_those_that_are_closed_make_room(engine: VllmEngine) -> None:
    async def some(close: bool) -> int:
        count = 0
        async for chunk in (
            stream := engine.generate(PROMPT, {"ignore_eos": True, "max_tokens": 800}, Call(), rollout=None)
        ):
            count += len(chunk.ids)
            if close and count > 5:
                await stream.aclose()
        return count

    counts = await asyncio.gather(*(some(nth % 2 == 0) for nth in range(40)))
    assert counts[1::2] == [800] * 20
    assert all(5 < count < 800 for count in counts[::2])


async def test_an_engine_core_that_dies_is_noticed_and_replaced_and_nothing_of_it_is_left(engine: VllmEngine) -> None:
    replica = engine.replicas.all[0]
    assert replica.process is not None
    family = psutil.Process(replica.process.pid).children(recursive=True)
    core = next(one for one in family if "EngineCore" in " ".join(one.cmdline()))
    stream = engine.generate(PROMPT, {"ignore_eos": True, "max_tokens": 4000}, Call(), rollout="s")
    await anext(stream)
    os.kill(core.pid, signal.SIGKILL)
    with pytest.raises(InfraError) as error:
        async with asyncio.timeout(60):
            async for _ in stream:
                pass
    assert error.value.kind.startswith("upstream_")
    async with asyncio.timeout(400):
        while replica.state != "down":
            await asyncio.sleep(0.05)
    assert len((await answer(engine, max_tokens=5, ignore_eos=True)).ids) == 5
    assert not any(one.is_running() for one in family)
