"""Claims about engines of another process: what crosses is what was sampled."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import InfraError
from paddock.http import Call
from paddock.server.exact import Chunk
from paddock.server.exact.functions import Completion, FunctionEngine
from paddock.server.exact.relay import EngineCalls, EngineRelay, RelayedEngine, RelayMessage, chunk_message, read_chunk
from paddock.types import JsonObject, RoutedExperts, WeightSpan

EXPERTS = RoutedExperts(2, 2, 2, 1, bytes(range(8)))


@given(
    ids=st.lists(st.integers(0, 2**32 - 1), max_size=9),
    reason=st.sampled_from([None, "stop", "length"]),
    experts=st.sampled_from([None, EXPERTS]),
    cached_tokens=st.integers(0, 9),
    data=st.data(),
)
def test_a_chunk_that_crosses_is_the_same(
    ids: list[int], reason: str | None, experts: RoutedExperts | None, cached_tokens: int, data: st.DataObject
) -> None:
    floats = st.floats(allow_nan=False, allow_infinity=False)
    log_probs = data.draw(st.lists(floats, min_size=len(ids), max_size=len(ids)))
    chunk = Chunk(ids, log_probs)
    if reason is not None:
        spans = [WeightSpan(version="1", start=0, end=len(ids))] if ids else []
        chunk = Chunk(ids, log_probs, reason, spans, cached_tokens, experts)  # type: ignore[arg-type]
    found = read_chunk(chunk_message(3, chunk))
    assert found._replace(versions=tuple(found.versions)) == chunk._replace(versions=tuple(chunk.versions))


def test_an_id_that_does_not_fit_is_the_engine_s_fault() -> None:
    with pytest.raises(InfraError, match="more than 32 bits"):
        chunk_message(3, Chunk([2**32], [-1.0], "stop"))


async def test_what_nobody_reads_any_more_is_ended_at_the_driver() -> None:
    ended = asyncio.Event()

    async def function(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> AsyncIterator[Completion]:
        try:
            yield Completion([5], [-1.0], None)
            await asyncio.sleep(3600)
        finally:
            ended.set()

    relay = EngineRelay()

    async def to_worker(message: RelayMessage) -> None:
        relay.take(message)

    async def to_driver(message: RelayMessage) -> None:
        calls.take(message)

    calls = EngineCalls({"policy": FunctionEngine(function)}, to_worker)
    serving = asyncio.create_task(relay.serve(to_driver))
    engine = RelayedEngine(relay, "policy", max_tokens=None)
    chunks = engine.generate([1, 2], {}, Call(), rollout="secret")
    assert (await anext(chunks)).ids == [5]
    await chunks.aclose()
    async with asyncio.timeout(5):
        await ended.wait()
    serving.cancel()
