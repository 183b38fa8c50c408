"""From a patch to a grade: the order of decisions, and whose doing a strange run is.

Order   no patch; nothing left of it; it does not apply; then the tests.
Doubt   a run that timed out, was killed, reported nothing, contradicts its own exit status or lost its sentinel is
        judged by a control: the reference fix, run here in the same way. Where the control is clean, the policy's patch
        did it and the reward is 0; where it is not, nobody is paid and an error says so:

        | run of the patch           | control clean       | control shows the same | control not resolved |
        |----------------------------|---------------------|------------------------|----------------------|
        | over the time limit        | timeout             | VerifierError          | RowError             |
        | killed for its budget      | over_budget         | VerifierError          | RowError             |
        | no test reported           | tests_fail          | VerifierError          | RowError             |
        | log and exit status differ | tests_bent          | VerifierError          | RowError             |
        | a test failed and passed   | tests_bent          | VerifierError          | RowError             |
        | sentinel not as it must    | tests_bent          | run without a sentinel | RowError             |
        | sandbox died, twice        | tests_bent          | VerifierError          | RowError             |

        The control is run at the first doubt of an instance and kept while it is clean.
Audit   a run that resolves and raises no doubt is audited (`audit`); where false tests pass it is `tests_bent`.
Guard   what the reference owns of a patch is not applied (`guard`). Where a patch fails and some of what was left out
        is only doubted, it is tried again with that; it counts where it resolves and an audit has asked its targets.
Official what swebench's own procedure says is asked where it may differ: parts of the patch were dropped, the run is in
        doubt, or its functions read the raw output otherwise. It never changes the grade.
"""

import asyncio
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field

from paddock.errors import PaddockError, RowError, VerifierError
from paddock.resources_servers.swe.grading import official_run
from paddock.resources_servers.swe.grading.audit import Audits
from paddock.resources_servers.swe.grading.bench import open_bench
from paddock.resources_servers.swe.grading.guard import Dropped
from paddock.resources_servers.swe.grading.reading import Doubt, Reading, Run, official_view, read_run
from paddock.resources_servers.swe.grading.reference import Reference, References, digest, make_reference
from paddock.resources_servers.swe.grading.running import Tried, read_with_program, try_patch
from paddock.resources_servers.swe.instance import Instance
from paddock.sandbox import Provider, SandboxLimits

Reason = Literal[
    "resolved",
    "no_patch",
    "patch_does_not_apply",
    "tests_fail",
    "tests_regress",
    "timeout",
    "over_budget",
    "tests_bent",
]
OUTPUT_SHOWN = 500
"""Characters of a control's output in an error."""
REASONS: tuple[str, ...] = get_args(Reason)
_TRIED_AGAIN: tuple[Reason, ...] = ("no_patch", "patch_does_not_apply", "tests_fail", "tests_regress")
_BY_DOUBT: dict[Doubt, Reason] = {
    "timeout": "timeout",
    "over_budget": "over_budget",
    "nothing_ran": "tests_fail",
    "status_differs": "tests_bent",
    "said_twice": "tests_bent",
    "sentinel": "tests_bent",
    "died": "tests_bent",
}


class GradingOptions(BaseModel):
    """How patches are graded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tests_timeout_s: float = Field(default=1800.0, gt=0)
    """For the test command, and for what the row's script installs before it, each."""
    sentinel: bool = True
    """Put tests of our own, whose results are known, among the row's."""
    audit: bool = True
    """Run the tests of a patch that resolves again, made false: they must fail. That costs a second run of the tests,
    and once per instance one or two of the reference fix."""
    official: bool = True
    """Also ask the official procedure where it may differ: that costs a second run of the tests."""
    limits: SandboxLimits = SandboxLimits(memory_mib=8192, pids=2048, disk_mib=8192)
    """Of a sandbox for grading."""


class Grade(NamedTuple):
    """A judgement, and what it rests on."""

    reason: Reason
    detail: str
    reading: Reading | None = None
    run: Run | None = None
    dropped: tuple[Dropped, ...] = ()
    official: str | None = None
    """Official status where it was asked and differs."""


