"""Claims about finding the turn that a history continues, and what is new after it."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.tokens import TurnIndex, root_of
from paddock.types import JsonObject, Turn
from paddock.types.responses import call_item, message_item, output_items

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "type", "content", "call_id", "id", "output"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def turn(turn_id: str, parent: str | None, output: list[JsonObject]) -> Turn:
    ids: dict[str, Any] = {"prompt_ids": None, "sampled_ids": None, "log_probs": None}
    known: dict[str, Any] = {"weight_version": None, "finish_reason": None, "request_hash": turn_id}
    return Turn(id=turn_id, parent=parent, output=output, **ids, **known)


def user(text: str) -> JsonObject:
    return {"type": "message", "role": "user", "content": text}


def assistant(text: str) -> JsonObject:
    return {"type": "message", "role": "assistant", "content": text}


def result(call_id: str, text: str = "done") -> JsonObject:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def call(call_id: str, arguments: str = "{}") -> JsonObject:
    return call_item("bash", arguments, call_id)


GO, MORE = user("Go."), user("Go on.")
LOOK = [call("call_1"), result("call_1")]


class Recorded:
    """A rollout's turns."""

    def __init__(self) -> None:
        self.index = TurnIndex()

    def add(self, name: str, request: Sequence[JsonObject], output: list[JsonObject]) -> str | None:
        """The parent."""
        matched = self.index.match(request)
        self.index.add(turn(name, matched.turn, output), matched.digest)
        return matched.turn

    def find(self, request: Sequence[JsonObject]) -> str | None:
        return self.index.match(request).turn

    def new(self, request: Sequence[JsonObject]) -> list[JsonObject]:
        return self.index.match(request).environment


def said_twice() -> Recorded:
    recorded = Recorded()
    assert recorded.add("hello", [GO], [message_item("Hello.")]) is None
    history = [GO, message_item("Hello."), MORE]
    assert recorded.add("call", history, [message_item("I look."), call("call_1")]) == "hello"
    history += [message_item("I look."), *LOOK]
    assert recorded.add("again", history, [message_item("Hello.")]) == "call"
    return recorded


@pytest.mark.parametrize(
    ("history", "found", "new"),
    [
        ([user("Hello.")], None, [user("Hello.")]),
        ([GO], None, [GO]),
        ([GO, assistant(" Hello.\n")], "hello", []),
        ([GO, assistant("Hello."), user("Else.")], "hello", [user("Else.")]),
        ([GO, assistant("Hello!"), MORE], None, [GO, assistant("Hello!"), MORE]),
        ([GO, assistant("Hello."), MORE, assistant("Reworded."), *LOOK], "call", [LOOK[1]]),
        ([GO, assistant("Hello."), MORE, *LOOK], "call", [LOOK[1]]),
        ([GO, assistant("Hello."), MORE, call("call_1", '{"rewritten":1}'), LOOK[1]], "call", [LOOK[1]]),
        ([GO, assistant("Hello."), MORE, call("call_2")], "hello", None),
        ([GO, assistant("Hello."), MORE, *LOOK, assistant("Hello.")], "again", []),
        ([GO, assistant("Hello."), MORE, LOOK[0], result("call_1", "[pruned]"), assistant("Hello.")], "call", None),
        ([GO, assistant("Hello."), MORE, LOOK[0], result("call_1", " done\n"), assistant("Hello.")], "again", []),
        ([MORE, *LOOK, assistant("Hello.")], None, None),
        ([user("Be."), GO, assistant("Hello.")], None, None),
        ([LOOK[1]], None, [LOOK[1]]),
        ([], None, []),
    ],
)
def test_a_turn_is_continued_where_its_own_history_is_told_before_it(
    history: list[JsonObject], found: str | None, new: list[JsonObject] | None
) -> None:
    recorded = said_twice()
    assert recorded.find(history) == found
    if new is not None:
        assert recorded.new(history) == new


def test_tools_are_part_of_the_history() -> None:
    index = TurnIndex()
    root = root_of([{"name": "bash"}], {})
    index.add(turn("first", None, [message_item("Hello.")]), index.match([GO], root=root).digest)
    assert index.match([GO, assistant("Hello.")], root=root).turn == "first"
    assert index.match([GO, assistant("Hello.")], root=root_of([], {})).turn is None


