"""From a patch to a grade: the order of decisions, and whose doing a strange run is.

Order   no patch; nothing left of it; it does not apply; then the tests.
Agree   a zero counts only on a machine that is well (`health`), and where nothing else than the patch can have made it:

        | run of the patch                     | runs that must agree | and then                        |
        |--------------------------------------|----------------------|---------------------------------|
        | resolved                             | 1, 2 after a failure | acquitted by its audit          |
        | tests fail, each reported            | 1                    |                                 |
        | tests fail, some are not reported,   | 2                    |                                 |
        | or the kernel killed for memory      |                      |                                 |
        | tests fail, with a machine's trouble | 2                    | a control, clean there and then |
        | it does not apply                    | 2                    |                                 |
        | killed, or its sandbox ended         | 3                    | a control, clean there and then |
        | another doubt                        | 2 that raise it      | a control, clean there and then |
        | a doubt each time, of whatever kinds | all, of as many as   | a control, clean there and then |
        |                                      | may be made          |                                 |

        Runs are made in fresh sandboxes, up to a number; where they do not agree it is VerifierError.
Doubt   a run that timed out, was killed, reported nothing, contradicts its own exit status, lost its sentinel, or whose
        installation left something that would run before the tests. It is the patch's doing where it repeats and the
        reference fix, run afterwards in the same way, shows nothing of it (`control`).
Time    where the reference fix shows that the limit was too short for this machine, the patch gets a longer one.
        One that runs into its limit does so once more beside the reference fix, which does not.
Audit   each run of a patch starts together with one over tests made false, or two, in a drawn order (`audit`); where
        false tests pass it is `tests_forged`, whatever else the runs say. Which of the two ways to make tests false it
        is (`beliefs`) is drawn too: each misses what forges by the other's sign.
Guard   what the reference owns of a patch is not applied (`guard`). Where a patch fails and some of what was left out
        is only doubted, it is tried again with that; it counts where it resolves and an audit has asked all it won.
Official what swebench's own procedure says is asked where it may differ: parts of the patch were dropped, the run is in
        doubt, or its functions read the raw output otherwise. It never changes the grade.
Errors  InfraError where the machine lacks something, VerifierError where no verdict can be come to, RowError where the
        reference fix is not resolved.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal, NamedTuple, get_args

from paddock.errors import PaddockError, VerifierError
from paddock.resources_servers.swe import official
from paddock.resources_servers.swe.grading import official_run
from paddock.resources_servers.swe.grading.audit import AuditCase, Audits, BeliefError
from paddock.resources_servers.swe.grading.control import Controls
from paddock.resources_servers.swe.grading.guard import DroppedPart
from paddock.resources_servers.swe.grading.health import Measure
from paddock.resources_servers.swe.grading.reference import ReferenceCache, ReferenceTests
from paddock.resources_servers.swe.grading.run_results import GradingRun, RunResults, expected_of
from paddock.resources_servers.swe.grading.sandbox import open_grading_sandbox
from paddock.resources_servers.swe.grading.trial import PASSING, GradingOptions, PatchTrial, PatchTrials, TrialKey
from paddock.resources_servers.swe.instance import SweInstance
from paddock.sandbox import Provider

Reason = Literal[
    "resolved",
    "no_patch",
    "patch_does_not_apply",
    "tests_fail",
    "tests_regress",
    "timeout",
    "over_budget",
    "tests_forged",
]
REASONS: tuple[str, ...] = get_args(Reason)
_RETRY_REASONS: tuple[Reason, ...] = ("no_patch", "patch_does_not_apply", "tests_fail", "tests_regress")
_BY_KEY: dict[TrialKey, Reason] = {
    "resolved": "resolved",
    "refused": "patch_does_not_apply",
    "timeout": "timeout",
    "over_budget": "over_budget",
    "killed": "tests_fail",
    "nothing_ran": "tests_fail",
    "status_hidden": "tests_fail",
    "status_differs": "tests_forged",
    "contradictory_status": "tests_forged",
    "sentinel": "tests_forged",
    "startup_file": "tests_forged",
    "sandbox_died": "tests_forged",
}
_FAILURES: tuple[TrialKey, ...] = (
    "fails",
    "sentinel",
    "status_differs",
    "status_hidden",
    "contradictory_status",
    "startup_file",
)
"""What a run that resolves is not believed after, unless it is repeated."""
ROUNDS = 3
"""Times that a control may show other conditions to be right: no sentinel, a longer limit, another belief."""
_CHANCE = random.SystemRandom()  # a forger must not foresee the order of runs


class Grade(NamedTuple):
    """A judgement, and what it rests on."""

    reason: Reason
    detail: str
    results: RunResults | None = None
    run: GradingRun | None = None
    dropped: tuple[DroppedPart, ...] = ()
    official: str | None = None
    """Official status where it was asked and differs."""


class _ConcurrentRuns(NamedTuple):
    """A patch's own run and its audits, started together."""

    own: PatchTrial | PaddockError
    audits: Sequence[tuple[AuditCase, PatchTrial | PaddockError]]


