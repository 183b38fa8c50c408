"""Claims about conversations: one history is the same items in every dialect; its tools are offered and recognised."""

import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import RequestError
from paddock.server.dialects import Dialect, chat_messages, conversation, require_renderable
from paddock.server.dialects.chat_answers import read_completion
from paddock.server.dialects.chat_items import ChatItems
from paddock.server.dialects.conversation import read_request
from paddock.server.dialects.to_chat import chat_request
from paddock.server.dialects.to_responses import responses_request
from paddock.types import JsonObject

words = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=8)
inputs = st.dictionaries(words, words | st.integers(0, 9), max_size=2)


@st.composite
def tellings(draw: st.DrawFn) -> dict[Dialect, JsonObject]:
    """One run of an agent as the clients of all three dialects tell it."""
    system, task = draw(words), draw(words)
    responses: list[JsonObject] = [{"role": "user", "content": [{"type": "input_text", "text": task}]}]
    chat: list[JsonObject] = [{"role": "system", "content": system}, {"role": "user", "content": task}]
    messages: list[JsonObject] = [{"role": "user", "content": [{"type": "text", "text": task}]}]
    for number in range(draw(st.integers(0, 3))):
        thought, handle, said = draw(st.none() | words), draw(st.none() | words), draw(st.none() | words)
        calls = [(f"c{number}{nth}", draw(words), draw(inputs)) for nth in range(draw(st.integers(0, 2)))]
        said = said if said or calls else "Done."
        result = draw(words)
        own_items, message, blocks = _turn(thought, handle, said, calls)
        responses += own_items
        chat.append(message)
        messages.append({"role": "assistant", "content": blocks})
        for call_id, _, _ in calls:
            responses.append(
                {"type": "function_call_output", "call_id": call_id, "output": result, "id": f"o{call_id}"}
            )
            chat.append({"role": "tool", "tool_call_id": call_id, "content": result})
        results: list[JsonObject] = [
            {"type": "tool_result", "tool_use_id": call_id, "content": result} for call_id, _, _ in calls
        ]
        if not calls:
            responses.append({"type": "message", "role": "user", "content": result})
            chat.append({"role": "user", "content": [{"type": "text", "text": result}]})
            results = [{"type": "text", "text": result}]
        messages.append({"role": "user", "content": results})
    schema = {"type": "object"}
    return {
        "responses": {
            "instructions": system,
            "input": responses,
            "tools": [{"type": "function", "name": "f", "description": "d", "parameters": schema}],
        },
        "chat": {
            "messages": chat,
            "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": schema}}],
        },
        "messages": {
            "system": system,
            "messages": messages,
            "tools": [{"name": "f", "description": "d", "input_schema": schema}],
        },
    }