def test_of_equal_turns_the_latest_is_continued_and_a_handle_or_an_id_goes_before_it() -> None:
    recorded = Recorded()
    outputs = [message_item("Hello.") for _ in range(3)]
    for nth, output in enumerate(outputs):
        recorded.add(f"turn_{nth}", [GO], [output])
    assert recorded.find([GO, assistant("Hello.")]) == "turn_2"
    assert recorded.find([GO, {**assistant("Hello."), "id": outputs[1]["id"]}]) == "turn_1"
    handle = {"type": "reasoning", "encrypted_content": "turn_0"}
    assert recorded.find([GO, handle, {**assistant("Changed."), "id": "unknown"}]) == "turn_0"
    assert recorded.find([GO, handle, {**assistant("Hello."), "id": outputs[1]["id"]}]) == "turn_0"
    foreign = {"type": "reasoning", "encrypted_content": "turn_9"}
    assert recorded.find([GO, foreign, assistant("Hello.")]) is None


def test_all_of_a_turns_calls_have_to_be_told_in_whatever_order_and_outputs_between_them_are_new() -> None:
    recorded = Recorded()
    recorded.add("two", [GO], [call("call_1"), call("call_2")])
    one, two = result("call_1"), result("call_2")
    assert recorded.new([GO, call("call_1"), call("call_2"), one, two]) == [one, two]
    assert recorded.new([GO, call("call_2"), call("call_1"), two, one]) == [two, one]
    assert recorded.new([GO, call("call_1"), one, call("call_2"), two]) == [one, two]
    assert recorded.find([GO, call("call_1"), one]) is None
    assert recorded.find([GO, call("call_1"), one, MORE, call("call_2"), two]) is None


def test_what_is_told_once_more_than_it_was_said_is_new() -> None:
    recorded = Recorded()
    hello = message_item("Hello.")
    recorded.add("hello", [GO], [hello])
    assert recorded.new([GO, hello, assistant("Hello."), MORE]) == [assistant("Hello."), MORE]
    recorded.add("again", [GO, hello], [message_item("Hello.")])
    assert recorded.find([GO, hello, assistant("Hello."), MORE]) == "again"
    recorded.add("two", [GO, hello, MORE], [message_item("One."), message_item("Two."), call("call_1")])
    for told in ([assistant("One."), assistant("Two."), LOOK[0]], [assistant("One.Two."), LOOK[0]]):
        assert recorded.new([GO, hello, MORE, *told, *LOOK]) == LOOK


def test_results_in_another_order_than_before_start_a_branch_at_the_calls() -> None:
    recorded = Recorded()
    calls = [call("call_1"), call("call_2")]
    one, two = result("call_1"), result("call_2")
    recorded.add("two", [GO], calls)
    assert recorded.add("next", [GO, *calls, one, two], [message_item("Hello.")]) == "two"
    assert recorded.find([GO, *calls, one, two, assistant("Hello."), MORE]) == "next"
    assert recorded.find([GO, *calls, two, one, assistant("Hello."), MORE]) == "two"


def test_an_answer_without_a_word_is_told_by_silence() -> None:
    for empty in ([], [message_item("")], [{"type": "reasoning", "id": "rs_1", "summary": []}]):
        recorded = Recorded()
        recorded.add("silent", [GO], empty)
        assert recorded.find([GO]) is None
        assert recorded.find([GO, MORE]) == "silent"
        assert recorded.find([GO, assistant(""), MORE]) == "silent"
        assert recorded.new([GO, assistant(" "), assistant(""), MORE]) == [assistant(""), MORE]
        assert recorded.new([GO, *empty, assistant("Hello."), MORE])[-2:] == [assistant("Hello."), MORE]
        assert recorded.find([GO, assistant("Hello."), MORE]) is None


def test_reasoning_that_no_turn_said_is_part_of_the_history_and_a_turns_own_may_be_left_out() -> None:
    def thought(text: str) -> JsonObject:
        return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}

    recorded = Recorded()
    recorded.add("hello", [GO, thought("Theirs."), assistant("Well."), MORE], [thought("Own."), message_item("Hello.")])
    for own in (
        [thought("Own."), assistant("Hello.")],
        [assistant("Hello.")],
        [thought("Summed up."), assistant("Hello.")],
    ):
        assert recorded.find([GO, thought("Theirs. "), assistant("Well."), MORE, *own, MORE]) == "hello"
        assert recorded.find([GO, assistant("Well."), MORE, *own, MORE]) is None
    told = [
        GO,
        thought("Theirs."),
        assistant("Well."),
        MORE,
        assistant("Hello."),
        thought("Another's."),
        assistant("Now."),
        MORE,
    ]
    assert recorded.new([*told[:4], thought("Own."), *told[4:]]) == told[5:]


