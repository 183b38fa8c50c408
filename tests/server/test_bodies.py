"""Claims about bodies that go on from one another."""

import json
from operator import is_
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling import PARTS

from paddock.server.bodies import MAX_BODIES, MAX_MISSES, GrowingBodies
from paddock.types import FixedList

TEXTS = st.text(st.sampled_from('ab\\"{}[],: \n\u00e9\u4e16\U0001f600') | st.characters(codec="utf-8"), max_size=6)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.just("input"), inner, max_size=3),
    max_leaves=5,
)
REST = st.lists(st.tuples(st.sampled_from(["a", "b", "tools", "input", "in"]), VALUES), max_size=3)
STYLES = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t: ")])


class Written:
    """A body as some client writes it: keys may come twice."""

    def __init__(self, before: Any, items: Any, after: Any, *, style: tuple[str, str], ascii_only: bool) -> None:
        def dump(value: Any) -> str:
            return json.dumps(value, separators=style, ensure_ascii=ascii_only)

        comma, colon = style
        fields = [*before, ("input", items), *after]
        self.bytes = ("{" + comma.join(dump(key) + colon + dump(value) for key, value in fields) + "}").encode()


@PARTS
@settings(deadline=None, max_examples=75)
@given(st.data())
def test_what_is_read_is_what_the_whole_says(part: int, data: st.DataObject) -> None:
    bodies = GrowingBodies()
    items = data.draw(st.lists(VALUES, max_size=3))
    before, style, ascii_only = data.draw(REST), data.draw(STYLES), data.draw(st.booleans())
    after = data.draw(REST)
    told: list[dict[str, Any]] = []
    for _ in range(data.draw(st.integers(2, 6))):
        after = data.draw(st.just(after) | st.just(after) | REST)
        body = Written(before, items, after, style=style, ascii_only=ascii_only).bytes
        found = bodies.read("one", "input", body)
        assert (found, list(found)) == (orjson.loads(body), list(orjson.loads(body)))
        assert orjson.dumps(found) == orjson.dumps(orjson.loads(body))  # 1 is not 1.0
        if isinstance(found.get("input"), FixedList):
            for earlier in told:
                if found["input"].goes_on is earlier["input"].mark:
                    count = len(earlier["input"])
                    assert all(map(is_, found["input"], earlier["input"]))
                    assert orjson.dumps({**found, "input": found["input"][:count]}) == orjson.dumps(earlier)
            told.append(found)
        change = data.draw(st.sampled_from(["more", "more", "more", "same", "fewer", "others"]))
        if change == "more":
            items = [*items, *data.draw(st.lists(VALUES, min_size=1, max_size=3))]
        elif change == "fewer":
            items = items[: data.draw(st.integers(0, len(items)))]
        elif change == "others":
            items = data.draw(st.lists(VALUES, max_size=3))


def test_a_list_that_goes_on_shares_its_items() -> None:
    bodies = GrowingBodies()
    first = bodies.read("one", "input", b'{"model":"m","input":[{"a":1},{"b":"]}"}],"n":2}')
    second = bodies.read("one", "input", b'{"model":"m","input":[{"a":1},{"b":"]}"}, {"c":3}],"n":2}')
    third = bodies.read("one", "input", b'{"model":"m","input":[{"a":1},{"b":"]}"}, {"c":3},4],"n":2}')
    assert second == {"model": "m", "input": [{"a": 1}, {"b": "]}"}, {"c": 3}], "n": 2}
    assert third["input"][2] is second["input"][2]
    assert third["input"][0] is first["input"][0]
    assert (second["input"].goes_on, third["input"].goes_on) == (first["input"].mark, second["input"].mark)
    third["input"].append(9)  # a body's list is its own
    fourth = bodies.read("one", "input", b'{"model":"m","input":[{"a":1},{"b":"]}"}, {"c":3},4, 5 ],"n":2}')
    assert fourth["input"] == [{"a": 1}, {"b": "]}"}, {"c": 3}, 4, 5]


def test_a_body_that_says_something_else_behind_its_list_shares_items_and_is_not_said_to_be_the_same() -> None:
    bodies = GrowingBodies()
    said = [
        (b"", b'"n":1,"m":2'),
        (b',{"b":2}', b'"m":2,"n":1'),
        (b',{"b":2},3', b'"m":2'),
        (b',{"b":2},3,4', b'"m":2'),
    ]
    bodies_said = [b'{"n":0,"input":[{"a":1}%b],%b}' % each for each in said]
    found = [bodies.read("one", "input", body) for body in bodies_said]
    assert found == [orjson.loads(body) for body in bodies_said]
    assert [each["n"] for each in found] == [1, 1, 0, 0]
    assert all(each["input"][0] is found[0]["input"][0] for each in found)
    assert [each["input"].goes_on for each in found] == [None, None, None, found[2]["input"].mark]


