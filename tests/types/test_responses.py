"""Claims about reading and making Responses API objects."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.types import Usage
from paddock.types.responses import (
    ToolCall,
    call_item,
    calls,
    content_text,
    is_complete,
    is_cut,
    make_response,
    message_item,
    messages,
    output_items,
    usage_of,
)

any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "role", "output", "content", "name", "arguments", "status", "usage", "text"]),
            children | st.sampled_from(["function_call", "message", "assistant"]),
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(any_json)
def test_readers_never_raise(value: Any) -> None:
    assert isinstance(output_items(value), list)
    assert isinstance(calls(value), list)
    assert all(isinstance(text, str) for text in messages(value))
    assert isinstance(content_text(value), str)
    assert is_complete(value) in (True, False)
    assert is_cut(value) in (True, False)
    assert isinstance(usage_of(value).input_tokens, int)


def test_what_is_made_can_be_read() -> None:
    items = [message_item("hello"), call_item("bash", '{"command": "ls"}', "c1")]
    usage = Usage(input_tokens=3, output_tokens=4, cached_tokens=2, reasoning_tokens=1)
    response = make_response(items, {"input": "x"}, model="m", usage=usage)
    assert calls(response) == [ToolCall("bash", '{"command": "ls"}', "c1")]
    assert messages(response) == ["hello"]
    assert is_complete(response)
    assert usage_of(response) == usage


def test_a_custom_tool_call_is_a_call_with_its_text() -> None:
    item = {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** Begin Patch"}
    assert calls([item]) == [ToolCall("apply_patch", "*** Begin Patch", "c")]


@pytest.mark.parametrize(
    ("response", "complete", "cut"),
    [
        ({"status": "completed", "output": []}, True, False),
        ({"output": []}, True, False),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, False, True),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, False, False),
        ({"status": "failed"}, False, False),
        (None, False, False),
    ],
)
def test_a_cut_response_says_so(response: Any, complete: bool, cut: bool) -> None:
    assert (is_complete(response), is_cut(response)) == (complete, cut)


def test_a_user_message_in_the_output_is_no_answer() -> None:
    assert messages([{"type": "message", "role": "user", "content": "do it"}]) == []
