"""Claims on views of one file by several calls: they are the one view that they make, on both sides."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.resources_servers.pivot.semantic import compare
from paddock.resources_servers.pivot.task import ExpectedCall
from paddock.types import JsonObject
from paddock.types.responses import call_item

Score = Callable[..., Any]


def bash(command: str, **more: Any) -> tuple[str, JsonObject]:
    return "execute_bash", {"command": command, **more}


def view(first: int, last: int, path: str = "/r/a.py") -> tuple[str, JsonObject]:
    return "str_replace_editor", {"command": "view", "path": path, "view_range": [first, last]}


EDIT = ("str_replace_editor", {"command": "str_replace", "path": "/r/a.py", "old_str": "x = 1", "new_str": "x = 2"})
OTHER = view(1, 50, "/r/b.py")
SAME = [
    (view(1, 200), [view(1, 100), view(101, 200)]),
    (view(1, 200), [view(101, 200), view(1, 100)]),
    (view(1, 200), [view(1, 60), view(61, 120), view(121, 200)]),
    (view(1, 200), [view(1, 120), view(100, 200)]),
    (view(1, 200), [bash("sed -n 1,100p /r/a.py"), view(101, 200)]),
    (bash("sed -n 1,200p /r/a.py"), [view(1, 100), bash("sed -n '101,200p' /r/a.py")]),
    ([view(1, 200), OTHER], [view(1, 100), OTHER, view(101, 200)]),
    ([EDIT, view(1, 200)], [EDIT, view(1, 100), view(101, 200)]),
]
DIFFERENT = [
    (view(1, 200), [view(1, 100), view(141, 200)]),
    (view(1, 200), [view(1, 100), view(101, 200, "/r/b.py")]),
    (view(1, 100), [view(1, 100), view(101, 200)]),
    (view(1, 100), [view(1, 100), view(1, 100)]),
    (view(1, 200), [view(1, 100), bash("sed -n 101,200p /r/a.py", timeout=0.001)]),
    (view(1, 200), [view(1, 100), EDIT, view(101, 200)]),
    (view(1, 200), [view(1, 100)]),
]


@pytest.mark.parametrize(("whole", "parts"), SAME)
def test_views_that_go_on_are_one_view_on_either_side(score: Score, whole: Any, parts: Any) -> None:
    assert score(whole, parts).reward == 1.0
    assert score(parts, whole).reward == 1.0
    assert score(parts, parts).reward == 1.0


@pytest.mark.parametrize(("whole", "parts"), DIFFERENT)
def test_views_that_show_more_or_less_or_are_parted_are_not(score: Score, whole: Any, parts: Any) -> None:
    assert score(whole, parts).reward == 0.0


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(1, 500), st.randoms())
def test_however_a_view_is_cut_its_pieces_are_the_view(sizes: list[int], first: int, random: Any) -> None:
    ends = [first + sum(sizes[: at + 1]) - 1 for at in range(len(sizes))]
    parts = [view(end - size + 1, end) for end, size in zip(ends, sizes, strict=True)]
    random.shuffle(parts)
    whole = ExpectedCall(
        type="function_call", name="str_replace_editor", arguments=json.dumps(view(first, ends[-1])[1])
    )
    output = [call_item(name, json.dumps(arguments)) for name, arguments in parts]
    assert compare(whole, {"status": "completed", "output": output}, {}).reward == 1.0


VIEWS = [(1, 100), (101, 200), (1, 200), (201, 300), (101, 300), (1, 300)]


@given(
    weights=st.lists(st.floats(0.001, 1), min_size=len(VIEWS), max_size=len(VIEWS)),
    guesses=st.lists(st.sampled_from(VIEWS), min_size=2, max_size=4),
)
def test_guesses_that_join_gain_no_more_than_the_best_single_view(
    weights: list[float], guesses: list[tuple[int, int]]
) -> None:
    def mean(made: list[tuple[int, int]]) -> float:
        output = [call_item("str_replace_editor", json.dumps(view(*lines)[1])) for lines in made]
        rewards = [
            compare(
                ExpectedCall(type="function_call", name="str_replace_editor", arguments=json.dumps(view(*truth)[1])),
                {"status": "completed", "output": output},
                {},
            ).reward
            for truth in VIEWS
        ]
        return sum(weight * reward for weight, reward in zip(weights, rewards, strict=True))

    assert mean(guesses) <= max(mean([lines]) for lines in VIEWS) + 1e-9
