"""Claims on partial credit: a written ladder, which pays no guess and leaves full marks as they are."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from paddock.resources_servers.pivot.semantic import SemanticOptions, compare
from paddock.resources_servers.pivot.semantic.options import PartialCredit
from paddock.resources_servers.pivot.task import ExpectedBatch, ExpectedCall
from paddock.types import JsonObject
from paddock.types.responses import call_item

Score = Callable[..., Any]
LADDER = PartialCredit(kind=0.1, target=0.3, content=0.6)


def bash(command: str, **more: Any) -> tuple[str, JsonObject]:
    return "execute_bash", {"command": command, **more}


def view(path: str, *lines: int) -> tuple[str, JsonObject]:
    return "str_replace_editor", {"command": "view", "path": path, "view_range": list(lines)}


def edit(path: str, old: str, new: str) -> tuple[str, JsonObject]:
    return "str_replace_editor", {"command": "str_replace", "path": path, "old_str": old, "new_str": new}


EDIT = edit("/a.py", "x = 1", "x = 2")
RUNGS = [
    (view("/a.py", 1, 100), view("/a.py", 500, 600), 0.3),
    (view("/a.py", 1, 100), bash("sed -n 500,600p /a.py"), 0.3),
    (view("/a.py", 1, 100), view("/b.py", 1, 100), 0.1),
    (view("/a.py", 1, 100), bash("ls /"), 0),
    (bash("ls /r"), bash("ls /q"), 0.1),
    (bash("grep -rn foo /r"), bash("grep -rn bar /r"), 0.1),
    (bash("grep -rn foo /r"), bash("rg foo /q"), 0.3),
    (bash("grep -rn foo /r"), bash("grep -rln foo /r"), 0.6),
    (EDIT, edit("/a.py", "x = 1", "x = 3"), 0.3),
    (EDIT, bash("sed -i 's/x = 1/x = 4/' /a.py"), 0.3),
    (EDIT, edit("/b.py", "x = 1", "x = 2"), 0.1),
    (EDIT, view("/a.py", 1, 100), 0),
    (bash("pytest a.py"), bash("pytest b.py"), 0.1),
    (bash("pytest a.py"), bash("pytest -x a.py"), 0.3),
    (bash("pytest -q"), bash("pytest -q", timeout=0.001), 0.3),
    (bash("pytest -q"), bash("make", timeout=0.001), 0),
    (bash("git log -5"), bash("git log"), 0.3),
    (bash("git log -5"), bash("git show"), 0.1),
    (bash("git log -5"), bash("git push"), 0),
    (bash("git log -5"), bash("ls"), 0),
    (bash("rm -rf /r/build"), bash("rm -rf /r/src"), 0),
    (EDIT, bash("rm /a.py"), 0),
    (("get_weather", {"city": "Rome"}), ("get_weather", {"city": "Oslo"}), 0.1),
    (("get_weather", {"city": "Rome"}), ("get_time", {"city": "Rome"}), 0),
    (("finish", {"message": "The bug in `Cache.get` is fixed."}), ("finish", {"message": "Fixed it."}), 0),
    ("Which of the tickets do you want to cancel?", "Which one?", 0),
    (EDIT, "I changed x.", 0),
]


@pytest.mark.parametrize(("expected", "actual", "reward"), RUNGS)
def test_what_comes_near_earns_its_rung_and_without_the_option_nothing(
    score: Score, expected: Any, actual: Any, reward: float
) -> None:
    assert score(expected, actual, partial_credit=LADDER).reward == pytest.approx(reward)
    assert score(expected, actual).reward == 0.0
    assert score(expected, actual, partial_credit=LADDER).reason == score(expected, actual).reason


@pytest.mark.parametrize(("expected", "actual", "_reward"), RUNGS)
def test_full_marks_are_as_without_the_option(score: Score, expected: Any, actual: Any, _reward: float) -> None:
    for one in (expected, actual):
        assert score(one, one, partial_credit=LADDER).reward == 1.0


def test_in_a_batch_each_call_that_is_not_paired_adds_its_rung(score: Score) -> None:
    both = [EDIT, edit("/b.py", "y = 1", "y = 2")]
    assert score(both, [EDIT, edit("/b.py", "y = 1", "y = 3")], partial_credit=LADDER).reward == pytest.approx(0.65)
    assert score(both, [edit("/b.py", "y = 1", "y = 3")], partial_credit=LADDER).reward == pytest.approx(0.15)
    assert score(both, [EDIT, bash("git stash")], partial_credit=LADDER).reward == 0.0
    assert score([EDIT, view("/a.py", 1, 9)], [view("/a.py", 1, 9), EDIT], partial_credit=LADDER).reward == 0.5


@pytest.mark.parametrize(
    "values",
    [{"kind": 0.5, "target": 0.4}, {"content": 0.1}, {"content": 1}, {"kind": -0.1}, {"rung": 0.1}],
)
def test_a_ladder_that_does_not_rise_is_refused(values: JsonObject) -> None:
    with pytest.raises(ValidationError):
        PartialCredit(**values)


def test_a_ladder_is_no_part_of_f1() -> None:
    with pytest.raises(ValidationError, match="guess_proof"):
        SemanticOptions(partial_credit=LADDER, multiple_calls="f1")


CANDIDATES = [
    view("/r/a.py", 1, 100),
    view("/r/a.py", 300, 400),
    view("/r/b.py", 1, 100),
    bash("sed -n 101,200p /r/a.py"),
    bash("grep -rn foo /r"),
    bash("grep -rn bar /r"),
    bash("git log"),
    bash("git log -5"),
    bash("pytest a.py"),
    bash("pytest b.py"),
    edit("/r/a.py", "x = 1", "x = 2"),
    edit("/r/a.py", "x = 1", "x = 3"),
    edit("/r/b.py", "y = 1", "y = 2"),
]
LADDERS = st.lists(st.floats(0, 0.99), min_size=3, max_size=3).map(
    lambda values: PartialCredit(**dict(zip(("kind", "target", "content"), sorted(values), strict=True)))
)


def paid(expected: tuple[int, ...], guesses: tuple[int, ...], ladder: PartialCredit) -> float:
    calls = [
        ExpectedCall(type="function_call", name=CANDIDATES[at][0], arguments=json.dumps(CANDIDATES[at][1]))
        for at in expected
    ]
    action = calls[0] if len(calls) == 1 else ExpectedBatch(type="function_call_batch", calls=calls)
    output = [call_item(CANDIDATES[at][0], json.dumps(CANDIDATES[at][1])) for at in guesses]
    options = SemanticOptions(partial_credit=ladder)
    return compare(action, {"status": "completed", "output": output}, {}, options).reward


@given(
    weights=st.lists(st.floats(0.001, 1), min_size=len(CANDIDATES), max_size=len(CANDIDATES)),
    guesses=st.lists(st.sampled_from(range(len(CANDIDATES))), min_size=2, max_size=4),
    ladder=LADDERS,
)
def test_whatever_the_ladder_no_set_of_guesses_gains_over_its_best_one(
    weights: list[float], guesses: list[int], ladder: PartialCredit
) -> None:
    belief = [weight / sum(weights) for weight in weights]

    def mean(made: tuple[int, ...]) -> float:
        return sum(chance * paid((at,), made, ladder) for at, chance in enumerate(belief))

    assert mean(tuple(guesses)) <= max(mean((at,)) for at in guesses) + 1e-9


@given(expected=st.sampled_from(range(len(CANDIDATES))), actual=st.sampled_from(range(len(CANDIDATES))), ladder=LADDERS)
def test_only_the_same_action_earns_all(expected: int, actual: int, ladder: PartialCredit) -> None:
    plain = paid((expected,), (actual,), PartialCredit(kind=0, target=0, content=0))
    assert plain in (0.0, 1.0)
    assert plain <= paid((expected,), (actual,), ladder) <= max(plain, ladder.content)