def _turn(thought: Any, handle: Any, said: Any, calls: Any) -> tuple[list[JsonObject], JsonObject, list[JsonObject]]:
    items: list[JsonObject] = []
    message: JsonObject = {"role": "assistant", "content": said}
    blocks: list[JsonObject] = []
    if thought:
        summary = [{"type": "summary_text", "text": thought}]
        items.append({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": handle})
        message["reasoning_content"] = thought
        message["thinking_blocks"] = [{"type": "thinking", "thinking": thought, "signature": handle}]
        blocks.append({"type": "thinking", "thinking": thought, "signature": handle or ""})
    if said:
        content = [{"type": "output_text", "text": said, "annotations": []}]
        items.append({"type": "message", "id": "msg_1", "role": "assistant", "content": content, "status": "completed"})
        blocks.append({"type": "text", "text": said})
    for call_id, name, given_input in calls:
        raw = orjson.dumps(given_input).decode()
        items.append({"type": "function_call", "id": "fc_1", "call_id": call_id, "name": name, "arguments": raw})
        function = {"name": name, "arguments": raw}
        message.setdefault("tool_calls", []).append({"id": call_id, "type": "function", "function": function})
        blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": given_input})
    return items, message, blocks


@pytest.mark.slow
@given(tellings())
def test_a_history_is_the_same_in_every_dialect(told: dict[Dialect, JsonObject]) -> None:
    found = {dialect: conversation(dialect, request) for dialect, request in told.items()}
    without_ids = {
        dialect: [{key: item[key] for key in item if key != "id"} for item in each.items]
        for dialect, each in found.items()
    }
    assert without_ids["responses"] == without_ids["chat"] == without_ids["messages"]
    assert found["responses"].tools == found["chat"].tools == found["messages"].tools
    # And it is what each is turned into for an endpoint.
    rendered = chat_messages(found["messages"].items)
    assert rendered == chat_request(read_request("messages", told["messages"]).body).body["messages"]
    assert rendered == chat_request(read_request("responses", told["responses"]).body).body["messages"]


@given(tellings())
def test_a_request_is_not_changed_by_being_told(told: dict[Dialect, JsonObject]) -> None:
    for dialect, request in told.items():
        before = orjson.dumps(request)
        conversation(dialect, request)
        assert orjson.dumps(request) == before


def test_ids_of_items_stay_where_a_dialect_has_them() -> None:
    items = [
        {"type": "reasoning", "id": "rs_1", "content": [{"type": "reasoning_text", "text": "Hm."}], "summary": []},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "patch", "input": "x", "status": None},
    ]
    found = conversation("responses", {"input": items}).items
    assert found == [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "id": "rs_1"},
        {"type": "message", "role": "assistant", "content": "No.", "id": "msg_1"},
        {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "x", "id": "ctc_1"},
    ]


EXEC = {"type": "custom", "name": "exec", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}}
WAIT = {"type": "function", "name": "wait", "parameters": {"type": "object"}}
CODE_MODE: JsonObject = {
    "input": [
        {
            "type": "additional_tools",
            "role": "developer",
            "tools": [
                {"type": "namespace", "name": "functions", "description": "", "tools": [EXEC, WAIT]},
                {"type": "namespace", "name": "agents", "description": "", "tools": [WAIT]},
                {"type": "tool_search", "name": "tool_search"},
            ],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "custom_tool_call", "call_id": "c1", "name": "exec", "namespace": "functions", "input": "text(1)"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "1"}]},
        {"type": "function_call", "call_id": "c2", "name": "wait", "namespace": "agents", "arguments": "{}"},
        {"type": "tool_search_call", "call_id": "c3"},
    ],
}


def test_tools_of_a_namespace_are_offered_by_name_alone_while_that_is_clear() -> None:
    told = conversation("responses", CODE_MODE)
    names = [tool["function"]["name"] for tool in told.tools]
    assert names == ["exec", "functions__wait", "agents__wait"]
    assert told.custom == {"exec"}
    assert told.namespaces == {
        "exec": ("functions", "exec"),
        "functions__wait": ("functions", "wait"),
        "agents__wait": ("agents", "wait"),
    }
    assert told.dropped == ["tools.tool_search", "input.tool_search_call"]
    assert "lark grammar" in told.tools[0]["function"]["description"]
    assert [item.get("name") for item in told.items] == [None, "exec", None, "agents__wait"]
    chat = chat_request(read_request("responses", CODE_MODE).body)
    called = [call["function"]["name"] for message in chat.body["messages"] for call in message.get("tool_calls", ())]
    assert (called, chat.body["tools"]) == (["exec", "agents__wait"], told.tools)
    assert chat.body["messages"] == chat_messages(told.items)


def test_calls_of_offered_tools_come_back_as_the_client_knows_them() -> None:
    told = conversation("responses", CODE_MODE)
    calls = [("exec", '{"input": "text(1)"}'), ("agents__wait", "{}"), ("unheard_of", "{}")]
    message = {
        "tool_calls": [
            {"id": f"c{nth}", "index": nth, "function": {"name": name, "arguments": raw}}
            for nth, (name, raw) in enumerate(calls)
        ]
    }
    body = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    output = read_completion(body, told.custom, told.namespaces).output
    assert [(item["type"], item["name"], item.get("namespace")) for item in output] == [
        ("custom_tool_call", "exec", "functions"),
        ("function_call", "wait", "agents"),
        ("function_call", "unheard_of", None),
    ]
    assert output[0]["input"] == "text(1)"
    streamed = ChatItems(told.custom, told.namespaces)
    parts = [*streamed.delta(message), *streamed.end()]
    assert parts
    shown = [{key: item[key] for key in item if key != "id"} for item in streamed.output]
    assert shown == [{key: item[key] for key in item if key != "id"} for item in output]


