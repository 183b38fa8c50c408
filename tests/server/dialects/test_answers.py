"""Claims about answers: streamed or whole, in either dialect, the same is said; nonsense is told from answers."""

from collections.abc import Iterable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.streams import read_chat_stream, read_responses_stream

from paddock.server.dialects import Answer, EventReader, ItemClosed, TokenCounts, body_of, make_writer
from paddock.server.dialects.answers import Tokens
from paddock.server.dialects.chat_answers import read_completion
from paddock.server.dialects.chat_reader import ChatReader
from paddock.server.dialects.failures import EngineFailedError, UnreadableError
from paddock.server.dialects.responses_answers import ResponsesReader, read_response
from paddock.types import FinishReason, JsonObject
from paddock.types.responses import call_item, custom_call_item, message_item, reasoning_item

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
items: st.SearchStrategy[JsonObject] = (
    st.builds(message_item, words)
    | st.builds(reasoning_item, words)
    | st.builds(call_item, words, words)
    | st.builds(custom_call_item, words, words)
)
finish_reasons: st.SearchStrategy[FinishReason] = st.sampled_from(["stop", "length", "content_filter"])
counts = st.builds(TokenCounts, st.integers(0, 9), st.integers(1, 9), *[st.integers(0, 9)] * 2)
answers = st.builds(Answer, st.lists(items, min_size=1, max_size=4), finish_reasons, counts)


def streamed(dialect: Any, parts: Iterable[Any]) -> bytes:
    request = {"stream_options": {"include_usage": True}}
    writer = make_writer(dialect, request, model="m")
    return writer.start() + b"".join(writer.write(part) for part in parts)


def whole_items(answer: Answer) -> list[Any]:
    return [*(ItemClosed(nth, item) for nth, item in enumerate(answer.output)), answer]


def read_stream(reader: ChatReader | ResponsesReader, raw: bytes, sizes: list[int]) -> list[Any]:
    """The parts of a stream that comes in chunks of those sizes."""
    parts: list[Any] = []
    events, start = EventReader(), 0
    for size in [*sizes, len(raw)]:
        for event in events.feed(raw[start : start + size]):
            parts += reader.read(event)
        start += size
    return [*parts, *reader.end()]


@given(answers, st.lists(st.integers(1, 400), max_size=20))
def test_a_responses_stream_says_what_the_whole_response_says(answer: Answer, sizes: list[int]) -> None:
    raw = streamed("responses", whole_items(answer))
    final = read_responses_stream(raw)
    whole = body_of("responses", answer, {}, model="m")
    for key in set(whole) - {"id", "created_at"}:
        assert final[key] == whole[key]
    parts = read_stream(ResponsesReader(), raw, sizes)
    again = read_response(whole)
    assert (parts[-1].output, parts[-1].counts) == (again.output, again.counts) == (answer.output, answer.counts)
    # Written again from its deltas, it still says the same.
    assert read_responses_stream(streamed("responses", parts))["output"] == answer.output


@given(answers, st.lists(st.integers(1, 400), max_size=20))
def test_a_chat_stream_says_what_the_whole_completion_says(answer: Answer, sizes: list[int]) -> None:
    raw = streamed("chat", whole_items(answer))
    said = read_chat_stream(raw)
    (choice,) = body_of("chat", answer, {}, model="m")["choices"]
    message = choice["message"]
    thoughts = [item["summary"][0]["text"] for item in answer.output if item["type"] == "reasoning"]
    assert said["content"] == (message["content"] or "")
    assert said["reasoning_content"] == "".join(thoughts)
    assert message.get("reasoning_content", "") == "\n".join(thoughts)
    assert said["tool_calls"] == message.get("tool_calls", [])
    assert (said["finish_reason"], said["usage"]["prompt_tokens"]) == (
        choice["finish_reason"],
        answer.counts.input_tokens if answer.counts else 0,
    )
    if not any(item["type"] == "custom_tool_call" for item in answer.output):
        parts = read_stream(ChatReader(frozenset()), raw, sizes)
        assert read_chat_stream(streamed("chat", parts)) == said
        assert read_responses_stream(streamed("responses", parts))["output"] == parts[-1].output


