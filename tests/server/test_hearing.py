"""Claims about requests that are heard one after the other."""

import copy
import random
from typing import Any

import orjson
import pytest

from paddock.errors import RequestError
from paddock.server.bodies import GrowingBodies
from paddock.server.dialects import Conversation, Dialect, chat_messages, conversation, require_renderable
from paddock.server.hearing import Hearing
from paddock.tokens import TurnIndex, request_hash, root_of
from paddock.types import FixedList, JsonObject

IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,eA=="}
RESPONSES: list[JsonObject] = [
    {"role": "user", "content": "Go on."},
    {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "bash", "arguments": '{"command": "ls"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
    {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*** Begin"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": "done"},
    {"type": "web_search_call", "id": "ws_1"},
    {"type": "additional_tools", "tools": [{"type": "function", "name": "wait", "parameters": {"type": "object"}}]},
]
CHAT: list[JsonObject] = [
    {"role": "user", "content": "Go on."},
    {"role": "assistant", "content": "So.", "tool_calls": [{"id": "c1", "custom": {"name": "patch", "input": "x"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "done"},
    {"role": "assistant", "reasoning": "Hm.", "content": None},
]
MESSAGES: list[JsonObject] = [
    {"role": "user", "content": "Go on."},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a.py"}]},
    {"role": "user", "content": [{"type": "search_result", "title": "A."}, {"type": "text", "text": "So?"}]},
    {"role": "system", "content": "Be short."},
]
SAID: dict[Dialect, tuple[str, list[JsonObject]]] = {
    "responses": ("input", RESPONSES),
    "chat": ("messages", CHAT),
    "messages": ("messages", MESSAGES),
}


TOOLS: list[list[JsonObject]] = [
    [{"type": "function", "name": "bash", "parameters": {"type": "object"}}, {"type": "web_search"}],
    [{"type": "custom", "name": "patch"}],
    [],
]


def root(told: Conversation) -> bytes:
    return root_of(told.tools, told.arguments)


def requests(dialect: Dialect, seed: int) -> list[JsonObject]:
    """That go on, start again in the middle, and change what was said."""
    rng = random.Random(seed)
    key, items = SAID[dialect]
    history: list[JsonObject] = []
    found: list[JsonObject] = []
    for _ in range(12):
        history = history[: rng.choice([len(history), len(history), rng.randint(0, len(history))])]
        history = [*history, *rng.choices(items, k=rng.randint(1, 3))]
        instructed = dialect != "chat" and rng.random() < 0.5
        more: JsonObject = {"instructions" if dialect == "responses" else "system": "Be exact."} if instructed else {}
        more["tools"] = rng.choice([TOOLS[0], *TOOLS])
        more |= rng.choice([{}, {}, {"temperature": 0.5}, {"chat_template_kwargs": {"thinking": True}}, {"odd": 1}])
        found.append({"model": "m", key: history, **more})
    return found


def hear(hearing: Hearing, index: TurnIndex, dialect: Dialect, request: JsonObject) -> Conversation:
    return hearing.hear(index, dialect, request, hearing.asked(index, dialect, request)).told


@pytest.mark.parametrize("dialect", SAID)
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("read", [False, True])
def test_what_is_heard_is_what_the_whole_request_tells(dialect: Dialect, seed: int, *, read: bool) -> None:
    """Of a caller's own objects, and of bodies that go on from one another."""
    hearing, index, bodies = Hearing(root), TurnIndex(), GrowingBodies()
    key = SAID[dialect][0]
    for request in requests(dialect, seed):
        if read:
            request = bodies.read("one", key, orjson.dumps(request))
        before = copy.deepcopy(request)
        asked = hearing.asked(index, dialect, request)
        assert asked.hash == request_hash(request)
        heard = hearing.hear(index, dialect, request, asked)
        whole = conversation(dialect, request)
        assert heard.told.items == whole.items
        assert heard.told._replace(items=[], history=None) == whole._replace(items=[], history=None)
        assert heard.root == root(whole)
        chat_messages(heard.told.items)
        assert request == before  # its items are in other requests, too


def test_a_list_that_was_changed_after_all_is_not_what_its_mark_says() -> None:
    hearing, index = Hearing(root), TurnIndex()
    items = RESPONSES[:3]
    for changed in ([*items[:2], items[0]], items[:1], []):
        told = FixedList(items[:2])
        told[:] = changed
        hear(hearing, index, "responses", {"input": told})
        request: JsonObject = {"input": FixedList(items, goes_on=told.mark)}
        asked = hearing.asked(index, "responses", request)
        assert asked.hash == request_hash(request)
        heard = hearing.hear(index, "responses", request, asked)
        assert heard.told.items == conversation("responses", request).items


@pytest.mark.parametrize("dialect", SAID)
def test_what_was_heard_before_is_not_read_again(dialect: Dialect) -> None:
    hearing, index = Hearing(root), TurnIndex()
    key, items = SAID[dialect]
    before, after = (hear(hearing, index, dialect, {key: items[:count]}) for count in (2, 4))
    assert 1 < len(before.items) < len(after.items)
    assert all(one is other for one, other in zip(before.items, after.items, strict=False))


def test_tools_of_a_namespace_that_came_within_the_input_rename_the_calls_before() -> None:
    hearing, index = Hearing(root), TurnIndex()
    tools = [{"type": "namespace", "name": name, "tools": [{"type": "function", "name": "f"}]} for name in ("a", "b")]
    call = {"type": "function_call", "call_id": "c", "name": "f", "namespace": "a", "arguments": "{}"}
    told: list[JsonObject] = [{"type": "additional_tools", "tools": [tool]} for tool in tools]
    history: list[JsonObject] = []
    names = []
    steps: list[list[JsonObject]] = [[told[0], call], [told[1], call], [RESPONSES[0]]]
    for more in steps:
        history += more
        heard = hear(hearing, index, "responses", {"input": history})
        assert heard.tools == conversation("responses", {"input": history}).tools
        names.append([item["name"] for item in heard.items if "name" in item])
    assert names == [["f"], ["a__f", "a__f"], ["a__f", "a__f"]]


def test_numbers_and_booleans_are_not_taken_for_each_other() -> None:
    hearing, index = Hearing(root), TurnIndex()
    values: list[Any] = [1, True, 1.0, "1"]
    for value in values:
        call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": {"a": value}}
        request: JsonObject = {"input": [call, {"role": "user", "content": "So?"}]}
        heard = hear(hearing, index, "responses", request)
        assert heard.items == conversation("responses", request).items


def test_a_client_that_changes_its_own_items_is_heard_anew() -> None:
    hearing, index = Hearing(root), TurnIndex()
    item: JsonObject = {"role": "user", "content": "Before."}
    request: JsonObject = {"input": [item]}
    hear(hearing, index, "responses", request)
    item["content"] = "After."
    request["input"].append({"role": "user", "content": "More."})
    heard = hear(hearing, index, "responses", request)
    assert [told["content"] for told in heard.items] == ["After.", "More."]


def test_a_client_that_changes_its_own_tools_is_heard_anew() -> None:
    hearing, index = Hearing(root), TurnIndex()
    parameters: JsonObject = {"type": "object"}
    request: JsonObject = {"tools": [{"type": "function", "name": "f", "parameters": parameters}], "input": []}
    for changed in ({}, {"title": "Other."}, {"title": "Third."}, {}):
        parameters.pop("title", None)
        parameters.update(changed)
        request["input"].append({"role": "user", "content": "More."})
        heard = hear(hearing, index, "responses", request)
        assert heard.tools[0]["function"]["parameters"] == {"type": "object", **changed}


def test_an_image_that_was_heard_before_is_still_refused() -> None:
    hearing, index = Hearing(root), TurnIndex()
    shown: JsonObject = {"role": "user", "content": [IMAGE]}
    for history in ([shown], [shown, RESPONSES[0]]):
        request: JsonObject = {"input": history}
        heard = hear(hearing, index, "responses", request)
        with pytest.raises(RequestError, match="images"):
            require_renderable(request, heard)


def test_an_image_among_the_instructions_is_refused() -> None:
    request: JsonObject = {"input": [RESPONSES[0]], "instructions": [IMAGE]}
    with pytest.raises(RequestError, match="images"):
        require_renderable(request, conversation("responses", request))