class Grader:
    """Grades patches of instances in sandboxes of a provider."""

    def __init__(self, provider: Provider, options: GradingOptions, image_of: Callable[[Instance], str]) -> None:
        self._provider = provider
        self._options = options
        self._image_of = image_of
        self._references = References(self._make_reference)
        self._audits = Audits(lambda instance, reference, patch: self._try(instance, reference, patch, sentinel=False))
        self._clean: dict[str, bool] = {}
        """By instance: a clean control was seen; the value: with a sentinel."""

    async def grade(self, instance: Instance, patch: bytes) -> Grade:
        """The grade of a patch; whatever is not the policy's doing is raised."""
        if not patch.strip():
            return Grade("no_patch", "the patch is empty")
        reference = await self._references.of(instance)
        split = reference.guard.split(patch)
        dropped = tuple(split.dropped)
        if not split.kept.strip():
            grade = Grade("no_patch", "nothing is left of the patch without what the reference owns")
        else:
            grade = await self._judge(instance, reference, split.kept)
        if grade.reason in _TRIED_AGAIN and split.whole != split.kept and self._options.audit:
            again = await self._judge(instance, reference, split.whole)
            if again.reason == "resolved" and await self._audits.can_tell(instance, reference):
                grade, dropped = again, tuple(one for one in dropped if one.owned)
        official = await self._ask_official(instance, reference, patch, grade, dropped)
        return grade._replace(dropped=dropped, official=official)

    async def _judge(self, instance: Instance, reference: Reference, patch: bytes, *, again: bool = False) -> Grade:
        sentinel = self._options.sentinel and self._clean.get(digest(instance), True)
        tried = await self._try(instance, reference, patch, sentinel=sentinel)
        if tried.planted is not None:
            return Grade("tests_bent", tried.planted)
        if tried.run is None:
            return Grade("patch_does_not_apply", tried.refused or "")
        reading = await asyncio.to_thread(read_run, instance, tried.run)
        if reading.doubt == "died" and not again:
            return await self._judge(instance, reference, patch, again=True)
        if reading.doubt is None:
            return await self._audited(instance, reference, patch, _plain(reading, tried.run))
        if reading.doubt == "died":
            self._clean.pop(digest(instance), None)  # a machine that was well earlier may not be now
        await self._control(instance, reference, reading)
        if reading.doubt == "sentinel" and not self._clean[digest(instance)]:
            return await self._judge(instance, reference, patch, again=again)
        return Grade(_BY_DOUBT[reading.doubt], reading.detail, reading, tried.run)

    async def _audited(self, instance: Instance, reference: Reference, patch: bytes, grade: Grade) -> Grade:
        is_fix = patch == reference.guard.split(instance.gold_patch).kept
        if grade.reason != "resolved" or is_fix or not self._options.audit:
            return grade
        complaint = await self._audits.complaint(instance, reference, patch)
        return grade if complaint is None else grade._replace(reason="tests_bent", detail=complaint)

    async def _control(self, instance: Instance, reference: Reference, doubted: Reading) -> None:
        """Return when the reference fix runs clean here; raise whose fault it is otherwise."""
        key = digest(instance)
        if key in self._clean:
            return
        for sentinel in (True, False) if self._options.sentinel else (False,):
            fix = reference.guard.split(instance.gold_patch).kept
            tried = await self._try(instance, reference, fix, sentinel=sentinel)
            if tried.run is None:
                said = tried.refused or tried.planted
                raise RowError(f"the reference fix could not be run: {said}", kind="gold_does_not_apply")
            reading = await asyncio.to_thread(read_run, instance, tried.run)
            if reading.resolved:
                self._clean[key] = sentinel
                return
            if reading.doubt not in (None, "sentinel"):
                raise VerifierError(
                    f"{doubted.detail}; and the reference fix, run in the same way: {reading.detail}; "
                    f"its output ends: {tried.run.output.strip()[-OUTPUT_SHOWN:]}",
                    kind=f"control_{reading.doubt}",
                )
        raise RowError(f"the reference fix is not resolved here: {reading.detail}", kind="gold_unresolved")

    async def _try(self, instance: Instance, reference: Reference, patch: bytes, *, sentinel: bool) -> Tried:
        image, limits = self._image_of(instance), self._options.limits
        async with open_bench(self._provider, instance, image, limits) as bench:
            tried = await try_patch(
                bench, instance, reference, patch, timeout_s=self._options.tests_timeout_s, sentinel=sentinel
            )
        run = tried.run
        if run is None or instance.log_program is None or run.killed_by is not None or run.died:
            return tried
        async with open_bench(self._provider, instance, image, limits) as bench:
            status = await read_with_program(bench, instance.log_program, tried.logs)
        return tried._replace(run=run._replace(status=status))

    async def _make_reference(self, instance: Instance) -> Reference:
        async with open_bench(self._provider, instance, self._image_of(instance), self._options.limits) as bench:
            return await make_reference(bench, instance)

    async def _ask_official(
        self, instance: Instance, reference: Reference, patch: bytes, grade: Grade, dropped: tuple[Dropped, ...]
    ) -> str | None:
        if not self._options.official or not official_run.possible(instance):
            return None
        doubted = grade.reason == "tests_bent" or (grade.reading is not None and grade.reading.doubt is not None)
        if not (dropped or doubted or await asyncio.to_thread(_official_differs, instance, grade)):
            return None
        try:
            async with open_bench(self._provider, instance, self._image_of(instance), self._options.limits) as bench:
                status = await official_run.ask(bench, instance, patch, timeout_s=self._options.tests_timeout_s)
        except PaddockError as error:
            status = f"ERROR: {error.message}"
        ours = "RESOLVED_FULL" if grade.reason == "resolved" else "unresolved"
        return status if (status == "RESOLVED_FULL") != (ours == "RESOLVED_FULL") else None


def _official_differs(instance: Instance, grade: Grade) -> bool:
    if grade.run is None:
        return False
    return official_view(instance, grade.run) != (grade.reading.status if grade.reading else None)


def _plain(reading: Reading, run: Run) -> Grade:
    if reading.resolved:
        return Grade("resolved", reading.detail, reading, run)
    return Grade("tests_fail" if reading.failed_targets else "tests_regress", reading.detail, reading, run)