class Grader:
    """Grades patches of instances in sandboxes of a provider."""

    def __init__(
        self, provider: Provider, options: GradingOptions, image_of: Callable[[SweInstance], str], measure: Measure
    ) -> None:
        """`measure` tells what is free on the machine of the sandboxes (`measure_of`)."""
        self._provider = provider
        self._options = options
        self._image_of = image_of
        self._trials = PatchTrials(provider, options, image_of, measure)
        self._references = ReferenceCache(self._trials.reference)
        self._controls = Controls(self._trials, options)
        self._audits = Audits(self._trials, self._controls, options)
        self._whole_audits = Audits(self._trials, self._controls, options, every=True)

    async def close(self) -> None:
        """Cancel what is being made for later gradings; the provider is still open."""
        for cache in (self._references, self._audits, self._whole_audits):
            await cache.close()

    async def grade(self, instance: SweInstance, patch: bytes) -> Grade:
        """Grade a patch; whatever is not the policy's doing is raised."""
        if not patch.strip():
            return Grade("no_patch", "the patch is empty: no test was run")
        reference = await self._references.of(instance)
        split = await asyncio.to_thread(reference.guard.split, patch)
        dropped = tuple(split.dropped)
        if not split.applied.strip():
            grade = Grade("no_patch", "nothing is left of the patch without what the reference owns: no test was run")
        else:
            grade = await self._judge(instance, reference, split.applied)
        if grade.reason in _RETRY_REASONS and split.whole != split.applied and self._options.audit:
            again = await self._judge(instance, reference, split.whole)
            if again.reason == "resolved" and await self._is_confirmed(instance, reference, split.whole, grade, again):
                grade, dropped = again, tuple(part for part in dropped if part.owned)
        official = await self._ask_official(instance, reference, patch, grade, dropped)
        return grade._replace(dropped=dropped, official=official)

    async def _is_confirmed(
        self, instance: SweInstance, reference: ReferenceTests, patch: bytes, first: Grade, again: Grade
    ) -> bool:
        """Say whether audits cover every test that passes in the second try alone, and none passes whatever it says."""
        won = _passing(again) - _passing(first)
        return (
            await self._whole_audits.covers(instance, reference, won)
            and await self._whole_audits.audit_again(instance, reference, patch) is None
        )

    async def _judge(self, instance: SweInstance, reference: ReferenceTests, patch: bytes) -> Grade:
        for _ in range(ROUNDS):
            grade = await self._run_until_agreed(instance, reference, patch)
            if grade is not None:
                return grade
        raise VerifierError("each control shows other conditions to be right", kind="control_unsteady")

    async def _run_until_agreed(self, instance: SweInstance, reference: ReferenceTests, patch: bytes) -> Grade | None:
        """Return what runs under the same conditions agree in; None: a control shows that these were wrong."""
        controls = self._controls
        sentinel, limit_s = controls.sentinel(instance), controls.limit_s(instance)
        seen: list[PatchTrial] = []
        for _ in range(self._options.max_runs):
            cases = await self._open_audits(instance, reference, patch)
            own, audits = await self._run_together(
                lambda: self._trials.run(instance, reference, patch, sentinel=sentinel, limit_s=limit_s), cases
            )
            if isinstance(own, PaddockError):
                raise own
            if isinstance(cases, PaddockError) and own.key == "resolved":
                raise cases
            try:
                complaint = await self._complaint(own, audits)
            except BeliefError:
                return None
            if complaint is not None:
                return Grade("tests_forged", complaint, own.results, own.patch_run.run)
            if own.key != "resolved" and own.shortage is not None:
                raise own.shortage.error(own.detail)
            seen.append(own)
            if sum(trial.key == own.key for trial in seen) < _needed(own, seen):
                continue
            doubted = own.key not in ("resolved", "fails", "refused") or (own.key == "fails" and own.hinted)
            if doubted and not await self._is_its_own(instance, reference, patch, own):
                return None
            return _grade(own)
        if any(trial.key in ("resolved", "fails", "refused") for trial in seen):
            ends = "; ".join(f"{trial.key}: {trial.detail}" for trial in seen)
            raise VerifierError(f"{len(seen)} runs of the patch do not agree: {ends}", kind="runs_differ")
        return _grade(seen[-1]) if await self._is_its_own(instance, reference, patch, seen[-1]) else None

    async def _is_its_own(
        self, instance: SweInstance, reference: ReferenceTests, patch: bytes, doubted: PatchTrial
    ) -> bool:
        """Say whether a doubt that repeats is the patch's doing; False: the reference fix shows wrong conditions."""
        controls, sentinel, limit_s = self._controls, doubted.sentinel, doubted.limit_s
        await controls.settle(instance, reference, doubted)
        if controls.sentinel(instance) != sentinel:
            return False
        if doubted.key != "timeout":
            return True
        if controls.limit_s(instance) > limit_s:
            return False
        # A machine that was slow may be fast again when only the reference fix is run.
        fix, again = await asyncio.gather(
            controls.run_fix(instance, reference, sentinel=sentinel),
            self._trials.run(instance, reference, patch, sentinel=sentinel, limit_s=limit_s),
            return_exceptions=True,
        )
        if isinstance(fix, BaseException):
            raise fix
        if isinstance(again, BaseException):
            raise again
        return fix.key == "resolved" and again.key == "timeout"

    async def _open_audits(
        self, instance: SweInstance, reference: ReferenceTests, patch: bytes
    ) -> list[AuditCase] | PaddockError:
        """Prepare the audits of one run of the patch; none: it is not audited; an error: it can't be."""
        if not instance.gold_patch:
            return []  # what false tests are compared with is the reference fix
        if not self._options.audit or patch == reference.guard.split(instance.gold_patch).applied:
            return []
        try:
            case = await self._audits.open(instance, reference, patch)
        except PaddockError as error:
            return error
        if case is None:
            return []
        both = _CHANCE.random() < self._options.second_audit_share
        other: AuditCase | None = case
        if case.belief.partial and (both or _CHANCE.random() < 0.5):
            # Where so many tests are never steady together, those that the first way asks have to do.
            with contextlib.suppress(VerifierError):
                other = await self._whole_audits.open(instance, reference, patch)
        return [case, other or case] if both else [other or case]

    async def _run_together(
        self, run: Callable[[], Coroutine[Any, Any, PatchTrial]], cases: Sequence[AuditCase] | PaddockError
    ) -> _ConcurrentRuns:
        """Make the patch's own run and its audits, started at the same time in a drawn order."""
        audited = () if isinstance(cases, PaddockError) else cases
        ended: dict[int, PatchTrial | PaddockError] = {}

        async def store(nth: int) -> None:
            try:
                ended[nth] = await (self._audits.run(audited[nth]) if nth < len(audited) else run())
            except PaddockError as error:
                ended[nth] = error

        async with asyncio.TaskGroup() as group:
            for nth in _CHANCE.sample(range(len(audited) + 1), len(audited) + 1):
                group.create_task(store(nth))
        return _ConcurrentRuns(ended[len(audited)], [(case, ended[nth]) for nth, case in enumerate(audited)])

    async def _complaint(
        self, own: PatchTrial, audits: Sequence[tuple[AuditCase, PatchTrial | PaddockError]]
    ) -> str | None:
        """Return what the audits of one run say against the patch; None: nothing."""
        for case, audit in audits:
            complaint = await case.audits.complaint(case, own, audit)
            if complaint is not None:
                return complaint
        return None

    async def _ask_official(
        self,
        instance: SweInstance,
        reference: ReferenceTests,
        patch: bytes,
        grade: Grade,
        dropped: tuple[DroppedPart, ...],
    ) -> str | None:
        if not self._options.official or not official_run.has_procedure(instance):
            return None
        doubted = grade.reason == "tests_forged" or (grade.results is not None and grade.results.doubt is not None)
        if not (dropped or doubted or await self._official_differs(instance, grade)):
            return None
        limit_s = self._controls.limit_s(instance)
        try:
            async with open_grading_sandbox(
                self._provider, instance, self._image_of(instance), self._options.limits
            ) as sandbox:
                status = await official_run.run_official(
                    sandbox, instance, patch, timeout_s=limit_s, log_cpu_s=self._options.log_cpu_s
                )
        except PaddockError as error:
            status = f"ERROR: {error.message}"
        ours = "RESOLVED_FULL" if grade.reason == "resolved" else "unresolved"
        return status if (status == "RESOLVED_FULL") != (ours == "RESOLVED_FULL") else None

    async def _official_differs(self, instance: SweInstance, grade: Grade) -> bool:
        if grade.run is None:
            return False
        log = official.whole_log(grade.run.output, grade.run.exit_code)
        status = await official_run.official_status(expected_of(instance), log, cpu_s=self._options.log_cpu_s)
        return status not in ("ERROR", grade.results.status if grade.results else None)


def _passing(grade: Grade) -> frozenset[str]:
    """Return the listed tests that passed."""
    lists = () if grade.results is None else (grade.results.fail_to_pass, grade.results.pass_to_pass)
    return frozenset(test for statuses in lists for test, status in statuses.items() if status in PASSING)


def _needed(trial: PatchTrial, seen: Sequence[PatchTrial]) -> int:
    """Return how many of the runs must have come to what this one came to."""
    keys = {other.key for other in seen}
    if trial.key == "resolved":
        return 1 if keys.isdisjoint(_FAILURES) else 2
    if trial.key == "fails":
        return 2 if trial.suspect or trial.hinted or "resolved" in keys else 1
    return (
        3 if trial.key in ("killed", "sandbox_died") else 2
    )  # whose doing an end is, nothing but its repetition tells


def _grade(trial: PatchTrial) -> Grade:
    results = trial.results
    if trial.key == "fails" and results is not None:
        reason: Reason = "tests_fail" if results.failed_targets else "tests_regress"
    else:
        reason = _BY_KEY[trial.key]
    return Grade(reason, trial.detail, results, trial.patch_run.run)
