"""Claims about finding a turn in a request's history, and about what identifies a call."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import RequestError
from paddock.http import Call
from paddock.tokens import continued_turn, request_hash, rollout_of
from paddock.types import JsonObject, Turn
from paddock.types.responses import call_item, message_item

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "type", "content", "tool_calls", "id", "input"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def turn(turn_id: str, output: list[JsonObject]) -> Turn:
    ids: dict[str, Any] = {"prompt_ids": None, "sampled_ids": None, "log_probs": None}
    known: dict[str, Any] = {"parent": None, "weight_version": None, "finish_reason": None, "request_hash": ""}
    return Turn(id=turn_id, output=output, **ids, **known)


TURNS = [
    turn("said", [message_item("Hello.")]),
    turn("called", [message_item("Hello."), call_item("bash", "{}", "call_1")]),
    turn("said again", [message_item("Bye.")]),
]


@pytest.mark.parametrize(
    ("request_body", "found"),
    [
        ({"input": "Hello."}, None),
        ({"input": [{"role": "user", "content": "Hello."}]}, None),
        ({"input": [{"role": "assistant", "content": "Hello.\n"}]}, "said"),
        ({"input": [call_item("bash", "{}", "call_1")]}, "called"),
        ({"input": [call_item("bash", "{}", "call_1"), message_item("Bye.")]}, "said again"),
        ({"input": [call_item("bash", "{}", "call_2")]}, None),
        ({"messages": [{"role": "assistant", "content": [{"type": "text", "text": "Bye."}]}]}, "said again"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "call_1"}]}]}, "called"),
        ({"messages": [{"role": "tool", "tool_call_id": "call_1"}]}, None),
        ({}, None),
    ],
)
def test_the_latest_turn_that_the_history_holds_is_continued(request_body: JsonObject, found: str | None) -> None:
    assert continued_turn(TURNS, request_body) == found


@given(json_values, st.sampled_from(["input", "messages"]))
def test_any_history_can_be_read(history: Any, key: str) -> None:
    continued_turn(TURNS, {key: history})


def test_the_hash_is_of_what_was_asked_and_not_of_how() -> None:
    body = {"input": "a", "model": "m"}
    assert request_hash(body) == request_hash({"model": "m", "input": "a", "stream": True, "stream_options": {}})
    assert request_hash(body) != request_hash({"input": "b", "model": "m"})
    assert len(request_hash(body)) == 64


def test_what_is_no_json_has_no_hash() -> None:
    with pytest.raises(RequestError):
        request_hash({"input": object()})


@pytest.mark.parametrize(
    ("path", "bearer", "secret"),
    [
        ({"secret": "ro_1"}, None, "ro_1"),
        ({"secret": "ro_1"}, "ro_2", "ro_1"),
        ({"secret": "any"}, None, "any"),
        ({}, "ro_2", "ro_2"),
        ({}, "sk-2", None),
        ({}, None, None),
    ],
)
def test_a_rollout_is_named_by_the_url_or_by_a_key_of_its_form(
    path: dict[str, str], bearer: str | None, secret: str | None
) -> None:
    assert rollout_of(Call(path=path, bearer=bearer)) == secret