@pytest.mark.parametrize(
    "body",
    [
        b'{"input":[1,2,]}',
        b'{"input":[1,2}',
        b'{"input":[1,2],"input":[7]}',
        b'{"input":[1,2,3],[4]}',
        b'{"input":[1,2,3]],[[4]}',
        b'{"input":[1,2,3],"input":[4]}',
        b'{"input":[1,2, ]}',
        b'{"input":[1,2,,3]}',
        b'{"input":[1,2,3 4]}',
        b'{"input":[1,2]',
        b'{"input":[1,2,3],"n":[4]}',
        b'{"input":[1,25]}',
        b'{"input":[1,2 3]}',
        b'{"input":[1,2],"in\\u0070ut":5}',
        b'{"input":[1,2,\xff]}',
        b'{"input":[1,2',
        b'{"input":[1,2',
        b'{"input":[1,2],}',
        b'{"input":[1,2]}}',
        b'{"input":[1,2,NaN]}',
        b'{"input":[1,2,' + b"[" * 2000 + b"]" * 2000 + b"]}",
        b'{"input":[1,2,"\\ud800"]}',
        b'{"input":[1,2,' + b"9" * 5000 + b"]}",
    ],
)
def test_what_the_whole_is_refused_for_is_refused(body: bytes) -> None:
    bodies = GrowingBodies()
    bodies.read("one", "input", b'{"input":[1,2]}')
    bodies.read("one", "input", b'{"input":[1,2,3]}')
    bodies.read("one", "input", b'{"input":[1,2]}')
    try:
        expected = orjson.loads(body)
    except orjson.JSONDecodeError:
        with pytest.raises(orjson.JSONDecodeError):
            bodies.read("one", "input", body)
    else:
        assert bodies.read("one", "input", body) == expected


@pytest.mark.parametrize("body", [b"[1]", b'"input"', b"{}", b'{"input":"text"}', b'{"input":[]}', b'{"other":[1]}'])
def test_bodies_without_such_a_list_are_read_like_others(body: bytes) -> None:
    bodies = GrowingBodies()
    for _ in range(2):
        assert bodies.read("one", "input", body) == orjson.loads(body)


def _body(head: int, count: int) -> bytes:
    return orjson.dumps({"input": [{"text": f"{head}-{nth}"} for nth in range(count)]})


def _goes_on(bodies: GrowingBodies, client: str, head: int) -> bool:
    """Whether the last two of three bodies share their items."""
    _, second, third = (bodies.read(client, "input", _body(head, count))["input"] for count in (3, 4, 5))
    return second[0] is third[0]


def test_a_client_may_have_several_conversations() -> None:
    bodies = GrowingBodies()
    found = [bodies.read("one", "input", _body(head, 2)) for head in range(MAX_MISSES)]
    for head in range(MAX_MISSES):
        again = bodies.read("one", "input", _body(head, 3))
        once_more = bodies.read("one", "input", _body(head, 4))
        assert again["input"][:2] == found[head]["input"]
        assert once_more["input"][0] is again["input"][0]
    assert MAX_BODIES >= MAX_MISSES


def test_a_client_whose_bodies_never_go_on_is_not_followed() -> None:
    bodies = GrowingBodies()
    for head in range(MAX_MISSES):
        bodies.read("one", "input", _body(100 + head, 2))
    assert not _goes_on(bodies, "one", 7)
    assert _goes_on(bodies, "two", 7)
    assert bodies.read("one", "input", _body(100, 3))["input"][0]["text"] == "100-0"  # one that goes on after all
    assert _goes_on(bodies, "one", 8)


def test_memory_is_bounded_and_the_longest_idle_clients_go_first() -> None:
    bodies = GrowingBodies(max_bytes=5000)
    clients = "abcdefghij"
    first = {client: bodies.read(client, "input", _body(1, 3))["input"][0] for client in clients}
    assert len(bodies) < 5
    again = {client: bodies.read(client, "input", _body(1, 4))["input"][0] for client in "ja"}
    assert again["j"] is first["j"]
    assert again["a"] is not first["a"]
    for client in clients:
        bodies.read(client, "input", b'{"input": "no list"}')
    assert len(bodies) < 5


def test_a_list_whose_key_is_there_twice_is_read_whole() -> None:
    bodies = GrowingBodies()
    twice = b'{"input":[{"a":1}],"input":[{"a":1.0}]}'
    for body in (twice, twice, b'{"input":[{"a":1},2]}'):
        assert orjson.dumps(bodies.read("one", "input", body)) == orjson.dumps(orjson.loads(body))
