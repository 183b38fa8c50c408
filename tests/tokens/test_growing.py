"""Claims about ids that grow."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from paddock.tokens import GrowingIds, TurnIndex
from paddock.types import Turn

IDS = st.lists(st.integers(0, 200_000), max_size=5)


@given(IDS, st.lists(st.tuples(IDS, st.booleans()), max_size=6))
def test_their_json_is_that_of_all_of_them(ids: list[int], more: list[tuple[list[int], bool]]) -> None:
    growing, plain = GrowingIds(ids), list(ids)
    for new, looked_at in more:
        if looked_at:
            assert growing.json() == orjson.dumps(plain)
        growing += new
        plain += new
    assert growing.json() == growing.json() == orjson.dumps(plain)
    assert growing == plain


def turn(name: str, parent: str | None, prompt: list[int], sampled: list[int]) -> Turn:
    return Turn(
        id=name,
        parent=parent,
        prompt_ids=prompt,
        sampled_ids=sampled,
        log_probs=[-1.0] * len(sampled),
        finish_reason="stop",
        request_hash=name,
        output=[],
        weight_version=None,
    )


def test_an_index_gives_a_turns_ids_on_with_the_json_that_was_written() -> None:
    index = TurnIndex()
    first = GrowingIds([1, 2, 3])
    assert first.json() == b"[1,2,3]"
    index.add(turn("a", None, [1, 2, 3], [4, 5]), None)
    index.keep_ids("a", first)
    second = index.full_ids("a")
    assert second is first
    assert second.json() == b"[1,2,3,4,5]"
    second += [6]
    assert second.json() == b"[1,2,3,4,5,6]"
    assert index.full_ids("a").json() == b"[1,2,3,4,5]"  # given away before: joined anew