def test_a_responses_endpoint_gets_added_tools_as_tools() -> None:
    body = responses_request(read_request("responses", CODE_MODE).body).body
    assert [tool["type"] for tool in body["tools"]] == ["namespace", "namespace", "tool_search"]
    assert body["input"][0]["role"] == "user"


def test_the_later_definition_of_a_tool_counts() -> None:
    later = {**WAIT, "description": "Waits longer."}
    added = {"type": "additional_tools", "tools": [later]}
    (tool,) = conversation("responses", {"input": [added], "tools": [WAIT]}).tools
    assert tool["function"]["description"] == "Waits longer."


def test_what_is_said_about_sampling_and_the_template_is_told_apart() -> None:
    said = {"temperature": 0.5, "extra_body": {"min_p": 0.1}, "chat_template_kwargs": {"enable_thinking": False}}
    asked: dict[Dialect, JsonObject] = {
        "responses": {"input": "hi", "max_output_tokens": 5, **said},
        "chat": {"messages": [], "max_tokens": 5, **said},
        "messages": {"messages": [], "max_tokens": 5, **said},
    }
    for dialect, request in asked.items():
        told = conversation(dialect, request)
        assert told.arguments == {"enable_thinking": False}
        assert told.params == {"temperature": 0.5, "max_tokens": 5, "min_p": 0.1}


def test_what_no_template_can_be_given_is_refused_by_name() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    pictured: JsonObject = {"messages": [{"role": "user", "content": [{"type": "text", "text": "See:"}, image]}]}
    with pytest.raises(RequestError, match="images"):
        require_renderable(pictured, conversation("chat", pictured))
    elsewhere = {"input": "hi", "previous_response_id": "resp_1"}
    with pytest.raises(RequestError, match="previous_response_id"):
        require_renderable(elsewhere, conversation("responses", elsewhere))
    plain: JsonObject = {"input": "hi"}
    require_renderable(plain, conversation("responses", plain))


def test_a_long_history_is_told_in_a_moment() -> None:
    items: list[JsonObject] = []
    for number in range(133):
        items += [
            {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "turn_1"},
            {"type": "function_call", "call_id": f"c{number}", "name": "bash", "arguments": '{"command": "ls"}'},
            {"type": "function_call_output", "call_id": f"c{number}", "output": "x" * 4000},
        ]
    took_s = []
    for _ in range(20):
        started = time.perf_counter()
        conversation("responses", {"input": items})
        took_s.append(time.perf_counter() - started)
    assert min(took_s) < 0.004  # a third of a millisecond where nothing else runs


def test_an_image_among_the_instructions_is_refused() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,eA=="}
    request: JsonObject = {"input": [{"role": "user", "content": "Go on."}], "instructions": [image]}
    with pytest.raises(RequestError, match="images"):
        require_renderable(request, conversation("responses", request))


def test_tools_of_a_namespace_within_the_input_rename_the_calls_before_them() -> None:
    tools = [{"type": "namespace", "name": name, "tools": [{"type": "function", "name": "f"}]} for name in ("a", "b")]
    call = {"type": "function_call", "call_id": "c", "name": "f", "namespace": "a", "arguments": "{}"}
    added = [{"type": "additional_tools", "tools": [tool]} for tool in tools]
    one, both = (
        conversation("responses", {"input": items}) for items in ([added[0], call], [added[0], call, added[1]])
    )
    assert [item["name"] for item in one.items] == ["f"]
    assert [item["name"] for item in both.items] == ["a__f"]
