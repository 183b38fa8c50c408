"""Claims about the Messages dialect: what it says becomes items, what items say becomes it, streamed or whole."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.streams import read_events, read_messages_stream

from paddock.errors import RequestError
from paddock.server.dialects import Answer, ItemClosed, ItemDelta, ItemOpened, TokenCounts, body_of, make_writer
from paddock.server.dialects.conversation import conversation, read_request
from paddock.server.dialects.from_messages import MALFORMED
from paddock.server.dialects.to_chat import chat_request
from paddock.server.dialects.to_responses import responses_request
from paddock.types import FinishReason, JsonObject
from paddock.types.responses import call_item, custom_call_item, message_item, reasoning_item, skeleton

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
arguments = words | st.dictionaries(words, words).map(lambda said: orjson.dumps(said).decode())
items: st.SearchStrategy[JsonObject] = (
    st.builds(message_item, words)
    | st.builds(reasoning_item, words)
    | st.builds(call_item, words, arguments)
    | st.builds(custom_call_item, words, words)
)
finish_reasons: st.SearchStrategy[FinishReason] = st.sampled_from(["stop", "length", "content_filter"])
answers = st.builds(
    Answer,
    st.lists(items, max_size=4),
    finish_reasons,
    st.builds(TokenCounts, *[st.integers(0, 9)] * 4),
    handle=st.none() | words,
    stop_sequence=st.none() | words,
)
_CHANNELS: dict[str, Any] = {
    "message": "text",
    "reasoning": "summary",
    "function_call": "arguments",
    "custom_tool_call": "input",
}


def texts_of(item: JsonObject) -> str:
    held = item.get("content") or item.get("summary")
    return str(held[0]["text"] if held else item.get("arguments", item.get("input")))


@given(answers, st.integers(1, 7), st.booleans())
def test_a_stream_says_what_the_whole_message_says(answer: Answer, size: int, grows: bool) -> None:
    writer = make_writer("messages", {}, model="m", handle=answer.handle)
    raw = [writer.start()]
    for nth, item in enumerate(answer.output):
        if grows:
            raw.append(writer.write(ItemOpened(nth, skeleton(item))))
            text = texts_of(item)
            pieces = [text[at : at + size] for at in range(0, len(text), size)]
            raw += [writer.write(ItemDelta(nth, _CHANNELS[item["type"]], piece)) for piece in pieces]
        raw += [writer.keepalive(), writer.write(ItemClosed(nth, item))]
    streamed = read_messages_stream(b"".join([*raw, writer.write(answer)]))
    whole = body_of("messages", answer, {}, model="m")
    for key in set(whole) - {"id"}:
        assert streamed[key] == whole[key]


@given(answers)
def test_what_was_said_is_told_again_by_the_same_items(answer: Answer) -> None:
    message = body_of("messages", answer, {}, model="m")
    again = read_request("messages", {"messages": [{"role": "assistant", "content": message["content"]}]}).body["input"]
    told: list[Any] = []
    for item in answer.output:
        match item["type"]:
            case "message":
                if told and told[-1][0] == "message":
                    told[-1] = ("message", told[-1][1] + texts_of(item))
                else:
                    told.append(("message", texts_of(item)))
            case "reasoning":
                told.append(("reasoning", texts_of(item), answer.handle))
            case "custom_tool_call":
                told.append(("function_call", item["call_id"], item["name"], {"input": item["input"]}))
            case _:
                told.append(("function_call", item["call_id"], item["name"], parsed(item["arguments"])))
    assert [comparable(item) for item in again] == told


def comparable(item: JsonObject) -> Any:
    match item["type"]:
        case "message":
            return ("message", item["content"])
        case "reasoning":
            return ("reasoning", texts_of(item), item.get("encrypted_content"))
    return ("function_call", item["call_id"], item["name"], parsed(item["arguments"]))


def parsed(raw: str) -> Any:
    """An object; else the text as it is."""
    try:
        found = orjson.loads(raw)
    except orjson.JSONDecodeError:
        found = None
    return found if isinstance(found, dict) else raw if raw.strip() else {}


def test_arguments_that_are_no_object_reach_the_client_as_something_to_refuse() -> None:
    for raw in ('{"a": ', "[1]", "ls -la"):
        (block,) = body_of("messages", Answer([call_item("f", raw)]), {}, model="m")["content"]
        assert block["input"] == {MALFORMED: raw}
    (block,) = body_of("messages", Answer([call_item("f", "")]), {}, model="m")["content"]
    assert block["input"] == {}


@pytest.mark.parametrize(
    ("answer", "reason", "sequence"),
    [
        (Answer([message_item("a")], "stop"), "end_turn", None),
        (Answer([message_item("a")], "stop", stop_sequence="\n"), "stop_sequence", "\n"),
        (Answer([call_item("f", "{}")], "stop"), "tool_use", None),
        (Answer([call_item("f", "{}")], "length"), "max_tokens", None),
        (Answer([message_item("a")], "content_filter"), "refusal", None),
        (Answer([message_item("")], "stop"), "end_turn", None),
    ],
)
def test_the_end_is_named(answer: Answer, reason: str, sequence: str | None) -> None:
    body = body_of("messages", answer, {}, model="m")
    assert (body["stop_reason"], body["stop_sequence"]) == (reason, sequence)


def test_a_handle_is_the_signature_of_thoughts_and_of_nothing_else() -> None:
    thought = body_of("messages", Answer([reasoning_item("Hm."), message_item("a")], handle="turn_1"), {}, model="m")
    assert thought["content"][0] == {"type": "thinking", "thinking": "Hm.", "signature": "turn_1"}
    assert body_of("messages", Answer([reasoning_item("Hm.")]), {}, model="m")["content"][0]["signature"] == ""
    assert "turn_1" not in str(body_of("messages", Answer([message_item("a")], handle="turn_1"), {}, model="m"))
    own = {**reasoning_item("Hm."), "encrypted_content": "sealed"}
    assert body_of("messages", Answer([own], handle="turn_1"), {}, model="m")["content"][0]["signature"] == "sealed"


def test_input_from_the_cache_is_counted_apart() -> None:
    usage = body_of("messages", Answer([], counts=TokenCounts(10, 5, 3)), {}, model="m")["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (7, 3, 5)


ASKED: JsonObject = {
    "model": "claude",
    "max_tokens": 99,
    "temperature": 0.5,
    "top_k": 4,
    "stop_sequences": ["END"],
    "system": [{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}],
    "metadata": {"user_id": "u", "extra_body": '{"seed": 3}'},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "context_management": {"edits": []},
    "tools": [
        {"name": "f", "description": "d", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}},
        {"type": "web_search_20250305", "name": "web_search"},
    ],
    "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    "messages": [
        {"role": "user", "content": "List."},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "turn_1"},
                {"type": "text", "text": "Let me "},
                {"type": "text", "text": "see."},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
                {"type": "tool_use", "id": "c2", "name": "f", "input": {MALFORMED: '{"a'}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a.py"}]},
                {"type": "tool_result", "tool_use_id": "c2", "content": "bad", "is_error": True},
                {"type": "text", "text": "Go on."},
            ],
        },
        {"role": "system", "content": "A reminder."},
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "sealed"}]},
        {"role": "user", "content": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]},
    ],
}


def test_a_request_is_read_as_items_and_settings() -> None:
    taken = read_request("messages", ASKED)
    assert taken.body["input"] == [
        {"type": "message", "role": "system", "content": "Be short."},
        {"type": "message", "role": "user", "content": "List."},
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "turn_1",
        },
        {"type": "message", "role": "assistant", "content": "Let me see."},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'},
        {"type": "function_call", "call_id": "c2", "name": "f", "arguments": '{"a'},
        {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
        {"type": "function_call_output", "call_id": "c2", "output": "bad"},
        {"type": "message", "role": "user", "content": "Go on."},
        {"type": "message", "role": "system", "content": "A reminder."},
        {"type": "reasoning", "summary": [], "encrypted_content": "sealed"},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "One."}, {"type": "input_text", "text": "Two."}],
        },
    ]
    assert taken.extra_body == {"seed": 3}
    assert taken.dropped == [
        "context_management",
        "tools.web_search_20250305",
        "metadata.user_id",
        "thinking.budget_tokens",
    ]


def test_a_request_becomes_one_for_either_kind_of_endpoint() -> None:
    body = read_request("messages", ASKED).body
    chat = chat_request(body).body
    assert [message["role"] for message in chat["messages"]] == [
        *["system", "user", "assistant", "tool", "tool", "user", "system", "user"],
    ]
    function = {"name": "f", "description": "d", "parameters": {"type": "object"}}
    assert {key: chat[key] for key in chat if key != "messages"} == {
        "max_tokens": 99,
        "temperature": 0.5,
        "top_k": 4,
        "stop": ["END"],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
    }
    responses = responses_request(body).body
    assert responses["max_output_tokens"] == 99
    assert all("id" in item for item in responses["input"] if item["type"] == "reasoning")


@pytest.mark.parametrize(
    ("said", "kwargs"),
    [
        ({"thinking": {"type": "disabled"}}, {"enable_thinking": False}),
        ({"thinking": {"type": "adaptive"}}, None),
        (
            {"thinking": {"type": "disabled"}, "chat_template_kwargs": {"enable_thinking": True}},
            {"enable_thinking": True},
        ),
    ],
)
def test_thinking_can_be_turned_off(said: JsonObject, kwargs: Any) -> None:
    assert read_request("messages", {"messages": [], **said}).extra_body.get("chat_template_kwargs") == kwargs


def test_the_wanted_form_and_effort_are_passed_on() -> None:
    form = {"type": "json_schema", "schema": {"type": "object"}}
    body = read_request("messages", {"messages": [], "output_config": {"effort": "max", "format": form}}).body
    chat = chat_request(body).body
    assert chat["reasoning_effort"] == "high"
    assert chat["response_format"]["json_schema"]["schema"] == {"type": "object"}


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
    ],
)
def test_a_choice_of_tools_is_passed_on(choice: JsonObject, found: Any) -> None:
    tools = [{"name": "f", "input_schema": {"type": "object"}}]
    assert chat_request(read_request("messages", {"messages": [], "tools": tools, "tool_choice": choice}).body).body[
        "tool_choice"
    ] == (found)


def test_images_are_passed_on_and_what_would_be_lost_is_refused() -> None:
    def request_of(block: JsonObject) -> JsonObject:
        return {"messages": [{"role": "user", "content": [block]}]}

    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
    (message,) = chat_request(read_request("messages", request_of(image)).body).body["messages"]
    assert message["content"][0]["image_url"]["url"] == "data:image/png;base64,AA"
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}}
    assert read_request("messages", request_of(document)).body["input"][0]["content"] == "words"
    for block in (
        {"type": "image", "source": {"type": "file", "file_id": "f"}},
        {"type": "document", "source": {"type": "base64", "data": "AA"}},
    ):
        with pytest.raises(RequestError, match=str(block["type"])):
            read_request("messages", request_of(block))
    with pytest.raises(RequestError, match="messages"):
        read_request("messages", {"input": "hi"})


def test_a_stream_that_breaks_ends_in_an_error() -> None:
    writer = make_writer("messages", {}, model="m")
    (event,) = read_events(writer.fail("the engine died", "upstream_failed"))
    assert (event.name, orjson.loads(event.data)["error"]["type"]) == ("error", "api_error")


# fmt: off
JUNK_KEYS = ["type", "role", "content", "text", "thinking", "input", "name", "source", "data", "id", "tool_use_id"]
KINDS = ["", "text", "user", "assistant", "tool_use", "tool_result", "thinking", "image", "function", "custom"]
# fmt: on
junk: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(KINDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(JUNK_KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(junk, max_size=3), junk, junk, junk, junk)
def test_any_request_is_read_or_refused(messages: list[Any], tools: Any, choice: Any, system: Any, more: Any) -> None:
    request_of = {"messages": messages, "tools": tools, "tool_choice": choice, "system": system}
    try:
        body = read_request("messages", {**request_of, "thinking": more, "output_config": more}).body
    except RequestError:
        return
    chat_request(body)
    responses_request(body)


def test_what_a_program_tells_its_provider_alone_is_not_told_the_model() -> None:
    system = [{"type": "text", "text": f"x-anthropic-billing-header: {nonce}"} for nonce in ("a", "b")]
    request = {"messages": [{"role": "user", "content": "Go."}], "system": [*system, {"type": "text", "text": "Be."}]}
    told = conversation("messages", request).items
    assert [(item["role"], item["content"]) for item in told] == [("system", "Be."), ("user", "Go.")]
