"""Claims about delta coding: whatever is recorded joins to exactly the prompts and samples that were given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.tokens import chain, full_prompt, place, split_prompt
from paddock.types import Turn

Ids = list[int]
ids = st.lists(st.integers(0, 2), max_size=4)
"""Few different ids, so that prefixes, branches and equal turns are common."""


def turn(turn_id: str, parent: str | None, prompt_ids: Ids | None, sampled_ids: Ids | None) -> Turn:
    return Turn(
        id=turn_id,
        parent=parent,
        prompt_ids=prompt_ids,
        sampled_ids=sampled_ids,
        log_probs=None,
        weight_version=None,
        finish_reason="stop",
        request_hash="",
        output=[],
    )


@st.composite
def calls(draw: st.DrawFn) -> list[tuple[Ids, Ids]]:
    """Prompts and samples of one rollout: most go on from an earlier call, some change what was said, some begin."""
    made: list[tuple[Ids, Ids]] = []
    for _ in range(draw(st.integers(1, 8))):
        base: Ids = []
        if made and draw(st.integers(0, 4)) > 0:
            prompt, sampled = draw(st.sampled_from(made))
            base = prompt + sampled
            if base and draw(st.integers(0, 3)) == 0:
                base = base[: draw(st.integers(0, len(base)))]
        made.append((base + draw(ids), draw(ids)))
    return made


def recorded(made: list[tuple[Ids, Ids]]) -> list[Turn]:
    turns: list[Turn] = []
    for number, (prompt, sampled) in enumerate(made):
        placed = place(turns, prompt)
        turns.append(turn(str(number), placed.parent, placed.prompt_ids, sampled))
    return turns


@given(calls())
def test_the_deltas_join_to_the_prompts_and_samples_that_were_given(made: list[tuple[Ids, Ids]]) -> None:
    turns = recorded(made)
    for number, (prompt, sampled) in enumerate(made):
        assert full_prompt(turns, str(number)) == prompt
        assert turns[number].sampled_ids == sampled


@given(calls())
def test_the_parent_is_the_turn_that_leaves_the_fewest_ids_new(made: list[tuple[Ids, Ids]]) -> None:
    turns = recorded(made)
    for number, found in enumerate(turns):
        prompt = made[number][0]
        options = [split_prompt(chain(turns, str(earlier)), prompt) for earlier in range(number)]
        lengths = [len(option) for option in options if option is not None]
        assert found.prompt_ids is not None
        assert len(found.prompt_ids) == min([*lengths, len(prompt)])
        if found.parent is not None:
            assert split_prompt(chain(turns, found.parent), prompt) == found.prompt_ids


@given(ids, ids, ids)
def test_a_prompt_splits_only_after_its_prefix(first: Ids, sampled: Ids, new: Ids) -> None:
    root = turn("0", None, first, sampled)
    assert split_prompt([root], first + sampled + new) == new
    if first + sampled:
        assert split_prompt([root], [9, *first, *sampled, *new]) is None
        assert split_prompt([root], (first + sampled)[:-1]) is None


def test_of_equal_turns_the_latest_is_the_parent() -> None:
    turns = [turn("a", None, [1], [2]), turn("b", None, [1], [2])]
    assert place(turns, [1, 2, 3]) == ("b", [3])


def test_a_retry_that_was_cut_short_is_not_taken_for_the_turn_that_was_continued() -> None:
    turns = [turn("whole", None, [1], [2, 3, 4]), turn("cut", None, [1], [2, 3])]
    assert place(turns, [1, 2, 3, 4, 5]) == ("whole", [5])


def test_absent_ids_are_never_guessed() -> None:
    turns = [turn("a", None, [1], None), turn("b", "a", [2], [3])]
    assert full_prompt(turns, "b") is None
    assert full_prompt(turns, "a") == [1]
    assert split_prompt(turns[:1], [1, 2]) is None
    assert place(turns, [1, 2, 3, 4]) == (None, [1, 2, 3, 4])


def test_a_parent_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        full_prompt([turn("b", "a", [1], [2])], "b")
