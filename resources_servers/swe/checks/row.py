"""One row's check: its image, its runs, its lists, what its image and its text give away.

Order   image; the reference; null and gold by turns; lists; what grading says of the runs and, at last, of the fix;
        leaks in what an agent gets. A row that can't run is not searched.
Ended   an error of the machine's is `failed`; the row's or its tests' is `refused`.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from paddock.errors import InfraError, PaddockError, RowError, VerifierError, boundary
from paddock.resources_servers.swe.checks import leaks
from paddock.resources_servers.swe.checks.drafts import RowDraft
from paddock.resources_servers.swe.checks.lists import RunStatuses, SortedTests, sort_tests
from paddock.resources_servers.swe.checks.observer import ObservedRun, Observer, dropped_parts
from paddock.resources_servers.swe.checks.records import SIDES, CheckFinding, RowReport, refusal, some, warning
from paddock.resources_servers.swe.checks.visible_text import check_text, distinctive, fixed_files
from paddock.resources_servers.swe.grading import GradingOptions
from paddock.resources_servers.swe.grading.reference import ReferenceTests
from paddock.resources_servers.swe.grading.run_results import read_run
from paddock.resources_servers.swe.grading.sandbox import open_grading_sandbox
from paddock.resources_servers.swe.images import resolve_image
from paddock.resources_servers.swe.instance import SweInstance
from paddock.sandbox import BudgetExceeded
from paddock.sandbox.images.build import build_image
from paddock.sandbox.images.prepare import StoreProvider, prepare_image

OUTPUT_SHOWN = 700
"""Characters of a run's output in a finding."""
_STRANGE = ("timeout", "over_budget", "contradictory_status")
"""Doubts about a run without the fix that are not the bug's ordinary doing."""
_MENDS = {
    "image_missing": "pull it (`paddock images pull --rows ROWS`), or give the row a recipe as `build`",
    "build_step": "see the step's output; `paddock images build` repeats it",
    "no_such_package": "pin a version that the package index has",
    "no_such_commit": "name a repository and a commit that this machine can read",
    "repository_refused": "name a URL, or allow the repository's folder: --local-repository FOLDER",
    "image_leaks": "name what holds it in `hidden_paths`, or make the image without it",
    "test_patch_fails": "make the test patch against the image's own commit",
    "fix_does_not_apply": "make `patch` against the image's own commit",
    "gold_unresolved": "see that the fix passes in this image",
}


class RowChecker:
    """Checks rows with one provider."""

    def __init__(
        self, provider: StoreProvider, options: GradingOptions, runs: int, local_repositories: Sequence[Path] = ()
    ) -> None:
        self._provider = provider
        self._local_repositories = local_repositories
        self._options = options
        self._runs = runs
        self._observer = Observer(provider, options)

    async def check(self, draft: RowDraft, report: RowReport, progress: Callable[[str], None]) -> RowReport:
        """Fill in the report of a row; whatever goes wrong is in it. `progress` is called with each step's name."""
        started = time.monotonic()
        try:
            with boundary(InfraError, "check"):
                report = await self._within_budget(draft, report, progress)
            ended = "refused" if any(finding.is_refusal for finding in report.findings) else "accepted"
        except PaddockError as error:
            rows_fault = isinstance(error, RowError) or (isinstance(error, VerifierError) and not error.retryable)
            ended = "refused" if rows_fault else "failed"
            report = _with(report, refusal(error.kind, error.message, _MENDS.get(error.kind, "")))
        return report.model_copy(update={"ended": ended, "total_s": round(time.monotonic() - started, 2)})

    async def _within_budget(self, draft: RowDraft, report: RowReport, progress: Callable[[str], None]) -> RowReport:
        try:
            return await self._check(draft, report, progress)
        except BudgetExceeded as over:
            raise RowError(f"a step beside the tests used up its sandbox: {over.message}", kind="over_budget") from over

    async def _check(self, draft: RowDraft, report: RowReport, progress: Callable[[str], None]) -> RowReport:
        instance = draft.instance
        if instance.build is not None:
            await build_image(
                self._provider.store,
                resolve_image(instance),
                instance.build,
                progress=progress,
                local_repositories=self._local_repositories,
            )
        progress(f"{instance.instance_id}: reference tests")
        reference = await self._observer.reference(instance)
        runs = await self._observe(instance, reference, progress)
        report = report.model_copy(
            update={f"{side}_s": [round(item.duration_s, 2) for item in runs if item.side == side] for side in SIDES}
        )
        whole, report = self._judge_runs(draft, reference, runs, report)
        if not any(item.is_refusal for item in report.findings):
            progress(f"{instance.instance_id}: graded with the fix")
            report = _with(report, *await self._grade_fix(whole))
        progress(f"{instance.instance_id}: search for leaks")
        return _with(report, *await self._search(draft, reference))

    async def _observe(
        self, instance: SweInstance, reference: ReferenceTests, progress: Callable[[str], None]
    ) -> list[ObservedRun]:
        progress(f"{instance.instance_id}: gold 1 of {self._runs}")
        runs = [await self._observer.begin(instance, reference)]
        sentinel = runs[0].run.sentinel is not None
        for turn in range(self._runs):
            for side in SIDES:
                if turn or side == "null":
                    progress(f"{instance.instance_id}: {side} {turn + 1} of {self._runs}")
                    runs.append(await self._observer.observe(instance, reference, side, sentinel=sentinel))
        return runs

    def _judge_runs(
        self, draft: RowDraft, reference: ReferenceTests, runs: Sequence[ObservedRun], report: RowReport
    ) -> tuple[SweInstance, RowReport]:
        """Return the instance with its lists, and the report on all runs."""
        instance = draft.instance
        findings = [
            warning("fix_touches_reference", f"{item.path}: {item.reason}; not applied, from whomever it comes")
            for item in dropped_parts(instance, reference)
        ]
        if doubt := _find_doubt(instance, runs):
            return instance, _with(report, *findings, doubt)
        if instance.rule == "map":
            return instance, _with(report, *findings, *_judge(instance, runs))
        tests = sort_tests(draft, [RunStatuses(item.side, item.status) for item in runs])
        whole = instance.model_copy(update={"fail_to_pass": tests.fail_to_pass, "pass_to_pass": tests.pass_to_pass})
        findings += tests.findings
        if not any(item.is_refusal for item in findings):
            findings += _judge(whole, runs)
        return whole, _with(_with_lists(report, draft, tests), *findings)

    async def _grade_fix(self, instance: SweInstance) -> list[CheckFinding]:
        grade = await self._observer.grade(instance)
        if grade.reason == "resolved":
            return []
        return [
            refusal(
                "gold_unresolved", f"grading the fix gives {grade.reason}: {grade.detail}", _MENDS["gold_unresolved"]
            )
        ]

    async def _search(self, draft: RowDraft, reference: ReferenceTests) -> list[CheckFinding]:
        instance, image, limits = draft.instance, resolve_image(draft.instance), self._options.limits
        async with open_grading_sandbox(self._provider, instance, image, limits) as sandbox:
            findings = await leaks.check_history(sandbox, instance.hidden_paths)
        prepared_image = await prepare_image(
            self._provider, image, instance.workdir, instance.hidden_paths, instance.image_patch
        )
        files = fixed_files(instance.gold_patch)
        tests = {path: file.data for path, file in reference.tests.items() if file is not None}
        async with open_grading_sandbox(self._provider, instance, prepared_image, limits) as sandbox:
            texts = [(await sandbox.read(sandbox.below(file.path)) or b"").decode(errors="replace") for file in files]
            lines = distinctive(files, "\n".join(texts))
            findings += await leaks.check_tests(sandbox, tests)
            findings += await leaks.check_fix(sandbox, files, lines)
        return [*findings, *check_text(draft, files, lines, reference.tests)]


