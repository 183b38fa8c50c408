"""Claims about engines that are functions: continuation after aborts, spans of versions, and faults with an owner."""

import asyncio
from array import array
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import ConfigError, InfraError
from paddock.http import Call
from paddock.server.exact.engine import Chunk
from paddock.server.exact.functions import Completion, FunctionEngine, bound_to_loop, find_function
from paddock.types import JsonObject, RoutedExperts, WeightSpan

ANSWER = list(range(100, 112))


async def chunks_of(
    engine: FunctionEngine, params: JsonObject | None = None, *, call: Call | None = None
) -> list[Chunk]:
    return [chunk async for chunk in engine.generate([1, 2], params or {}, call or Call(), rollout="secret")]


@given(
    cuts=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.booleans()), max_size=6),
    last_version=st.integers(0, 3),
)
def test_an_answer_that_is_aborted_goes_on_where_it_was(cuts: list[tuple[int, int, bool]], last_version: int) -> None:
    """Whatever is aborted where, by whichever weights, streamed or whole."""
    left = list(cuts)
    by_version: list[int] = []

    def function(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Any:
        done = len(ids) - 2
        assert ids == [1, 2, *ANSWER[:done]]
        assert sampling["max_tokens"] == 50 - done
        size, version, streamed = left.pop(0) if left else (len(ANSWER), last_version, False)
        part, reason = ANSWER[done : done + size], "abort"
        if done + len(part) == len(ANSWER):
            reason = "stop"
        by_version.extend([version] * len(part))
        whole = Completion(part, [-1.0] * len(part), reason, version)  # type: ignore[arg-type]
        return _streamed(whole) if streamed else _whole(whole)

    chunks = asyncio.run(chunks_of(FunctionEngine(function, first_retry_s=0), {"max_tokens": 50}))
    assert [token for chunk in chunks for token in chunk.ids] == ANSWER
    assert [chunk.finish_reason for chunk in chunks][-1] == "stop"
    spans = chunks[-1].versions
    assert [int(span.version or -1) for span in spans for _ in range(span.start, span.end)] == by_version
    assert all(span.end > span.start for span in spans)


def experts(rows: Sequence[tuple[int, int]], start: int) -> RoutedExperts:
    """One layer, two experts a token."""
    data = array("i", [expert for row in rows for expert in row]).tobytes()
    return RoutedExperts.of_int32(data, start, rows=len(rows), k=2)


@given(
    cuts=st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(0, 3), st.booleans()), max_size=5),
    start=st.integers(0, 1),
)
def test_a_row_of_experts_is_of_the_pass_that_sampled_the_token_after_it(
    cuts: list[tuple[int, bool, int, bool]], start: int
) -> None:
    """Whatever is aborted where, with rows or without; from the place that was asked for, or from an earlier one."""
    left = list(cuts)
    expected: list[tuple[int, int]] = []
    calls = 0

    def function(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Any:
        nonlocal calls
        calls += 1
        size, given, earlier, streamed = left.pop(0) if left else (len(ANSWER), True, 0, False)
        wanted, done = sampling["routed_experts_start"], len(ids) - 2
        assert wanted == start + len(expected)
        part = ANSWER[done : done + size]
        reason = "stop" if done + len(part) == len(ANSWER) else "abort"
        first, end = max(0, wanted - earlier), len(ids) + len(part) - 1
        rows = None
        if given or reason == "stop":
            rows = experts([(place, calls) for place in range(first, end)], first)
            expected.extend((place, calls) for place in range(wanted, end))
        whole = Completion(part, [-1.0] * len(part), reason, 1, (), 0, rows)  # type: ignore[arg-type]
        return _streamed(whole) if streamed else _whole(whole)

    engine = FunctionEngine(function, first_retry_s=0)
    *others, last = asyncio.run(chunks_of(engine, {"routed_experts_start": start}))
    assert last.routed_experts == experts(expected, start)
    assert [place for place, _ in expected] == list(range(start, 2 + len(ANSWER) - 1))
    assert all(chunk.routed_experts is None for chunk in others)


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        (None, "routed_experts_missing"),
        (experts([(0, 1)] * 12, 0), "upstream_unreadable"),
        (experts([(0, 1)] * 12, 1), "upstream_unreadable"),
    ],
)
async def test_an_answer_without_the_experts_that_were_asked_for_is_none(rows: RoutedExperts | None, kind: str) -> None:
    async def function(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        return Completion(ANSWER, [-1.0] * len(ANSWER), routed_experts=rows)

    with pytest.raises(InfraError) as raised:
        await chunks_of(FunctionEngine(function), {"routed_experts_start": 0})
    assert raised.value.kind == kind
    assert (await chunks_of(FunctionEngine(function)))[-1].routed_experts is None, "who asks for none gets none"


async def _whole(completion: Completion) -> Completion:
    return completion


async def _streamed(completion: Completion) -> AsyncIterator[Completion]:
    for token, log_prob in zip(completion.ids, completion.log_probs, strict=True):
        yield Completion([token], [log_prob], None, completion.weight_version)
    yield completion._replace(ids=[], log_probs=[])


async def test_the_bound_of_an_answer_is_that_of_the_model() -> None:
    async def function(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        limit = sampling["max_tokens"]
        return Completion(ANSWER[:limit], [-1.0] * limit, "length")

    chunks = await chunks_of(FunctionEngine(function, max_tokens=7), {"max_tokens": 9})
    assert [chunk.ids for chunk in chunks] == [ANSWER[:5]]
    assert chunks[-1].finish_reason == "length"


async def test_weights_that_change_unannounced_in_the_middle_leave_the_version_open() -> None:
    engine: FunctionEngine

    async def function(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        if not changes:
            return Completion(ANSWER, [-1.0] * len(ANSWER))
        engine.version = changes.pop()
        return Completion(ANSWER[:3], [-1.0] * 3, "abort")

    changes = ["2"]
    engine = FunctionEngine(function)
    engine.version = "1"
    (*_, last) = await chunks_of(engine)
    assert [(span.version, span.start, span.end) for span in last.versions] == [(None, 0, 3), ("2", 3, 15)]


async def test_spans_of_one_call_stand_behind_those_of_the_calls_before() -> None:
    """Streamed: they come with the last completion alone, and stand for all of the call."""

    async def function(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> AsyncIterator[Completion]:
        if len(ids) == 2:
            yield Completion(ANSWER[:3], [-1.0] * 3, "abort", "1", cached_tokens=2)
            return
        yield Completion(ANSWER[3:6], [-1.0] * 3, None)
        spans = [WeightSpan(version="1", start=0, end=1), WeightSpan(version="2", start=1, end=9)]
        yield Completion(ANSWER[6:], [-1.0] * 6, "stop", weight_versions=spans, cached_tokens=5)

    (*_, last) = await chunks_of(FunctionEngine(function, first_retry_s=0))
    assert [(span.version, span.start, span.end) for span in last.versions] == [("1", 0, 4), ("2", 4, 12)]
    assert last.cached_tokens == 2, "of the prompt, which a continuation's is not"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Completion([1], [-1.0], weight_versions=[WeightSpan(version="1", start=0, end=2)]), "do not cover the 1 ids"),
        (Completion([1, 2], [-1.0]), "2 ids, but 1 log-probs"),
        (Completion([1], [float("nan")]), "no finite number"),
        (Completion([1.5], [-1.0]), "no numbers"),  # type: ignore[list-item]
        (Completion(["1"], [-1.0]), "no numbers"),  # type: ignore[list-item]
        (Completion([-1], [-1.0]), "negative"),
        (Completion([1], [-1.0], "tired"), "finish reason 'tired'"),  # type: ignore[arg-type]
        (Completion([1], [-1.0], None), "without a finish reason"),
        ("text", "no `Completion`"),
        (None, "no `Completion`"),
    ],
)
async def test_an_answer_that_is_none_is_the_engines_fault(answer: Any, says: str) -> None:
    async def function(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Any:
        return answer

    with pytest.raises(InfraError, match=says) as raised:
        await chunks_of(FunctionEngine(function))
    assert raised.value.kind == "upstream_unreadable"


@pytest.mark.parametrize("reason", ["stop", "length"])
async def test_an_answer_without_ids_is_none(reason: Any) -> None:
    async def function(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        return Completion([], [], reason)

    with pytest.raises(InfraError, match="before an id was sampled") as raised:
        await chunks_of(FunctionEngine(function))
    assert raised.value.kind == "upstream_empty"


async def test_what_the_function_raises_is_the_engines_fault() -> None:
    async def function(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        raise ValueError("out of memory")

    with pytest.raises(InfraError, match="ValueError: out of memory") as raised:
        await chunks_of(FunctionEngine(function))
    assert raised.value.kind == "engine_failed"


async def test_a_calls_deadline_ends_the_function() -> None:
    ended = asyncio.Event()

    async def function(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()
        return Completion([], [])

    with pytest.raises(InfraError) as raised:
        await chunks_of(FunctionEngine(function), call=Call().within(0.05))
    assert raised.value.kind == "upstream_timeout"
    assert ended.is_set()


async def test_a_function_of_another_loop_is_called_there_and_ended_there() -> None:
    ready = asyncio.Event()
    states: list[str] = []
    here = asyncio.get_running_loop()

    async def function(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> AsyncIterator[Completion]:
        assert asyncio.get_running_loop() is here
        try:
            yield Completion([100], [-1.0], None)
            ready.set()
            await asyncio.sleep(3600)
        finally:
            states.append("ended")

    def elsewhere() -> Sequence[Chunk]:
        async def run() -> list[Chunk]:
            engine = FunctionEngine(bound_to_loop(function, here))
            return await chunks_of(engine, call=Call().within(0.3))

        return asyncio.run(run())

    with pytest.raises(InfraError, match="deadline"):
        await asyncio.to_thread(elsewhere)
    assert ready.is_set()
    assert states == ["ended"]


@pytest.mark.parametrize("name", ["json", "no.module:x", "json:nothing", "json:__doc__", "registered:999"])
def test_a_function_that_is_not_there_is_said(name: str) -> None:
    with pytest.raises(ConfigError) as raised:
        find_function(name)
    assert raised.value.kind == "function_unknown"
