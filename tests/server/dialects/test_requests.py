"""Claims about requests: what both dialects can say survives the way there and back; the rest is named, not lost."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import RequestError
from paddock.server.dialects.conversation import read_request
from paddock.server.dialects.to_chat import chat_request
from paddock.server.dialects.to_responses import responses_request
from paddock.types import JsonObject

text = st.text(max_size=8)
words = st.text(st.characters(categories=["Ll"]), min_size=1, max_size=6)


@st.composite
def histories(draw: st.DrawFn) -> list[JsonObject]:
    """Chat messages of an agent's run: turns of reasoning, text, calls of both kinds, and their outputs."""
    messages: list[JsonObject] = [{"role": "system", "content": draw(text)}, {"role": "user", "content": draw(text)}]
    for number in range(draw(st.integers(0, 4))):
        calls = [_call(draw, f"call_{number}_{nth}") for nth in range(draw(st.integers(0, 2)))]
        content = draw(words) if not calls else draw(st.none() | words)
        message: JsonObject = {"role": "assistant", "content": content}
        if draw(st.booleans()):
            thought = draw(words)
            message |= {"reasoning": thought, "reasoning_content": thought}
        if calls:
            message["tool_calls"] = calls
        messages.append(message)
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": draw(text)} for call in calls]
        if not calls:
            messages.append({"role": "user", "content": draw(text | parts)})
    return messages


image = st.builds(lambda url: {"type": "image_url", "image_url": {"url": url, "detail": "auto"}}, words)
parts: st.SearchStrategy[Any] = st.lists(
    st.builds(lambda said: {"type": "text", "text": said}, text) | image, min_size=2, max_size=3
)


def _call(draw: st.DrawFn, call_id: str) -> JsonObject:
    if draw(st.booleans()):
        return {"id": call_id, "type": "custom", "custom": {"name": draw(words), "input": draw(text)}}
    return {"id": call_id, "type": "function", "function": {"name": draw(words), "arguments": draw(text)}}


FUNCTIONS = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}]
settings = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.floats(0, 2),
        "top_p": st.floats(0, 1),
        "max_tokens": st.integers(1, 99),
        "reasoning_effort": st.sampled_from(["low", "high"]),
        "parallel_tool_calls": st.booleans(),
        "tool_choice": st.sampled_from(["auto", "required", {"type": "function", "function": {"name": "f"}}]),
        "response_format": st.just({"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}}),
    },
)


@pytest.mark.slow
@given(histories(), settings)
def test_a_chat_request_survives_the_way_through_responses(messages: list[JsonObject], said: JsonObject) -> None:
    asked = read_request("chat", {"messages": messages, "tools": FUNCTIONS, **said}).body
    there = responses_request(asked)
    back = chat_request(read_request("responses", there.body).body)
    direct = chat_request(asked)
    assert there.dropped == back.dropped == direct.dropped == []
    for tool in back.body["tools"]:
        assert tool["function"].pop("strict") is False
    assert back.body == direct.body


@given(histories())
def test_every_call_keeps_its_output_right_after_it(messages: list[JsonObject]) -> None:
    items = responses_request(read_request("chat", {"messages": messages}).body).body
    open_calls: list[str] = []
    for message in chat_request(read_request("responses", items).body).body["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_calls.pop(0)
        else:
            assert not open_calls
            open_calls = [call["id"] for call in message.get("tool_calls", [])]


def chat_of(items: Any, **more: Any) -> list[JsonObject]:
    messages: list[JsonObject] = chat_request(read_request("responses", {"input": items, **more}).body).body["messages"]
    return messages


def test_the_items_of_one_turn_become_one_message() -> None:
    items = [
        {"role": "developer", "content": [{"type": "input_text", "text": "Rules."}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}], "status": None},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]},
        {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*** Begin"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "a.py"}]},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "ok"},
        {"type": "message", "role": "assistant", "content": "One."},
        {"type": "message", "role": "assistant", "content": "Two."},
    ]
    function = {"name": "bash", "arguments": "{}"}
    patch = {"name": "patch", "arguments": '{"input":"*** Begin"}'}
    assert chat_of(items) == [
        {"role": "developer", "content": "Rules."},
        {
            "role": "assistant",
            "content": "Let me see.",
            "reasoning": "Hm.",
            "reasoning_content": "Hm.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": function},
                {"id": "c2", "type": "function", "function": patch},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
        {"role": "tool", "tool_call_id": "c2", "content": "ok"},
        {"role": "assistant", "content": "One."},
        {"role": "assistant", "content": "Two."},
    ]


