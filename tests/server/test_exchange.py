"""Claims about one call of an engine and its readers."""

import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator

import pytest

from paddock.errors import BugError, InfraError
from paddock.server.dialects import Answer, ItemDelta
from paddock.server.exchange import AnswerReader, Batch, Exchange

HELLO = Answer([], "stop", None)
WORD = ItemDelta(0, "text", "hello")


class ScriptedParts:
    """An engine's answer, given out batch by batch."""

    def __init__(self, *batches: Batch, error: Exception | None = None) -> None:
        self.batches = batches
        self.error = error
        self.go = asyncio.Event()
        self.begun = 0
        self.left = 0
        self.ended = 0

    async def parts(self) -> AsyncGenerator[Batch, None]:
        self.begun += 1
        try:
            for nth, batch in enumerate(self.batches):
                if nth:
                    await self.go.wait()
                yield batch
            if self.error is not None:
                await self.go.wait()
                raise self.error
        except (asyncio.CancelledError, GeneratorExit):
            self.left += 1
            raise
        self.ended += 1

    def exchange(self, *, grace_s: float = 60.0) -> Exchange:
        return Exchange(self.parts(), grace_s=grace_s, on_end=self._end)

    def _end(self) -> None:
        self.ends = getattr(self, "ends", 0) + 1


async def read(reader: AnswerReader, *, beat_s: float = 60.0) -> list[Batch]:
    found: list[Batch] = []
    while (batch := await reader.batch(beat_s)) is not None:
        found.append(batch)
    return found


async def turn_over() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_each_reader_gets_all_from_the_first_batch_and_the_engine_is_asked_once() -> None:
    source = ScriptedParts([WORD], [WORD, HELLO])
    exchange = source.exchange()
    readers = [exchange.add_reader(), exchange.add_reader()]
    early = asyncio.ensure_future(read(readers[0]))
    await readers[1].wait_for_first(9.0)
    late = exchange.add_reader()
    source.go.set()
    expected = [[WORD], [WORD, HELLO]]
    assert (await early, await read(readers[1]), await read(late)) == (expected, expected, expected)
    assert await exchange.add_reader().whole() is HELLO
    assert (source.begun, exchange.answer) == (1, HELLO)
    exchange.close()


async def test_what_has_come_is_passed_on_before_the_engine_is_asked_for_more() -> None:
    order: list[str] = []

    batches: list[Batch] = [[WORD], [WORD], [HELLO]]

    async def parts() -> AsyncGenerator[Batch, None]:
        for batch in batches:
            await asyncio.sleep(0.01)
            order.append("more")
            yield batch
            order.append("asked")

    reader = Exchange(parts(), grace_s=60.0, on_end=lambda: None).add_reader()
    while await reader.batch(60.0) is not None:
        order.append("read")
    assert order == [*["more", "read", "asked"] * 2, "more", "read"]
    reader.close()


async def test_a_slow_reader_does_not_hold_up_the_others() -> None:
    source = ScriptedParts([WORD], [WORD], [HELLO])
    exchange = source.exchange()
    slow, quick = exchange.add_reader(), exchange.add_reader()
    assert await slow.batch(60.0) == [WORD]
    source.go.set()
    assert await quick.whole() is HELLO
    quick.close()
    assert await read(slow) == [[WORD], [HELLO]]
    exchange.close()


async def test_a_reader_that_is_cancelled_ends_neither_the_call_nor_another_reader() -> None:
    source = ScriptedParts([WORD], [HELLO])
    exchange = source.exchange()
    first, second = exchange.add_reader(), exchange.add_reader()
    cancelled = asyncio.ensure_future(first.whole())
    await turn_over()
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    first.close()
    source.go.set()
    assert await second.whole() is HELLO
    assert source.left == 0
    exchange.close()


async def test_the_engines_error_is_raised_to_every_reader_after_the_batches_before_it() -> None:
    source = ScriptedParts([WORD], error=InfraError("it broke", kind="upstream_connection"))
    exchange = source.exchange()
    first, second = exchange.add_reader(), exchange.add_reader()
    assert await first.wait_for_first(9.0)
    source.go.set()
    for reader in (first, second):
        assert await reader.batch(60.0) == [WORD]
        with pytest.raises(InfraError, match="it broke"):
            await reader.batch(60.0)
    assert (exchange.error is None, exchange.answer, source.ends) == (False, None, 1)


async def test_an_engine_without_an_answer_is_a_bug() -> None:
    source = ScriptedParts([WORD])
    reader = source.exchange().add_reader()
    with pytest.raises(BugError):
        await reader.whole()


async def test_without_news_there_are_empty_batches() -> None:
    source = ScriptedParts([WORD], [HELLO])
    reader = source.exchange().add_reader()
    seen: list[Batch] = []
    while (batch := await reader.batch(0.005)) is not None:
        seen.append(batch)
        if seen.count([]) == 3:
            source.go.set()
    assert [batch for batch in seen if batch] == [[WORD], [HELLO]]
    assert seen.count([]) >= 3


async def test_an_orphan_is_given_up_after_its_grace_and_found_by_whoever_comes_before() -> None:
    source = ScriptedParts([WORD], [HELLO])
    exchange = source.exchange(grace_s=0.5)
    exchange.add_reader().close()
    await asyncio.sleep(0.02)
    back = exchange.add_reader()
    await asyncio.sleep(0.7)
    assert (source.left, getattr(source, "ends", 0)) == (0, 0)
    back.close()
    async with asyncio.timeout(60):
        while not source.left:
            await asyncio.sleep(0.05)
    assert (source.left, source.ends) == (1, 1)


async def test_without_grace_the_last_reader_that_leaves_ends_it() -> None:
    source = ScriptedParts([WORD], [HELLO])
    exchange = source.exchange(grace_s=0)
    reader = exchange.add_reader()
    await reader.wait_for_first(9.0)
    reader.close()
    reader.close()
    await turn_over()
    assert (source.left, source.ends) == (1, 1)


async def test_a_forgotten_reader_closes_itself() -> None:
    source = ScriptedParts([WORD], [HELLO])
    exchange = source.exchange(grace_s=0)
    reader = exchange.add_reader()
    await reader.wait_for_first(9.0)
    del reader
    gc.collect()
    await turn_over()
    assert (source.left, source.ends) == (1, 1)


async def test_readers_of_a_closed_exchange_are_told_also_where_it_had_not_begun() -> None:
    for wait in (False, True):
        source = ScriptedParts([WORD], [HELLO])
        exchange = source.exchange()
        waiting = asyncio.ensure_future(exchange.add_reader().whole())
        if wait:
            await turn_over()
        exchange.close()
        exchange.close()
        with pytest.raises(InfraError) as caught:
            await asyncio.wait_for(waiting, 60)
        assert caught.value.kind == "given_up"
        assert (source.begun, source.left, source.ends) == (int(wait), int(wait), 1)


async def test_an_answer_that_is_there_is_told_also_after_the_end() -> None:
    source = ScriptedParts([WORD], [HELLO])
    source.go.set()
    exchange = source.exchange()
    slow, quick = exchange.add_reader(), exchange.add_reader()
    assert await quick.whole() is HELLO
    exchange.close()
    assert await slow.whole() is HELLO
    assert source.ends == 1


async def test_a_finished_exchange_is_kept_by_nobody() -> None:
    source = ScriptedParts([WORD], [HELLO])
    source.go.set()
    exchange = source.exchange()
    reader = exchange.add_reader()
    await reader.whole()
    exchange.close()
    reader.close()
    known = weakref.ref(exchange)
    del exchange, reader
    await turn_over()
    gc.collect()
    assert known() is None
