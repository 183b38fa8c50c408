"""From what a test command wrote, and how it ended, to what its tests say. Pure.

Output  decoded with errors replaced; official markers in it are broken up (code under test can print them), and the
        real ones put around it: the official functions see one run, with the process's own exit status.
Rule    `lists` through swebench's functions; `passed` and `map` as the datasets that use them have it.
Doubt   what makes a run hard to believe is said, not judged: `verdict` decides whose doing it is.
"""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from paddock.resources_servers.swe import official, swebench_logs
from paddock.resources_servers.swe.grading import sentinel as sentinels
from paddock.resources_servers.swe.grading.sentinel import Sentinel
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.summary import normalise_ids, parse_summary, statuses_match
from paddock.resources_servers.swe.swebench_logs import ExpectedTests
from paddock.sandbox.records import KilledBy

Doubt = Literal[
    "timeout",
    "over_budget",
    "killed",
    "nothing_ran",
    "status_differs",
    "status_hidden",
    "contradictory_status",
    "sentinel",
    "sandbox_died",
]
SIGNALS = range(129, 193)
"""Exit codes of a shell for a command that a signal ended."""
_LINE = re.compile(r"^(PASSED|XFAIL|FAILED) (\S.*)$", re.MULTILINE)
_TEST = re.compile(r"::\w|^\w+ \([\w.]+\)")
"""In a test's name, of pytest's kind or unittest's."""
_BROKEN = ">>>>>\u200b "


class GradingRun(NamedTuple):
    """One run of the test command."""

    output: str
    """Both streams in order, or the first where they are kept apart."""
    exit_code: int
    killed_by: KilledBy | None = None
    sentinel: Sentinel | None = None
    status: Mapping[str, str] | None = None
    """Read by the row's own program; None: by a parser, from `output`."""
    whole: bool = True
    """Nothing of the output was left out, and all of it can be read."""
    died: bool = False
    """The sandbox ended under it."""
    duration_s: float = 0.0
    """Of the test command; 0: it did not come to that."""


class RunResults(NamedTuple):
    """What a run says of its tests."""

    resolved: bool
    fail_to_pass: dict[str, str]
    pass_to_pass: dict[str, str]
    """Status by listed test; MISSING where the run does not tell."""
    failed_targets: bool
    """Some test that the fix is for did not get there."""
    doubt: Doubt | None
    detail: str
    status: str
    """RESOLVED_FULL, RESOLVED_PARTIAL or RESOLVED_NO, by the row's rule."""


class _RuleResult(NamedTuple):
    resolved: bool
    status: str
    fail_to_pass: Mapping[str, bool]
    pass_to_pass: Mapping[str, bool]


def expected_of(instance: SweInstance) -> ExpectedTests:
    return ExpectedTests(
        instance.instance_id,
        instance.log_parser,
        instance.eval_type,
        instance.fail_to_pass,
        instance.pass_to_pass,
        instance.version,
    )


def read_run(instance: SweInstance, run: GradingRun) -> RunResults:
    """Read what a run says of its tests."""
    status = _statuses(instance, run)
    complaint = None
    if run.sentinel is not None:
        status, complaint = sentinels.take_out(run.sentinel, status, run.output, run.exit_code)
    result = _judge(instance, status)
    doubt, detail = _doubt(instance, run, _ReadLog(status, complaint, result.resolved))
    return RunResults(
        resolved=result.resolved and doubt is None,
        fail_to_pass={test: _status(instance, test, status) for test in result.fail_to_pass},
        pass_to_pass={test: _status(instance, test, status) for test in result.pass_to_pass},
        failed_targets=not all(result.fail_to_pass.values()),
        doubt=doubt,
        detail=detail or _summary(result),
        status=result.status,
    )


def official_view(instance: SweInstance, run: GradingRun) -> str:
    """Return what the official functions say of this run with its output unbroken: a status, or NOT_FOUND."""
    expected = expected_of(instance)
    status, counts = swebench_logs.status_map(expected, official.whole_log(run.output, run.exit_code))
    return official.judge(expected, status).status if counts else "NOT_FOUND"


def without_markers(output: str) -> str:
    """Return the output with all official markers broken up."""
    return output.replace(official.MARKER, _BROKEN)


def reward_status(instance: SweInstance, written: str) -> dict[str, str]:
    """Return the status that a row's verifier wrote for all of it; none where it wrote neither 0 nor 1."""
    word = {"1": "PASSED", "0": "FAILED"}.get(written.strip())
    return {} if word is None else dict.fromkeys(instance.fail_to_pass, word)


def needs_parser(instance: SweInstance, run: GradingRun) -> bool:
    """Say whether a run's statuses are read from its output by swebench's functions."""
    return not _is_cut(run) and run.status is None and instance.rule != "map"


def log_of(instance: SweInstance, run: GradingRun) -> tuple[ExpectedTests, str, str]:
    """Return the arguments of `swebench_logs.statuses`."""
    output = without_markers(run.output)
    return expected_of(instance), official.whole_log(output, run.exit_code), output


def _is_cut(run: GradingRun) -> bool:
    return run.killed_by is not None or run.died or not run.whole


