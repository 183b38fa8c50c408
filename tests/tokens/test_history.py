"""Claims about finding the turn that a request continues, and about what identifies a call."""

from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import RequestError
from paddock.http import Call
from paddock.tokens import Told, continued_turn, request_hash, rollout_of
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


USER: JsonObject = {"role": "user", "content": "Go."}
MORE: JsonObject = {"role": "user", "content": "Go on."}


def result(call_id: str, text: str = "done") -> JsonObject:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


class Recorded:
    """A rollout's turns, as a server records them that gets no ids."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.histories: dict[str, str] = {}

    def add(self, name: str, request: JsonObject, output: list[JsonObject]) -> str | None:
        """The parent."""
        told = Told.of(request)
        parent = continued_turn(self.turns, self.histories, told)
        self.turns.append(turn(name, output))
        self.histories[name] = told.digest
        return parent

    def find(self, request: JsonObject) -> str | None:
        return continued_turn(self.turns, self.histories, Told.of(request))


def said_twice() -> Recorded:
    recorded = Recorded()
    call = call_item("bash", "{}", "call_1")
    assert recorded.add("hello", {"input": [USER]}, [message_item("Hello.")]) is None
    history = [USER, message_item("Hello."), MORE]
    assert recorded.add("call", {"input": history}, [message_item("I look."), call]) == "hello"
    history += [message_item("I look."), call, result("call_1")]
    assert recorded.add("again", {"input": history}, [message_item("Hello.")]) == "call"
    return recorded


CALLED: JsonObject = {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1"}]}
HELLO: JsonObject = {"role": "assistant", "content": " Hello.\n"}
DONE: JsonObject = {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "done\n"}]}


@pytest.mark.parametrize(
    ("request_body", "found"),
    [
        ({"input": "Hello."}, None),
        ({"input": [{"role": "user", "content": "Hello."}]}, None),
        ({"input": [USER]}, None),
        ({"input": [USER, HELLO]}, "hello"),
        ({"input": [USER, HELLO, {"role": "user", "content": "Something else."}]}, "hello"),
        ({"input": [USER, HELLO, MORE, call_item("bash", "{}", "call_1"), result("call_1")]}, "call"),
        ({"input": [USER, HELLO, MORE, call_item("bash", "{}", "call_2")]}, "hello"),
        ({"messages": [USER, HELLO]}, "hello"),
        ({"messages": [USER, HELLO, MORE, CALLED, {"role": "tool", "tool_call_id": "call_1"}]}, "call"),
        ({"messages": [USER, HELLO, MORE, CALLED, DONE, HELLO]}, "again"),
        ({"messages": [USER, HELLO, MORE, CALLED, {**DONE, "content": "[pruned]"}, HELLO]}, "call"),
        ({"messages": [MORE, CALLED, DONE, HELLO]}, None),
        ({"instructions": "Be.", "input": [USER, HELLO]}, None),
        ({"messages": [DONE]}, None),
        ({}, None),
    ],
)
def test_a_turn_is_continued_where_its_own_history_is_told_before_it(
    request_body: JsonObject, found: str | None
) -> None:
    assert said_twice().find(request_body) == found


def test_of_equal_turns_the_latest_is_continued_and_a_longer_prefix_goes_before_a_later_turn() -> None:
    recorded = said_twice()
    assert recorded.add("hello again", {"input": [USER]}, [message_item("Hello.")]) is None
    assert recorded.find({"input": [USER, HELLO]}) == "hello again"
    assert recorded.find({"messages": [USER, HELLO, MORE, CALLED, DONE, HELLO]}) == "again"


def test_a_turn_whose_history_is_unknown_is_never_continued() -> None:
    recorded = said_twice()
    assert continued_turn(recorded.turns, {}, Told.of({"input": [USER, HELLO]})) is None


def step(number: int) -> list[JsonObject]:
    call_id = f"call_{number}"
    return [{"type": "reasoning"}, call_item("bash", "{}", call_id), result(call_id, f"result {number}")]


def shown(head: list[int], tail: list[int]) -> JsonObject:
    """A request that leaves out what is between head and tail."""
    left_out = tail[0] - len(head) if tail else 0
    notice = [{"role": "user", "content": f"[{left_out} steps]"}] if left_out else []
    return {
        "input": [USER, *(item for nth in head for item in step(nth)), *notice, *(i for n in tail for i in step(n))]
    }


def test_each_truncated_context_starts_a_branch_at_its_head_also_when_its_tail_begins_with_an_earlier_branch() -> None:
    recorded = Recorded()
    requests = [shown(list(range(nth)), []) for nth in range(5)]
    requests += [shown([0, 1], [3, 4]), shown([0, 1], [3, 4, 5]), shown([0, 1], [5, 6]), shown([0, 1], [5, 6, 7])]
    requests += [shown([], [8]), shown([], [9]), shown([], [9, 10])]
    parents = [recorded.add(str(nth), request, step(nth)[:2]) for nth, request in enumerate(requests)]
    assert parents == [None, "0", "1", "2", "3", "1", "5", "1", "7", None, None, "10"]


def test_two_hundred_turns_are_found_in_a_moment() -> None:
    recorded = Recorded()
    began = perf_counter()
    for nth in range(200):
        assert recorded.add(str(nth), shown(list(range(nth)), []), step(nth)[:2]) == (str(nth - 1) if nth else None)
    assert perf_counter() - began < 10.0


@given(json_values, st.sampled_from(["input", "messages"]))
def test_any_history_can_be_read(history: Any, key: str) -> None:
    said_twice().find({key: history})


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
