"""Claims about the lists that runs tell, and about lists that are held against runs."""

from collections.abc import Callable
from typing import Any

import pytest

from paddock.resources_servers.swe.checks import RowDraft, read_draft
from paddock.resources_servers.swe.checks.lists import RunStatuses, SortedTests, sort_tests
from paddock.types import JsonObject

Make = Callable[..., JsonObject]
SOUND = ([{"new": "FAILED", "old": "PASSED"}] * 2, [{"new": "PASSED", "old": "PASSED"}] * 2)


def runs(null: list[dict[str, str]], gold: list[dict[str, str]]) -> list[RunStatuses]:
    return [*(RunStatuses("null", one) for one in null), *(RunStatuses("gold", one) for one in gold)]


def kinds(tests: SortedTests) -> dict[str, bool]:
    return {one.kind: one.is_refusal for one in tests.findings}


@pytest.fixture
def draft(row: Make) -> Callable[..., RowDraft]:
    return lambda **fields: read_draft(row(**fields))


def test_lists_are_derived_from_runs(draft: Any) -> None:
    tests = sort_tests(draft(), runs(*SOUND))
    assert (tests.fail_to_pass, tests.pass_to_pass) == (["new"], ["old"])
    assert (tests.findings, tests.flakes, tests.needs_fix) == ([], [], [])


def test_derived_lists_are_sorted_and_take_what_passes_by_the_official_rule(draft: Any) -> None:
    null = {"b": "ERROR", "a": "SKIPPED", "z": "XFAIL", "y": "PASSED", "skipped": "SKIPPED", "worse": "PASSED"}
    gold = {**dict.fromkeys("abyz", "PASSED"), "c": "PASSED", "skipped": "SKIPPED", "worse": "FAILED"}
    tests = sort_tests(draft(), runs([null], [gold]))
    assert (tests.fail_to_pass, tests.pass_to_pass) == (["a", "b", "c"], ["y", "z"])
    assert tests.needs_fix == ["c"]
    assert kinds(tests) == {"broken_by_fix": False}


@pytest.mark.parametrize("side", ["null", "gold"])
def test_a_flaky_test_that_was_right_before_is_left_out_and_named(draft: Any, side: str) -> None:
    steady, unsteady = ["PASSED", "PASSED"], ["PASSED", "FAILED"]
    null, gold = (unsteady, steady) if side == "null" else (steady, unsteady)
    seen = runs(
        [{"new": "FAILED", "odd": status} for status in null], [{"new": "PASSED", "odd": status} for status in gold]
    )
    tests = sort_tests(draft(), seen)
    assert (tests.fail_to_pass, tests.pass_to_pass) == (["new"], [])
    assert kinds(tests) == {"flaky_dropped": False}
    assert [(one.test, one.side, one.statuses) for one in tests.flakes] == [("odd", side, unsteady)]


@pytest.mark.parametrize("given", [{}, {"FAIL_TO_PASS": ["new"], "PASS_TO_PASS": []}])
def test_a_flaky_target_refuses(draft: Any, given: JsonObject) -> None:
    seen = runs([{"new": "FAILED"}] * 2, [{"new": "PASSED"}, {"new": "FAILED"}])
    assert kinds(sort_tests(draft(**given), seen))["flaky_target"]


def test_a_target_that_fails_in_two_ways_is_named_and_stays(draft: Any) -> None:
    tests = sort_tests(draft(), runs([{"new": "FAILED"}, {"new": "ERROR"}], [{"new": "PASSED"}] * 2))
    assert (tests.fail_to_pass, tests.findings) == (["new"], [])
    assert [one.test for one in tests.flakes] == ["new"]


def test_a_given_flaky_test_is_dropped(draft: Any) -> None:
    seen = runs(
        [{"new": "FAILED", "odd": "PASSED"}] * 2, [{"new": "PASSED", "odd": one} for one in ("PASSED", "ERROR")]
    )
    tests = sort_tests(draft(FAIL_TO_PASS=["new"], PASS_TO_PASS='["odd"]'), seen)
    assert (tests.fail_to_pass, tests.pass_to_pass, kinds(tests)) == (["new"], [], {"flaky_dropped": False})


@pytest.mark.parametrize(
    ("targets", "kept", "kind", "refuses", "detail"),
    [
        (["knew"], ["old"], "ids_missing", True, "knew (nearest: new)"),
        (["new"], ["olds"], "ids_missing", True, "olds (nearest: old)"),
        (["old"], [], "targets_pass_without_fix", True, "old"),
        (["new", "bad"], [], "targets_fail_with_fix", True, "bad"),
        (["new"], ["bad"], "kept_fail_with_fix", True, "bad"),
        (["new"], ["more"], "kept_fail_without_fix", False, "more"),
    ],
)
def test_given_lists_are_held_against_the_runs(
    draft: Any, targets: list[str], kept: list[str], kind: str, refuses: bool, detail: str
) -> None:
    null = {"new": "FAILED", "old": "PASSED", "bad": "FAILED", "more": "FAILED"}
    gold = {"new": "PASSED", "old": "PASSED", "bad": "FAILED", "more": "PASSED"}
    tests = sort_tests(draft(FAIL_TO_PASS=targets, PASS_TO_PASS=kept), runs([null], [gold]))
    assert kinds(tests) == {kind: refuses}
    assert tests.findings[0].detail.endswith(detail)
    assert tests.findings[0].advice


def test_kept_tests_alone_can_be_derived(draft: Any) -> None:
    tests = sort_tests(draft(FAIL_TO_PASS=["new"]), runs(*SOUND))
    assert (tests.fail_to_pass, tests.pass_to_pass) == (["new"], ["old"])


def test_without_a_target_the_row_is_refused(draft: Any) -> None:
    tests = sort_tests(draft(), runs([{"old": "PASSED"}], [{"old": "PASSED"}]))
    assert kinds(tests) == {"no_target": True}
    assert "pass with and without the fix" in tests.findings[0].detail
