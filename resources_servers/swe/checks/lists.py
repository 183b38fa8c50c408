"""From runs without the fix and with it to the lists of tests, and to what is wrong with lists that a row has. Pure.

Pass    as grading has it (`official.judge`): XFAIL passes, a skipped target does not, a skipped kept test does.
Derive  FAIL_TO_PASS: passes in every run with the fix and in none without; PASS_TO_PASS: passes in all. A target that
        passes at times refuses the row; any other test that does is left out.
Given   each list is held against the runs: a test that no run reports, that fails with the fix, that passes without
        it. A flaky PASS_TO_PASS is dropped, a flaky FAIL_TO_PASS refuses the row.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from paddock.resources_servers.swe import official
from paddock.resources_servers.swe.checks.drafts import RowDraft, can_drop
from paddock.resources_servers.swe.checks.records import SIDES, CheckFinding, Flake, Side, refusal, some, warning
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.swebench_logs import ExpectedTests

MISSING = "MISSING"


class RunStatuses(NamedTuple):
    """The statuses that one run reports."""

    side: Side
    status: Mapping[str, str]


class SortedTests(NamedTuple):
    """The lists of tests, and the findings on the way."""

    fail_to_pass: list[str]
    pass_to_pass: list[str]
    findings: list[CheckFinding]
    flakes: list[Flake]
    needs_fix: list[str]


class _Passes(NamedTuple):
    """Whether a test passes, run by run."""

    null: list[bool]
    gold: list[bool]

    @property
    def steady(self) -> bool:
        return len(set(self.null)) == 1 and len(set(self.gold)) == 1

    @property
    def target(self) -> bool:
        return all(self.gold) and not any(self.null)

    @property
    def always_passes(self) -> bool:
        return all(self.gold) and all(self.null)


def sort_tests(draft: RowDraft, runs: Sequence[RunStatuses]) -> SortedTests:
    """Sort a draft's tests into its lists by all its runs: at least one of each side."""
    tests = sorted({test for run in runs for test in run.status})
    flakes = [flake for side in SIDES for test in tests if (flake := _flake(test, side, runs))]
    needs_fix = [test for test in tests if not any(test in run.status for run in runs if run.side == "null")]
    as_target, as_pass_to_pass = _tables(draft.instance, tests, runs)
    findings: list[CheckFinding] = []
    if draft.has_targets:
        targets = list(dict.fromkeys(draft.instance.fail_to_pass))
        findings += _check_targets({test: as_target[test] for test in targets}, _ReportedTests(draft.instance, tests))
    else:
        targets = [test for test in tests if as_target[test].target and test not in as_pass_to_pass]
        findings += _flaky_targets([test for test in tests if not as_target[test].steady], as_target)
    if draft.has_pass_to_pass:
        stay, more = _check_pass_to_pass(draft, as_pass_to_pass, _ReportedTests(draft.instance, tests))
        findings += more
    else:
        stay = [test for test in tests if as_target[test].always_passes and test not in targets]
        findings += _left_out(tests, as_target, draft)
    if not targets:
        findings.append(_no_target(tests, runs))
    return SortedTests(sorted(targets), sorted(stay), findings, flakes, [test for test in needs_fix if test in targets])


class _ReportedTests(NamedTuple):
    """Tests that the runs report."""

    instance: SweInstance
    tests: list[str]

    def missing(self, names: Sequence[str], passes: Mapping[str, _Passes]) -> list[str]:
        if self.instance.eval_type == "fail_only":
            return []
        reported = dict.fromkeys(self.tests, "FAILED")
        return [name for name in names if official.status_of(name, reported) is None and not any(passes[name].gold)]

    def near(self, name: str) -> str:
        close = get_close_matches(name, self.tests, n=1, cutoff=0.6)
        return f"{name} (nearest: {close[0]})" if close else name


def _tables(
    instance: SweInstance, tests: Sequence[str], runs: Sequence[RunStatuses]
) -> tuple[dict[str, _Passes], dict[str, _Passes]]:
    """Return the passes of each test, as a target and as a kept one."""
    targets = list(dict.fromkeys([*instance.fail_to_pass, *tests]))
    as_target = {test: _Passes([], []) for test in targets}
    as_pass_to_pass = {test: _Passes([], []) for test in instance.pass_to_pass}
    for run in runs:
        report = _judge(instance, targets, run.status)
        for table, result in ((as_target, report.fail_to_pass), (as_pass_to_pass, report.pass_to_pass)):
            for test, passes in table.items():
                (passes.gold if run.side == "gold" else passes.null).append(result.get(test, False))
    return as_target, as_pass_to_pass


def _judge(instance: SweInstance, targets: Sequence[str], status: Mapping[str, str]) -> official.OfficialReport:
    if instance.rule in ("passed", "reward"):
        right = {test: status.get(test) == "PASSED" for test in (*targets, *instance.pass_to_pass)}
        return official.OfficialReport(resolved=False, status="", fail_to_pass=right, pass_to_pass=right)
    expected = ExpectedTests(
        instance.instance_id, instance.log_parser, instance.eval_type, targets, instance.pass_to_pass, instance.version
    )
    return official.judge(expected, status)