def test_what_is_said_after_a_call_does_not_part_it_from_its_output() -> None:
    items = [
        {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": "{}"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "message", "role": "assistant", "content": "Running."},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
    ]
    called, output = chat_of(items)
    assert (called["content"], called["reasoning"], called["tool_calls"][0]["id"]) == ("Running.", "Hm.", "c1")
    assert output == {"role": "tool", "tool_call_id": "c1", "content": "ok"}


def test_a_bare_string_and_instructions_are_messages() -> None:
    assert chat_of("hi", instructions="Be short.") == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "hi"},
    ]


def test_what_can_not_be_said_is_named() -> None:
    request: JsonObject = {
        "input": [{"type": "web_search_call", "id": "ws_1"}, {"role": "user", "content": "hi"}],
        "tools": [{"type": "web_search"}, {"type": "function", "name": "f"}],
        "client_metadata": {},
        "odd": None,
    }
    taken = read_request("responses", request)
    converted = chat_request(taken.body)
    assert taken.dropped + converted.dropped == ["client_metadata", "input.web_search_call", "tools.web_search"]
    assert [tool["function"]["name"] for tool in converted.body["tools"]] == ["f"]
    assert responses_request(read_request("chat", {"messages": [], "seed": 1}).body).dropped == ["seed"]


def test_without_tools_nothing_is_said_about_choosing_them() -> None:
    asked = {"input": "hi", "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    assert set(chat_request(read_request("responses", asked).body).body) == {"messages"}
    assert "tool_choice" not in responses_request(read_request("responses", asked).body).body


@pytest.mark.parametrize(
    ("dialect", "body", "where"),
    [
        ("responses", {}, "input"),
        ("responses", {"input": None}, "input"),
        ("responses", {"input": {"role": "user"}}, "input"),
        ("chat", {"input": "hi"}, "messages"),
        ("chat", {"messages": "hi"}, "messages"),
        ("chat", {"messages": [], "n": 3}, "n:"),
        ("responses", {"input": "hi", "metadata": {"extra_body": "[1]"}}, "metadata.extra_body"),
        ("responses", {"input": "hi", "extra_body": 3}, "extra_body"),
    ],
)
def test_a_request_that_would_mean_something_else_is_refused(dialect: Any, body: JsonObject, where: str) -> None:
    with pytest.raises(RequestError, match=where):
        read_request(dialect, body)


def test_a_history_that_is_elsewhere_is_refused() -> None:
    with pytest.raises(RequestError, match="previous_response_id"):
        chat_request(read_request("responses", {"input": "hi", "previous_response_id": "resp_1"}).body)


def test_a_request_is_not_changed_by_being_taken() -> None:
    request = {"input": "hi", "metadata": {"extra_body": '{"seed": 1}', "kept": "yes"}, "top_p": None}
    taken = read_request("responses", request)
    assert taken.extra_body == {"seed": 1}
    assert taken.body == {"input": "hi", "metadata": {"kept": "yes"}}
    assert request == {"input": "hi", "metadata": {"extra_body": '{"seed": 1}', "kept": "yes"}, "top_p": None}


# fmt: off
JUNK_KEYS = [
    "type", "role", "content", "text", "tool_calls", "function", "custom", "name", "arguments", "output",
    "summary",
]
# fmt: on
junk: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "text", "user", "assistant", "function"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(JUNK_KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(junk, max_size=3), junk, junk)
def test_any_history_and_tools_can_be_read(items: list[Any], tools: Any, choice: Any) -> None:
    for dialect, key in (("responses", "input"), ("chat", "messages")):
        body = read_request(dialect, {key: items, "tools": tools, "tool_choice": choice}).body  # type: ignore[arg-type]
        chat_request(body)
        responses_request(body)
