"""Claims about what a reader sees of a rollout as text."""

from pathlib import Path

import pytest

from paddock.viewer import TERMINAL_LIMITS, Entry, entry_blocks, render, select_rollout, select_rollouts, side_by_side
from paddock.viewer.blocks import TextBlock, TwoColumns, cut, visible


def shown(run: Path, wanted: str) -> str:
    return "\n".join(line.text for line in render(entry_blocks(select_rollout(run, wanted), TERMINAL_LIMITS), 160))


def test_a_rollout_is_shown_turn_by_turn_with_its_patch_tests_and_ending(seen_run: Path) -> None:
    text = shown(seen_run, "0-0")
    order = [
        "rollout 0-0 calc__calc-1: reward 1, resolved",
        "The issue of calc__calc-1.",
        "== turn 1: exec, exec",
        "(thinking)\nWhere is it?\nI look.",
        "> exec\n  command: ls\n  timeout_s: 5\n  | calc.py",
        "> exec\n  command:\n  cat\n  calc.py",
        "first line",
        "last line",
        "== turn 2: exec",
        "> exec\n  command: sed -i s/-/+/ calc.py\n  timeout_s: 5\n  | (no output)",
        "== turn 3\nIt is fixed.",
        "-    return a - b\n+    return a + b",
        "FAIL_TO_PASS: 1 of 1 passed",
        "PASSED  test_calc.py::test_add",
        "reason           resolved",
        "harness          toy, variant even",
        "ended by         finished",
        "malformed calls  none",
        "turns            3, 3 calls of the model recorded",
    ]
    places = [text.find(part) for part in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)


def test_a_long_result_says_how_much_was_left_out(seen_run: Path) -> None:
    assert "[... 28521 of 30021 characters left out ...]" in shown(seen_run, "0-0")
    long = "a" * 60 + "b" * 40
    assert cut(long, 100) == long
    kept = cut(long, 30)
    assert (kept.count("a"), kept.endswith("\n" + "b" * 10)) == (20 + "characters left".count("a"), True)


def test_a_rollout_without_a_verdict_says_whose_failure_it_was_and_has_no_reward(seen_run: Path) -> None:
    text = shown(seen_run, "3-0")
    assert "no verdict (infra), scripted" in text
    for part in (
        "owner     infra",
        "stage     verify",
        "the grader's <machine> died",
        "attempts  1, the last was final",
    ):
        assert part in text
    assert "reward" not in text


def test_malformed_calls_and_a_limit_are_told(seen_run: Path) -> None:
    text = shown(seen_run, "1-1")
    assert "malformed calls  bad_json 2" in text
    assert "ended by         turn_limit" in text


def test_failing_tests_come_first_and_are_marked(seen_run: Path) -> None:
    lines = list(render(entry_blocks(select_rollout(seen_run, "1-0"), TERMINAL_LIMITS), 160))
    (wrong,) = [index for index, line in enumerate(lines) if line.text.startswith("  FAILED")]
    assert lines[wrong].tone == "bad"
    assert lines[wrong + 1].text.startswith("  PASSED")
    assert lines[wrong + 1].tone == "good"


@pytest.mark.parametrize("wanted", ["0-0", "1-0", "1-1", "2-0", "3-0"])
def test_nothing_recorded_can_move_a_cursor_or_turn_the_writing(seen_run: Path, wanted: str) -> None:
    text = shown(seen_run, wanted)
    assert visible(text) == text
    assert all(sign not in text for sign in ("\x1b", "\u202e", "\r"))
    if wanted == "1-0":
        assert "␛[2J\\u202e" in text


def test_two_rollouts_stand_side_by_side_turn_by_turn(seen_run: Path) -> None:
    lines = [
        line.text
        for line in render(
            side_by_side(select_rollout(seen_run, "0-0"), select_rollout(seen_run, "0-1"), TERMINAL_LIMITS), 120
        )
    ]
    text = "\n".join(lines)
    assert "== turn 1: the same calls, other results" in text
    assert "== turn 3: only on the left" in text
    assert "patches: the same" in text
    assert "tests: the same" in text
    (ended,) = [line.split() for line in lines if line.startswith("  ended by")]
    assert ended == ["ended", "by", "finished", "turn_limit"]
    assert max(len(line) for line in lines if " | " in line) <= 120


def test_what_is_folded_keeps_its_margin_and_loses_nothing() -> None:
    blocks = [TwoColumns([TextBlock("x" * 100, margin="  | ")], [TextBlock("y" * 30, "faint")])]
    lines = [line.text for line in render(blocks, 63)]
    left, right = [line[:30] for line in lines], [line[33:] for line in lines]
    assert left == ["  | " + "x" * 26] * 3 + [("  | " + "x" * 22).ljust(30)]
    assert right == ["y" * 30, "", "", ""]


def test_two_rollouts_that_differ_show_both_patches_and_the_tests_that_differ(seen_run: Path) -> None:
    pair = [select_rollout(seen_run, wanted) for wanted in ("0-0", "2-0")]
    text = "\n".join(line.text for line in render(side_by_side(pair[0], pair[1], TERMINAL_LIMITS), 160))
    assert "== turn 1: different" in text
    assert "patches: different" in text
    assert "| no patch" in text
    assert "PASSED  -      test_calc.py::test_add" in text


def test_a_rollout_beside_itself_is_the_same_throughout(seen_run: Path) -> None:
    entry = select_rollout(seen_run, "0-0")
    text = "\n".join(line.text for line in render(side_by_side(entry, entry, TERMINAL_LIMITS), 160))
    assert [line for line in text.split("\n") if line.startswith("== turn")] == [
        f"== turn {n}: same" for n in (1, 2, 3)
    ]


def test_a_failed_rollout_can_stand_beside_one_with_a_verdict(seen_run: Path) -> None:
    pair: list[Entry] = [*select_rollouts(seen_run, "3-0"), *select_rollouts(seen_run, "0-0")]
    text = "\n".join(line.text for line in render(side_by_side(pair[0], pair[1], TERMINAL_LIMITS), 160))
    assert "the grader's <machine> died" in text
