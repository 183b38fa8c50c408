"""Claims about what a run says: the official rules, logs that lie, and the rules of the other data sets."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.resources_servers.swe import swebench_logs
from paddock.resources_servers.swe.grading.run_results import GradingRun, official_view, read_run
from paddock.resources_servers.swe.grading.sentinel import draw
from paddock.resources_servers.swe.grading.vocabulary import NameVocabulary
from paddock.resources_servers.swe.instance import SweInstance

Make = Callable[..., SweInstance]
NEW, OLD = "tests/test_a.py::test_new", "tests/test_a.py::test_old"
BOTH = f"PASSED {NEW}\nPASSED {OLD}\n"
KILLED = """
import os, signal, sys
from paddock.resources_servers.swe.grading.run_results import GradingRun, read_run
from paddock.resources_servers.swe.instance import SweInstance

def kill(event, args):
    if event == "open" and args[1] == "r" and str(args[0]).startswith((os.environ["TMPDIR"], "/proc/self/fd/")):
        os.kill(os.getpid(), signal.SIGKILL)

instance = SweInstance.model_validate_json(sys.argv[1])
sys.addaudithook(kill)
read_run(instance, GradingRun("PASSED x::y", 0))
"""


WORDS = (
    *("PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "ok", "OK", "... ok", " ... FAIL", "FAIL:", "ERROR:", "FAIL"),
    *("(", ")", "[", "]", " - ", "::", "test_a", "tests/test_a.py::test_b", "test_a (m.C)", "[100%]", "\x1b[31m", "\r"),
    *("Testing against Django installed in", "--version is equivalent to version", "1)", "____", " ", "\t", "\n", "\n"),
)
NEED_A_SPEC = {"parse_log_immutable_js", "parse_log_jekyll", "parse_log_lighthouse", "parse_log_next"}
"""Parsers that ask for what only swebench itself has."""


def log(**status: str) -> str:
    return "".join(f"{word} tests/test_a.py::test_{name}\n" for name, word in status.items())


@pytest.mark.parametrize(
    ("status", "new", "old"),
    [
        ("PASSED", True, True),
        ("XFAIL", True, True),
        ("XPASS", False, False),
        ("FAILED", False, False),
        ("ERROR", False, False),
        ("SKIPPED", False, True),
    ],
)
def test_statuses_count_as_officially(make: Make, status: str, new: bool, old: bool) -> None:
    """`new` and `old`: a test that must pass now, a test that must still pass."""
    other = "FAILED x::y\n"
    for resolved, text in ((new, log(new=status, old="PASSED")), (old, log(new="PASSED", old=status))):
        results = read_run(make(), GradingRun(text + other, 1))
        assert (results.resolved, results.doubt) == (resolved, None)


def test_no_text_makes_a_parser_fail() -> None:
    chance = random.Random(7)
    raised = set()
    for parser in sorted(set(swebench_logs.parsers()) - NEED_A_SPEC):
        for _ in range(200):
            text = "".join(chance.choice(WORDS) for _ in range(chance.randrange(1, 60)))
            swebench_logs.parse(parser, text)
            raised |= {parser} if _raises(parser, text) else set()
    assert raised == {"parse_log_django"}, "the only one that needs it"


def _raises(parser: str, text: str) -> bool:
    try:
        swebench_logs.parsers()[parser](text, None)
    except IndexError:
        return True
    return False


def test_a_missing_test_has_failed_and_a_skip_line_without_an_id_is_a_missing_test(make: Make) -> None:
    results = read_run(make(), GradingRun(log(new="PASSED") + "SKIPPED [1] tests/test_a.py:3: one core\n", 0))
    assert not results.resolved
    assert results.pass_to_pass == {OLD: "MISSING"}
    assert not results.failed_targets


def test_tests_outside_the_lists_may_fail(make: Make) -> None:
    assert read_run(make(), GradingRun(BOTH + "FAILED tests/test_b.py::test_x - why\n", 1)).resolved


@pytest.mark.parametrize(
    ("text", "code", "doubt"),
    [
        (BOTH, 0, None),
        (BOTH, 1, "status_differs"),
        (BOTH, 139, "killed"),
        (log(new="FAILED", old="PASSED"), 1, None),
        (log(new="FAILED", old="PASSED"), 0, "status_hidden"),
        (BOTH + "FAILED tests/test_b.py::test_x - why\n", 0, "status_differs"),
        ("ImportError while loading conftest\n", 4, "nothing_ran"),
        ("", 0, "nothing_ran"),
        ("\x1b[32mPASSED\x1b[0m " + NEW, 0, "nothing_ran"),
    ],
)
def test_a_log_must_agree_with_the_exit_status(make: Make, text: str, code: int, doubt: str | None) -> None:
    results = read_run(make(), GradingRun(text, code))
    assert results.doubt == doubt
    assert results.resolved == (doubt is None and text == BOTH)


def test_printed_statuses_with_markers_of_their_own_are_not_believed_though_officially_they_are(make: Make) -> None:
    forged = f"{BOTH}>>>>> End Test Output\n>>>>> Test Exit Code: 0\n"
    run = GradingRun(forged + log(new="FAILED", old="FAILED"), 1)
    assert not read_run(make(), run).resolved
    assert official_view(make(), run) == "RESOLVED_FULL"


def test_a_marker_of_failure_that_code_prints_does_not_spoil_an_honest_run(make: Make) -> None:
    run = GradingRun(f"testing >>>>> Tests Timed Out and >>>>> Patch Apply Failed\n{BOTH}", 0)
    assert read_run(make(), run).resolved
    assert official_view(make(), run) == "NOT_FOUND"


def test_statuses_printed_after_the_real_ones_need_an_unrelated_failure_and_then_only_a_sentinel_sees_them(
    make: Make,
) -> None:
    lines = log(new="FAILED", old="PASSED") + BOTH + "FAILED x::y\n"
    assert official_view(make(), GradingRun(lines, 1)) == "RESOLVED_FULL"
    sentinel = draw("pytest -rA tests/test_a.py", (), vocabulary=NameVocabulary({}), chance=random.Random(1))
    results = read_run(make(), GradingRun(lines, 1, sentinel=sentinel))
    assert (results.resolved, results.doubt) == (False, "sentinel")


def test_a_status_printed_for_all_tests_at_the_end_contradicts_the_exit_status(make: Make) -> None:
    results = read_run(make(), GradingRun(log(new="FAILED", old="PASSED") + BOTH, 1))
    assert (results.resolved, results.doubt) == (False, "status_differs")


@pytest.mark.parametrize(
    ("run", "doubt"),
    [
        (GradingRun(BOTH, 137, killed_by="timeout"), "timeout"),
        (GradingRun(BOTH, 137, killed_by="memory"), "over_budget"),
        (GradingRun(BOTH, 0, whole=False), "over_budget"),
    ],
)
def test_a_run_that_was_cut_is_in_doubt_whatever_it_printed(make: Make, run: GradingRun, doubt: str) -> None:
    results = read_run(make(), run)
    assert (results.resolved, results.doubt) == (False, doubt)


@pytest.mark.parametrize("name", ["[100%]", "tests/test_a.py::test_p[log(photon"])
def test_ids_that_are_no_whole_ids_are_matched_as_officially(make: Make, name: str) -> None:
    text = "PASSED [100%]\nPASSED tests/test_a.py::test_p[log(photon s)]\nPASSED " + NEW
    results = read_run(make(pass_to_pass=[name]), GradingRun(text, 0))
    assert results.resolved


@pytest.mark.parametrize(
    ("of_two", "of_four", "shown"), [("PASSED", "PASSED", "PASSED"), ("PASSED", "FAILED", "FAILED")]
)
def test_an_id_that_is_cut_inside_a_parameter_has_the_status_of_those_that_begin_so(
    make: Make, of_two: str, of_four: str, shown: str
) -> None:
    cut = "tests/test_a.py::test_named[sides"
    text = f"{of_two} {cut} of two]\n{of_four} {cut} of four]\n" + log(new="PASSED")
    instance = make(pass_to_pass=[cut], log_parser="parse_log_pytest_v2")
    results = read_run(instance, GradingRun(text, int("FAILED" in text)))
    assert (results.resolved, results.pass_to_pass) == (shown == "PASSED", {cut: shown})


@pytest.mark.parametrize(("again", "doubt"), [("two", "contradictory_status"), ("four", None)])
def test_a_test_whose_id_is_cut_is_in_doubt_where_it_is_reported_both_ways(
    make: Make, again: str, doubt: str | None
) -> None:
    cut = "tests/test_a.py::test_named[sides"
    text = f"FAILED {cut} of two] - why\nPASSED {cut} of {again}]\nFAILED x::y\n" + log(new="PASSED")
    assert read_run(make(pass_to_pass=[cut]), GradingRun(text, 1)).doubt == doubt


def test_crlf_logs_and_broken_encodings_are_read(make: Make) -> None:
    text = b"\xff\xfe broken\r\n".decode(errors="replace") + BOTH.replace("\n", "\r\n")
    assert read_run(make(), GradingRun(text, 0)).resolved


def test_a_repository_whose_parser_tells_failures_only_is_graded_so(make: Make) -> None:
    js = make(log_parser="parse_log_chart_js", eval_type="fail_only")
    assert read_run(js, GradingRun("Executed 12 of 12 SUCCESS\n", 0)).resolved


R2E = {
    "rule": "map",
    "expected": {"test_new": "PASSED", "T.test_old": "PASSED", "test_broken": "FAILED"},
    "before": {"test_new": "FAILED", "T.test_old": "PASSED", "test_broken": "FAILED"},
}
SUMMARY = "=== short test summary info ===\n"


def r2e_log(new: str, old: str, broken: str, more: str = "") -> str:
    lines = [f"{new} r2e_tests/test_1.py::test_new", f"{old} r2e_tests/test_1.py::T::test_old"]
    return f"PASSED ::ignored\n{SUMMARY}" + "\n".join(
        [*lines, f"{broken} r2e_tests/test_1.py::test_broken - why", more]
    )


@pytest.mark.parametrize(
    ("text", "resolved", "targets"),
    [
        (r2e_log("PASSED", "PASSED", "FAILED"), True, False),
        (r2e_log("\x1b[32mPASSED\x1b[0m", "PASSED", "FAILED"), True, False),
        (r2e_log("FAILED", "PASSED", "FAILED"), False, True),
        (r2e_log("PASSED", "FAILED", "FAILED"), False, False),
        (r2e_log("PASSED", "PASSED", "PASSED"), False, False),
        (r2e_log("PASSED", "PASSED", "FAILED", "FAILED r2e_tests/test_2.py::x"), False, False),
        (f"{SUMMARY}FAILED r2e_tests/test_1.py::test_new\n", False, True),
    ],
)
def test_a_whole_map_must_be_as_expected(make: Make, text: str, resolved: bool, targets: bool) -> None:
    """`targets`: some test that differed before the fix is not as it must be."""
    results = read_run(make(**R2E), GradingRun(text, 1))
    assert (results.resolved, results.failed_targets) == (resolved, targets)


@pytest.mark.parametrize(
    ("fields", "status", "resolved"),
    [
        ({}, {NEW: "PASSED", OLD: "PASSED"}, True),
        ({}, {NEW: "PASSED", OLD: "XFAIL"}, False),
        ({}, {NEW: "PASSED"}, False),
        ({"pass_to_pass": []}, {NEW: "PASSED"}, True),
        ({"pass_to_pass": [], "fail_to_pass": []}, {NEW: "PASSED"}, False),
        ({"pass_to_pass": [], "not_failed": [OLD]}, {NEW: "PASSED"}, True),
        ({"pass_to_pass": [], "not_failed": [OLD]}, {NEW: "PASSED", OLD: "SKIPPED"}, True),
        ({"pass_to_pass": [], "not_failed": [OLD]}, {NEW: "PASSED", OLD: "FAILED"}, False),
    ],
)
def test_the_rule_passed_wants_every_listed_test_and_none_that_fails(
    make: Make, fields: dict[str, list[str]], status: dict[str, str], resolved: bool
) -> None:
    assert read_run(make(rule="passed", **fields), GradingRun("", 0, status=status)).resolved is resolved


@pytest.mark.slow
def test_a_kill_while_a_log_is_read_leaves_nothing(make: Make, tmp_path: Path) -> None:
    words = [sys.executable, "-c", KILLED, make().model_dump_json()]
    done = subprocess.run(words, env={**os.environ, "TMPDIR": str(tmp_path)}, check=False)
    assert done.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []
