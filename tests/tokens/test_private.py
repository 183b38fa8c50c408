"""Claims about private copies: they compare as canonical JSON does, and no client can change them."""

import copy
import random
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.errors import RequestError
from paddock.tokens import Begun, read_asked, request_hash
from paddock.tokens.private import NOTHING, Copied, canonical, private
from paddock.types import FixedList

LEAVES = st.sampled_from([None, True, False, 0, 1, 0.0, -0.0, 1.0, 10**18, 1e18, "", "1", "a", "é", "true", "null"])
"""Few and close: 0, 0.0, -0.0 and false are equal in Python."""
KEYS = st.sampled_from(["a", "b", "é"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
LISTS = st.lists(VALUES, max_size=4)
TWINS: list[list[Any]] = [[0, 0.0, -0.0, False], [1, 1.0, True], [10**18, 1e18], ["1"], [None]]


def copied(items: list[Any]) -> Copied:
    return NOTHING.and_more(items)


def like(value: Any, rng: random.Random) -> Any:
    """The same, or with a number in another form; keys in another order."""
    if isinstance(value, dict):
        keys = rng.sample(list(value), len(value))
        return {key: like(value[key], rng) for key in keys}
    if isinstance(value, list):
        return [like(each, rng) for each in value]
    twins = next((twins for twins in TWINS if value in twins), [value])
    return rng.choice(twins) if rng.random() < 0.2 else value


@given(LISTS, LISTS, st.randoms(use_true_random=False))
@example([1], [], random.Random(0))
@example([{"a": [0.0]}], [], random.Random(1))
def test_a_copy_begins_what_begins_with_its_canonical_json(items: list[Any], more: list[Any], rng: Any) -> None:
    for given_items in (like(items, rng) + more, items + more, more, items[:-1]):
        begins = canonical(given_items[: len(items)]) == canonical(items)
        assert copied(items).begins(given_items) == begins
        assert Copied.of_fixed(FixedList(items)).begins(given_items) == begins


@given(LISTS, LISTS)
def test_a_copy_is_equal_to_the_whole_however_it_came_together(items: list[Any], more: list[Any]) -> None:
    assert canonical(copied(items).and_more(more).items) == canonical(items + more)
    assert copied(items).and_more(more).numbered == copied(items + more).numbered


@given(LISTS, st.randoms(use_true_random=False))
def test_what_a_client_does_to_its_own_objects_changes_no_copy(items: list[Any], rng: Any) -> None:
    before, own = canonical(items), copy.deepcopy(items)
    kept = copied(own)
    spoil(own, rng)
    assert canonical(kept.items) == before
    assert kept.begins(items)


def spoil(value: Any, rng: random.Random) -> None:
    """Changes every container, from the inside."""
    for inner in list(value.values() if isinstance(value, dict) else value):
        if isinstance(inner, dict | list):
            spoil(inner, rng)
    if isinstance(value, dict):
        value[rng.choice(["a", "new"])] = "spoiled"
    else:
        value.insert(rng.randint(0, len(value)), "spoiled")


@given(st.lists(LISTS, min_size=1, max_size=4), LISTS, st.randoms(use_true_random=False))
def test_a_hash_that_goes_on_from_known_ones_is_that_of_the_whole(
    pieces: list[list[Any]], tools: list[Any], rng: Any
) -> None:
    known: list[Begun] = []
    history: list[Any] = []
    for piece in pieces:
        history = like(history, rng) + piece
        body = {"input": history, "model": "m", "tools": rng.choice([tools, like(tools, rng)]), "stream": True}
        body |= rng.choice([{}, {"include": tools}])
        asked = read_asked(body, "input", known)
        whole = {name: value for name, value in body.items() if name != "stream"}
        assert asked.hash == request_hash(orjson.loads(canonical(whole)))
        assert asked.begun is not None
        assert canonical(asked.begun.history.items) == canonical(history)
        known.append(asked.begun)


def test_texts_are_shared_and_containers_are_not() -> None:
    text = "a text of a client"
    item = {"content": [{"text": text}]}
    found = private(item)
    assert found == item
    assert found["content"][0]["text"] is text
    assert found["content"] is not item["content"]
    assert found["content"][0] is not item["content"][0]


def test_what_is_no_plain_json_is_copied_as_it_is_written() -> None:
    assert private({"a": ({"b": 1},)}) == {"a": [{"b": 1}]}
    assert not copied([{"a": "1"}]).begins([{"a": 1}])


@pytest.mark.parametrize("bad", [object(), {1: "a"}, 2**70, "\ud800"])
def test_what_is_no_json_is_refused_whether_it_is_new_or_in_a_known_place(bad: Any) -> None:
    known = read_asked({"input": [1, 2]}).begun
    assert known is not None
    for history in ([1, 2, bad], [1, bad], [bad]):
        with pytest.raises(RequestError, match="no JSON"):
            read_asked({"input": history}, "input", [known])