def _statuses(instance: SweInstance, run: GradingRun) -> dict[str, str]:
    if _is_cut(run):
        return {}  # no verdict rests on it, and what it wrote may be millions of lines
    if run.status is not None:
        return dict(run.status)
    if instance.rule == "map":
        return parse_summary(run.output)
    return swebench_logs.statuses(*log_of(instance, run))


def _judge(instance: SweInstance, status: Mapping[str, str]) -> _RuleResult:
    if instance.rule == "map":
        return _judge_map(instance, status)
    if instance.rule in ("passed", "reward"):
        f2p = {test: status.get(test) == "PASSED" for test in instance.fail_to_pass}
        p2p = {test: status.get(test) == "PASSED" for test in instance.pass_to_pass}
        p2p |= {test: False for test in instance.not_failed if status.get(test) in ("FAILED", "ERROR")}
        resolved = bool(f2p or p2p) and all(f2p.values()) and all(p2p.values())
        return _RuleResult(resolved, _status_word(f2p, p2p), f2p, p2p)
    lists = official.judge(expected_of(instance), status)
    return _RuleResult(lists.resolved, lists.status, lists.fail_to_pass, lists.pass_to_pass)


def _judge_map(instance: SweInstance, status: Mapping[str, str]) -> _RuleResult:
    """Judge by the whole map: a test that differed before the fix is a target; an unexpected one fails."""
    expected, actual = normalise_ids(instance.expected), normalise_ids(status)
    before = normalise_ids(instance.before)
    right = {test: actual.get(test) == want for test, want in expected.items()}
    right |= {test: False for test in actual if test not in expected}
    is_target = {test: before.get(test) != expected.get(test) for test in right}
    f2p = {test: good for test, good in right.items() if is_target[test]}
    p2p = {test: good for test, good in right.items() if not is_target[test]}
    return _RuleResult(statuses_match(expected, actual), _status_word(f2p, p2p), f2p, p2p)


def _status_word(fail_to_pass: Mapping[str, bool], pass_to_pass: Mapping[str, bool]) -> str:
    if not all(pass_to_pass.values()) or not any(fail_to_pass.values()):
        return "RESOLVED_NO"
    return "RESOLVED_FULL" if all(fail_to_pass.values()) else "RESOLVED_PARTIAL"


class _ReadLog(NamedTuple):
    status: Mapping[str, str]
    complaint: str | None
    """What is wrong with the sentinel's line; None: nothing."""
    resolved: bool
    """Whether the row's rule is met."""


def _doubt(instance: SweInstance, run: GradingRun, read: _ReadLog) -> tuple[Doubt | None, str]:
    status, complaint = read.status, read.complaint
    if run.died:
        return "sandbox_died", f"the sandbox ended while the tests ran: {run.output}"
    if run.killed_by == "timeout":
        return "timeout", "the tests ran into their time limit"
    if run.killed_by is not None:
        return "over_budget", f"the tests were killed: {run.killed_by}"
    if not run.whole:
        return "over_budget", "the tests wrote more than is kept of an output, or than can be read in its time"
    if run.exit_code in SIGNALS:
        return "killed", f"the test command was killed; exit status {run.exit_code}"
    if not status and instance.eval_type != "fail_only":
        return "nothing_ran", f"no test reported a result; exit status {run.exit_code}"
    if complaint is not None:
        if not any(word in ("PASSED", "XFAIL", "SKIPPED") for word in status.values()):
            return "nothing_ran", f"no test was run; exit status {run.exit_code}"
        return "sentinel", complaint
    failed = any(word in ("FAILED", "ERROR") for word in status.values())
    # Without a sentinel, which is unlike any line that code prints, only what is named like a test counts.
    named = any(status[word] in ("FAILED", "ERROR") and _TEST.search(word) for word in status)
    if run.sentinel is None and named and run.exit_code == 0:
        # The row's command may hide its status (`|| true`): that its own tests failed is no sign of a forgery.
        hidden: Doubt = "status_differs" if read.resolved else "status_hidden"
        return hidden, "tests failed in the log, yet the test command succeeded"
    if run.sentinel is None and not failed and run.exit_code != 0:
        return "status_differs", f"nothing failed in the log, yet the test command ended with {run.exit_code}"
    if twice := _contradiction(instance, run.output):
        return "contradictory_status", f"{twice}: reported as failed and as passed"
    return None, ""


def _contradiction(instance: SweInstance, output: str) -> str | None:
    """Find a listed test that one run reports both ways; whole ids are compared, not what a parser keeps of them."""
    lines: list[tuple[str, str]] = _LINE.findall(output)
    good = {name.strip() for status, name in lines if status != "FAILED"}
    listed = {*instance.fail_to_pass, *instance.pass_to_pass}
    cut = tuple(test for test in listed if official.is_cut(test))
    for status, rest in lines:
        name = rest.split(" - ", maxsplit=1)[0].strip()
        if status == "FAILED" and name in good and (name in listed or name.startswith(cut)):
            return name
    return None


def _status(instance: SweInstance, test: str, status: Mapping[str, str]) -> str:
    result = official.status_of(test, status) if instance.rule == "lists" else status.get(test)
    return result or "MISSING"


def _summary(result: _RuleResult) -> str:
    def count(tests: Mapping[str, bool]) -> str:
        return f"{sum(tests.values())} of {len(tests)}"

    return f"{count(result.fail_to_pass)} tests that must pass now do, {count(result.pass_to_pass)} still do"