def _flake(test: str, side: Side, runs: Sequence[RunStatuses]) -> Flake | None:
    statuses = [official.status_of(test, run.status) or MISSING for run in runs if run.side == side]
    return Flake(test=test, side=side, statuses=statuses) if len(set(statuses)) > 1 else None


def _check_targets(targets: Mapping[str, _Passes], reported: _ReportedTests) -> list[CheckFinding]:
    findings = []
    missing = reported.missing(list(targets), targets)
    if missing:
        names = [reported.near(name) for name in missing]
        findings.append(refusal("ids_missing", f"FAIL_TO_PASS: no run reports {some(names)}", "write ids as runs do"))
    flaky = [test for test, passes in targets.items() if not passes.steady]
    if flaky:
        findings.append(_flaky_target(flaky))
    failing = [test for test, passes in targets.items() if not any(passes.gold) and test not in missing]
    if failing:
        findings.append(
            refusal(
                "targets_fail_with_fix",
                f"FAIL_TO_PASS: fail with the fix: {some(failing)}",
                "look at their output with the fix applied; take out what it does not mend",
            )
        )
    passing = [test for test, passes in targets.items() if all(passes.null)]
    if passing:
        findings.append(
            refusal(
                "targets_pass_without_fix",
                f"FAIL_TO_PASS: pass without the fix: {some(passing)}",
                "move them to PASS_TO_PASS: they do not tell that the bug is gone",
            )
        )
    return findings


def _check_pass_to_pass(
    draft: RowDraft, passes: Mapping[str, _Passes], reported: _ReportedTests
) -> tuple[list[str], list[CheckFinding]]:
    listed = list(dict.fromkeys(draft.instance.pass_to_pass))
    findings = []
    missing = reported.missing(listed, passes)
    if missing:
        names = [reported.near(name) for name in missing]
        findings.append(refusal("ids_missing", f"PASS_TO_PASS: no run reports {some(names)}", "write ids as runs do"))
    flaky = [test for test in listed if not passes[test].steady]
    if flaky and can_drop(draft.row):
        findings.append(warning("flaky_dropped", f"PASS_TO_PASS: flaky, dropped: {some(flaky)}"))
    elif flaky:
        findings.append(refusal("flaky", f"flaky: {some(flaky)}", "take them out of what the row expects"))
    failing = [test for test in listed if not any(passes[test].gold) and test not in missing]
    if failing:
        findings.append(
            refusal(
                "kept_fail_with_fix",
                f"PASS_TO_PASS: fail with the fix: {some(failing)}",
                "take them out of PASS_TO_PASS, or leave the list out and let the runs tell it",
            )
        )
    broken = [test for test in listed if not any(passes[test].null) and all(passes[test].gold)]
    if broken:
        findings.append(
            warning(
                "kept_fail_without_fix",
                f"PASS_TO_PASS: fail without the fix: {some(broken)}",
                "they belong to FAIL_TO_PASS",
            )
        )
    return [test for test in listed if passes[test].steady], findings


def _flaky_targets(unsteady: Sequence[str], passes: Mapping[str, _Passes]) -> list[CheckFinding]:
    """Refuse derived lists for tests that would be targets, if they passed each time with the fix."""
    flaky = [test for test in unsteady if any(passes[test].gold) and not any(passes[test].null)]
    return [_flaky_target(flaky)] if flaky else []


def _flaky_target(tests: list[str]) -> CheckFinding:
    return refusal(
        "flaky_target",
        f"flaky, and told of the fix: {some(tests)}",
        "make them steady in the fix's own tests, or take them out of what the test command runs",
    )


def _left_out(tests: Sequence[str], passes: Mapping[str, _Passes], draft: RowDraft) -> list[CheckFinding]:
    findings = []
    flaky = [test for test in tests if not passes[test].steady and any(passes[test].null)]
    flaky = [test for test in flaky if not (draft.has_targets and test in draft.instance.fail_to_pass)]
    if flaky:
        findings.append(warning("flaky_dropped", f"flaky, in no list: {some(flaky)}"))
    broken = [test for test in tests if all(passes[test].null) and not any(passes[test].gold)]
    if broken:
        findings.append(warning("broken_by_fix", f"pass without the fix and fail with it, in no list: {some(broken)}"))
    return findings


def _no_target(tests: Sequence[str], runs: Sequence[RunStatuses]) -> CheckFinding:
    failing = sorted({test for run in runs if run.side == "gold" for test in tests if _fails(run.status.get(test))})
    detail = f"{len(tests)} tests ran"
    detail += f", and with the fix fail: {some(failing)}" if failing else ", and pass with and without the fix"
    return refusal(
        "no_target",
        f"no test fails without the fix and passes with it: {detail}",
        "does the fix pass its own tests in this image, and does the test command run them?",
    )


def _fails(status: str | None) -> bool:
    return status in ("FAILED", "ERROR")