def _with(report: RowReport, *findings: CheckFinding) -> RowReport:
    return report.model_copy(update={"findings": [*report.findings, *findings]})


def _with_lists(report: RowReport, draft: RowDraft, tests: SortedTests) -> RowReport:
    findings = []
    if tests.needs_fix:
        findings.append(
            warning(
                "needs_fix",
                f"only there with the fix: {some(tests.needs_fix)}",
                "see that the problem statement names what these tests import or ask for",
            )
        )
    update = {
        "flakes": tests.flakes,
        "needs_fix": tests.needs_fix,
        "fail_to_pass": tests.fail_to_pass,
        "pass_to_pass": tests.pass_to_pass,
        "derived": not (draft.has_targets and draft.has_pass_to_pass),
        "findings": [*report.findings, *findings],
    }
    return report.model_copy(update=update)


def _find_doubt(instance: SweInstance, runs: Sequence[ObservedRun]) -> CheckFinding | None:
    """Find a run with the fix that can't be believed, whatever its lists."""
    for observed in runs:
        results = read_run(instance, observed.run)
        if observed.side == "gold" and results.doubt is not None:
            tail = observed.run.output.strip()[-OUTPUT_SHOWN:]
            return refusal(
                f"gold_{results.doubt}",
                f"a run with the fix: {results.detail}; its output ends:\n{tail}",
                "see that the test command runs and ends in this image; --timeout-s gives it longer",
            )
    return None


def _judge(instance: SweInstance, runs: Sequence[ObservedRun]) -> list[CheckFinding]:
    """Return findings by grading's own reading of each run."""
    findings = []
    readings = [(observed.side, read_run(instance, observed.run)) for observed in runs]
    if unresolved := [results for side, results in readings if side == "gold" and not results.resolved]:
        detail = f"{len(unresolved)} runs with the fix are not resolved: {unresolved[0].detail}"
        findings.append(refusal("gold_unresolved", detail, _MENDS["gold_unresolved"]))
    if resolved := [results for side, results in readings if side == "null" and results.resolved]:
        detail = f"{len(resolved)} runs without the fix are resolved: {resolved[0].detail}"
        findings.append(refusal("null_resolved", detail, "list tests that fail without the fix"))
    doubts = sorted({results.detail for side, results in readings if side == "null" and results.doubt in _STRANGE})
    return [*findings, *(warning("null_doubtful", f"without the fix: {detail}") for detail in doubts)]