def test_a_call_whose_text_stood_in_a_function_comes_back_as_custom() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "patch", "arguments": '{"input": "*** Begin"}'}}
    body = {"choices": [{"message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    (item,) = read_completion(body, frozenset({"patch"})).output
    assert (item["type"], item["input"], item["call_id"]) == ("custom_tool_call", "*** Begin", "c")
    call["function"] = {"name": "patch", "arguments": '{"inp'}
    (item,) = read_completion(body, frozenset({"patch"})).output
    assert item["input"] == '{"inp'


@pytest.mark.parametrize(
    "body",
    [
        {"choices": []},
        {"choices": [{"message": None}]},
        [],
        None,
        {
            "prompt_token_ids": [1],
            "choices": [
                {"message": {"content": "a"}, "token_ids": [1, 2], "logprobs": {"content": [{"logprob": -1.0}]}}
            ],
        },
        {"choices": [{"message": {"content": "a"}, "logprobs": {"content": [{"token": "a"}]}}]},
        {
            "prompt_token_ids": [1],
            "choices": [{"message": {"content": "a"}, "token_ids": [2], "logprobs": {"content": [{"logprob": -1.0}]}}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2},
        },
    ],
)
def test_nonsense_is_no_completion(body: Any) -> None:
    with pytest.raises(UnreadableError):
        read_completion(body, frozenset())


@pytest.mark.parametrize("body", [{}, {"output": "text"}, [], None, {"output": [], "status": "in_progress"}])
def test_nonsense_is_no_response(body: Any) -> None:
    with pytest.raises(UnreadableError):
        read_response(body)


def test_an_answer_that_says_it_failed_is_none() -> None:
    for body in ({"error": {"message": "died"}}, {"status": "failed", "output": [], "error": {"code": "server_error"}}):
        with pytest.raises(EngineFailedError):
            read_response(body)
    with pytest.raises(EngineFailedError):
        read_completion({"error": "died"}, frozenset())
    with pytest.raises(EngineFailedError):
        read_completion({"choices": [{"message": {"content": "hal"}, "finish_reason": "abort"}]}, frozenset())


def test_ids_on_the_message_are_read_too() -> None:
    message = {
        "content": "a",
        "prompt_token_ids": [1, 2],
        "generation_token_ids": [3],
        "generation_log_probs": [-0.5],
    }
    answer = read_completion({"choices": [{"message": message, "finish_reason": "stop"}]}, frozenset())
    assert answer.tokens == Tokens([1, 2], [3], [-0.5])


def test_a_stream_without_its_end_is_no_answer() -> None:
    said = Answer([message_item("hello"), call_item("f", "{}")], "stop")
    for dialect, make_reader in (("chat", lambda: ChatReader(frozenset())), ("responses", ResponsesReader)):
        raw = streamed(dialect, whole_items(said))
        blocks = raw.split(b"\n\n")
        ends = 3 if dialect == "chat" else 1
        for kept in range(len(blocks) - ends - 1):
            with pytest.raises(UnreadableError):
                read_stream(make_reader(), b"\n\n".join(blocks[:kept]) + b"\n\n", [])


# fmt: off
JUNK_KEYS = [
    "id", "type", "role", "content", "text", "delta", "index", "function", "name", "arguments", "summary",
    "part", "item", "call_id", "input", "logprob", "reasoning", "tool_calls", "refusal", "output_index",
]
# fmt: on
junk: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "f", "stop", "output_text", "message"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(JUNK_KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)
CHUNK_KEYS = ["delta", "message", "finish_reason", "token_ids", "logprobs", "index"]
chunks = st.fixed_dictionaries(
    {},
    optional={
        "choices": st.lists(st.dictionaries(st.sampled_from(CHUNK_KEYS), junk, max_size=4) | junk, max_size=2),
        "usage": junk,
        "model": junk,
        "prompt_token_ids": junk,
        "weight_version": junk,
    },
)
EVENTS = [
    "response.output_item.added",
    "response.output_text.delta",
    "response.reasoning_summary_text.delta",
    "response.function_call_arguments.delta",
    "response.output_item.done",
    "response.completed",
    "response.incomplete",
    "error",
]
response_events = st.fixed_dictionaries(
    {"type": st.sampled_from(EVENTS)},
    optional={
        "output_index": st.integers(0, 2),
        "item": junk,
        "delta": junk,
        "content_index": junk,
        "response": st.fixed_dictionaries({}, optional={"output": st.lists(junk, max_size=2), "usage": junk}) | junk,
        "error": junk,
    },
)


@pytest.mark.slow
@given(st.lists(chunks, max_size=4) | st.lists(junk, max_size=2))
def test_any_chunks_are_an_answer_or_an_owned_failure(said: list[Any]) -> None:
    raw = b"".join(b"data: %s\n\n" % orjson.dumps(chunk) for chunk in said)
    try:
        parts = read_stream(ChatReader(frozenset({"f"})), raw, [])
    except (UnreadableError, EngineFailedError):
        return
    read_chat_stream(streamed("chat", parts))
    assert read_responses_stream(streamed("responses", parts))["output"] == parts[-1].output


@given(st.lists(response_events, max_size=5) | st.lists(junk, max_size=2))
def test_any_events_are_an_answer_or_an_owned_failure(said: list[Any]) -> None:
    raw = b"".join(b"data: %s\n\n" % orjson.dumps(event) for event in said)
    try:
        parts = read_stream(ResponsesReader(), raw, [])
    except (UnreadableError, EngineFailedError):
        return
    streamed("chat", parts)
    streamed("responses", parts)


@given(chunks | junk)
def test_any_body_is_an_answer_or_an_owned_failure(body: Any) -> None:
    for read in (read_response, lambda given: read_completion(given, frozenset({"f"}))):
        try:
            answer = read(body)
        except (UnreadableError, EngineFailedError):
            continue
        body_of("chat", answer, {}, model="m")
        body_of("responses", answer, {}, model="m")


@pytest.mark.parametrize("include", [["reasoning.encrypted_content"], [], None])
def test_a_handle_goes_into_reasoning_alone_and_only_when_asked_for(include: Any) -> None:
    request: JsonObject = {"include": include}
    said = [reasoning_item("Hm."), message_item("a")]
    answer = Answer(said, "stop", handle="turn_1")
    writer = make_writer("responses", request, model="m", handle="turn_1")
    raw = writer.start() + writer.keepalive() + b"".join(writer.write(part) for part in whole_items(answer))
    for body in (body_of("responses", answer, request, model="m"), read_responses_stream(raw)):
        assert body["output"][0].get("encrypted_content") == ("turn_1" if include else None)
        assert "turn_1" not in str(body["output"][1])
    assert "encrypted_content" not in said[0]
    assert "turn_1" not in str(body_of("chat", answer, request, model="m"))
    alone = Answer([message_item("a")], "stop", handle="turn_1")
    assert body_of("responses", alone, request, model="m")["output"] == alone.output


def test_what_an_engine_sealed_itself_stays() -> None:
    own = {**reasoning_item("Hm."), "encrypted_content": "sealed"}
    request = {"include": ["reasoning.encrypted_content"]}
    body = body_of("responses", Answer([own], "stop", handle="turn_1"), request, model="m")
    assert body["output"][0]["encrypted_content"] == "sealed"


def test_a_beat_changes_nothing_of_what_is_said() -> None:
    answer = Answer([message_item("a b"), call_item("f", "{}")], "stop")
    for dialect, read in (("responses", read_responses_stream), ("chat", read_chat_stream)):
        writer = make_writer(dialect, {}, model="m")  # type: ignore[arg-type]
        raw = [writer.start(), writer.keepalive()]
        for part in whole_items(answer):
            raw += [writer.keepalive(), writer.write(part)]
        with_beats, without = read(b"".join(raw)), read(streamed(dialect, whole_items(answer)))
        for key in ("output", "content", "tool_calls", "finish_reason", "status"):
            assert with_beats.get(key) == without.get(key)


def test_a_stop_string_that_the_engine_names_is_kept() -> None:
    choice: JsonObject = {"message": {"content": "a"}, "finish_reason": "stop", "stop_reason": "END"}
    assert read_completion({"choices": [choice]}, frozenset()).stop_sequence == "END"
    assert read_completion({"choices": [{**choice, "stop_reason": 151645}]}, frozenset()).stop_sequence is None
    chunk = b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop", "stop_reason": "END"}]}\n\n'
    assert read_stream(ChatReader(frozenset()), chunk, [])[-1].stop_sequence == "END"