def test_no_silence_is_taken_for_told_where_what_follows_was_told_without_it() -> None:
    recorded = Recorded()
    assert recorded.add("said", [GO, MORE], [message_item("Hello.")]) is None
    recorded.add("silent", [GO], [])
    assert recorded.find([GO, MORE, assistant("Hello."), MORE]) == "said"
    assert recorded.find([GO, MORE, assistant("Else."), MORE]) == "silent"
    assert recorded.find([GO, MORE]) == "silent"


def test_a_turn_that_goes_on_from_an_answer_is_found_behind_it() -> None:
    recorded = Recorded()
    recorded.add("one", [GO], [message_item("Well.")])
    assert recorded.add("two", [GO, assistant("Well.")], [message_item("Now."), call("call_1")]) == "one"
    assert recorded.new([GO, assistant("Well."), assistant("Now."), *LOOK]) == [LOOK[1]]
    assert recorded.find([GO, assistant("Well."), assistant("Now."), *LOOK]) == "two"


def test_a_turn_whose_history_is_unknown_is_never_continued() -> None:
    index = TurnIndex()
    index.add(turn("hello", None, [message_item("Hello.")]), None)
    assert index.match([GO, assistant("Hello.")]).turn is None


def step(number: int) -> list[JsonObject]:
    call_id = f"call_{number}"
    return [{"type": "reasoning"}, call(call_id), result(call_id, f"result {number}")]


def shown(head: list[int], tail: list[int]) -> list[JsonObject]:
    """A request that leaves out what is between head and tail."""
    left_out = tail[0] - len(head) if tail else 0
    notice = [user(f"[{left_out} steps]")] if left_out else []
    return [GO, *(item for nth in head for item in step(nth)), *notice, *(item for nth in tail for item in step(nth))]


def test_each_truncated_context_starts_a_branch_at_its_head_also_when_its_tail_begins_with_an_earlier_branch() -> None:
    recorded = Recorded()
    requests = [shown(list(range(nth)), []) for nth in range(5)]
    requests += [shown([0, 1], [3, 4]), shown([0, 1], [3, 4, 5]), shown([0, 1], [5, 6]), shown([0, 1], [5, 6, 7])]
    requests += [shown([], [8]), shown([], [9]), shown([], [9, 10])]
    parents = [recorded.add(str(nth), request, step(nth)[:2]) for nth, request in enumerate(requests)]
    assert parents == [None, "0", "1", "2", "3", "1", "5", "1", "7", None, None, "10"]


def test_the_last_answer_to_a_request_is_known_until_something_continues_it() -> None:
    index = TurnIndex()
    index.add(turn("first", None, [message_item("Hello.")]), index.match([GO]).digest)
    assert index.answer_to("unknown") is None
    answered = index.answer_to("first")
    assert answered is not None
    assert answered.id == "first"
    index.add(turn("second", "first", []), None)
    assert index.answer_to("first") is None


@given(json_values)
def test_any_history_can_be_read(history: Any) -> None:
    said_twice().find(output_items(history))


def test_the_ids_of_a_branch_are_its_own() -> None:
    index = TurnIndex()
    for nth, parent in ((1, None), (2, "turn_1"), (3, "turn_1"), (4, "turn_2")):
        ids: JsonObject = {"prompt_ids": [nth], "sampled_ids": [nth, nth], "log_probs": [0.0, 0.0]}
        sampled = turn(f"turn_{nth}", parent, [message_item("x")]).model_copy(update=ids)
        index.add(sampled, f"{nth:024x}")
    assert index.full_ids("turn_2") == [1, 1, 1, 2, 2, 2]
    assert index.full_ids("turn_4") == [1, 1, 1, 2, 2, 2, 4, 4, 4]
    assert index.full_ids("turn_3") == [1, 1, 1, 3, 3, 3]
    assert index.full_ids("turn_1") == [1, 1, 1]
