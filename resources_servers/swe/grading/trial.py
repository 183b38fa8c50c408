"""One trial of a patch: its tests in a fresh sandbox, what they say, and how the machine was meanwhile.

Key     what a trial comes to, so that two can be compared: `resolved`, `fails`, `refused` (the patch does not apply),
        `startup_file`, or the doubt that the run raises.
Whole   a run that ended by itself, was reported and was not disturbed: the only kind that anything is learnt from.
Lost    a sandbox that the machine is known to have ended tells nothing of its patch: the trial is made again, and is an
        InfraError where that goes on.
Errors  a sandbox's failures are raised as they are: InfraError, or VerifierError for an image that can't be used.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, NamedTuple

from pydantic import ConfigDict, Field

from paddock.config import RenamedKeys
from paddock.errors import VerifierError
from paddock.resources_servers.swe import swebench_logs
from paddock.resources_servers.swe.grading import health
from paddock.resources_servers.swe.grading.health import MachineFloors, Measure, Shortage
from paddock.resources_servers.swe.grading.log_process import SHORT_CHARS, TooSlowError, run_in_process
from paddock.resources_servers.swe.grading.patch_run import PatchRun, read_with_program, run_patch
from paddock.resources_servers.swe.grading.reference import ReferenceTests, make_reference
from paddock.resources_servers.swe.grading.run_results import (
    Doubt,
    GradingRun,
    RunResults,
    log_of,
    needs_parser,
    read_run,
    reward_status,
)
from paddock.resources_servers.swe.grading.sandbox import GradingSandbox, open_grading_sandbox
from paddock.resources_servers.swe.instance import LogReader, SweInstance
from paddock.resources_servers.swe.publishers import ParserSlowError, read_log
from paddock.sandbox import BudgetExceeded, Provider, SandboxGone, SandboxLimits

TrialKey = Literal["resolved", "fails", "refused", "startup_file"] | Doubt
DISTURBING: tuple[TrialKey, ...] = (
    "timeout",
    "over_budget",
    "killed",
    "nothing_ran",
    "contradictory_status",
    "sandbox_died",
)
"""Doubts about a run that has not come to its own end, or contradicts itself."""
TRIES_AT_MOST = 3
"""Of one trial whose sandboxes the machine ends."""
PASSING = ("PASSED", "XFAIL")
FAILING = ("FAILED", "ERROR")


class GradingOptions(RenamedKeys):
    """How patches are graded."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    OLD_NAMES: ClassVar[Mapping[str, str]] = {"runs_at_most": "max_runs", "audit_uses": "gradings_per_audit"}

    tests_timeout_s: float = Field(default=1800.0, gt=0)
    """The least time limit, in seconds, for the test command, and for what the row's script installs before it, each.
    A patch is given `timeout` after three runs into it and two of the reference fix, one at the same time: an agent's
    `rollout_timeout_s` less its `agent_timeout_s` should leave room for these."""
    tests_timeout_factor: float = Field(default=5.0, ge=1)
    """The limit is also at least so many times what the tests last took with the reference fix on this machine
    (a factor, no unit)."""
    log_cpu_s: float = Field(default=60.0, gt=0)
    """Seconds of the processor that a log may take to be read; one that takes more is like one too long to be kept."""
    max_runs: int = Field(default=4, ge=2)
    """Runs of a patch's tests under the same conditions until they agree; then VerifierError. A doubt is settled by two
    that raise it."""
    calibration_tries: int = Field(default=3, ge=1)
    """Runs of the reference fix over tests made false until one ends undisturbed, of each that is needed; then
    VerifierError."""
    machine: MachineFloors = MachineFloors()
    """What must be free on this machine for a zero to count."""
    sentinel: bool = True
    """Put tests of our own, whose results are known, among the row's."""
    audit: bool = True
    """Run the tests of a patch also made false, at the same time: they must fail. That costs a second run of the tests,
    and per `gradings_per_audit` gradings of an instance two of the reference fix, or more."""
    gradings_per_audit: int = Field(default=64, ge=1)
    """Gradings of an instance until its tests are made false in another way."""
    second_audit_share: float = Field(default=0.1, ge=0, le=1)
    """Of runs, those that have two audits beside them, drawn anew for each (a share, no unit)."""
    official: bool = True
    """Also ask the official procedure where it may differ: that costs a second run of the tests."""
    limits: SandboxLimits = SandboxLimits(memory_mib=8192, pids=2048, disk_mib=8192)
    """Budgets of a sandbox for grading."""


class PatchTrial(NamedTuple):
    """One trial of a patch."""

    patch_run: PatchRun
    results: RunResults | None
    """None: the tests did not run."""
    sentinel: bool
    """One was wanted."""
    limit_s: float
    shortage: Shortage | None = None
    """What the machine lacked at the end of it."""
    starved: bool = False
    """The kernel killed some process of its sandbox for want of memory; of the machine, where that can't be told."""

    @property
    def key(self) -> TrialKey:
        if self.results is None:
            return "startup_file" if self.patch_run.planted is not None else "refused"
        return self.results.doubt or ("resolved" if self.results.resolved else "fails")

    @property
    def detail(self) -> str:
        return self.results.detail if self.results else self.patch_run.refused or self.patch_run.planted or ""

    @property
    def whole(self) -> bool:
        return self.results is not None and self.key not in DISTURBING and self.shortage is None

    @property
    def hinted(self) -> bool:
        """The run speaks of troubles that a machine can have."""
        return self.patch_run.run is not None and health.has_hints(self.patch_run.run.output)

    @property
    def suspect(self) -> bool:
        """It does not tell of every listed test, or the kernel killed what may have been its own."""
        return self.starved or "MISSING" in self.status.values()

    @property
    def status(self) -> Mapping[str, str]:
        """Status by listed test."""
        return {} if self.results is None else {**self.results.pass_to_pass, **self.results.fail_to_pass}

    def tests_with(self, statuses: tuple[str, ...]) -> frozenset[str]:
        """Return the listed tests that have one of `statuses`."""
        return frozenset(test for test, status in self.status.items() if status in statuses)


class PatchTrials:
    """Tries patches of instances in sandboxes of a provider."""

    def __init__(
        self, provider: Provider, options: GradingOptions, image_of: Callable[[SweInstance], str], measure: Measure
    ) -> None:
        self._provider = provider
        self._options = options
        self._image_of = image_of
        self._measure = measure

    async def run(
        self, instance: SweInstance, reference: ReferenceTests, patch: bytes, *, sentinel: bool, limit_s: float
    ) -> PatchTrial:
        """Try a patch that is already without what the reference owns."""
        for left in reversed(range(TRIES_AT_MOST)):
            try:
                return await self._run(instance, reference, patch, sentinel=sentinel, limit_s=limit_s)
            except SandboxGone as gone:
                if gone.doubtful or not left:
                    raise
        raise AssertionError("unreachable")

    async def _run(
        self, instance: SweInstance, reference: ReferenceTests, patch: bytes, *, sentinel: bool, limit_s: float
    ) -> PatchTrial:
        image, options = self._image_of(instance), self._options
        kills = (await asyncio.to_thread(self._measure)).memory_kills
        async with open_grading_sandbox(self._provider, instance, image, options.limits) as sandbox:
            patch_run = await run_patch(sandbox, instance, reference, patch, timeout_s=limit_s, sentinel=sentinel)
            usage = await asyncio.to_thread(self._measure)
            shortage = await self._check_machine(sandbox, patch_run, usage)
            starved = usage.memory_kills > kills and await _starved(sandbox)
        run = patch_run.run
        if run is not None and run.killed_by is None and not run.died:
            if instance.log_program is not None:
                run = await self._read_with_program(instance, instance.log_program, run, patch_run.logs)
            elif instance.log_reader is not None and run.whole:
                run = await self._read_with_publisher(instance.log_reader, run, patch_run.results)
            elif instance.rule == "reward":
                run = run._replace(status=reward_status(instance, patch_run.results))
            patch_run = patch_run._replace(run=run)
        results = None if run is None else await self._read_results(instance, run)
        return PatchTrial(patch_run, results, sentinel, limit_s, shortage, starved)

    async def _read_results(self, instance: SweInstance, run: GradingRun) -> RunResults:
        chars, cpu_s = len(run.output), self._options.log_cpu_s
        if chars > SHORT_CHARS and needs_parser(instance, run):
            try:
                statuses = await run_in_process(
                    swebench_logs.statuses, *log_of(instance, run), chars=chars, cpu_s=cpu_s
                )
                run = run._replace(status=statuses)
            except TooSlowError:
                run = run._replace(whole=False)
        return await asyncio.to_thread(read_run, instance, run)

    async def _read_with_program(
        self, instance: SweInstance, program: bytes, run: GradingRun, logs: tuple[bytes, bytes]
    ) -> GradingRun:
        """Return a run with the statuses that the row's program reads; none where it fails over what code wrote."""
        try:
            async with open_grading_sandbox(
                self._provider, instance, self._image_of(instance), self._options.limits
            ) as sandbox:
                return run._replace(status=await read_with_program(sandbox, program, logs))
        except (VerifierError, BudgetExceeded) as error:
            return run._replace(status={}, output=f"{run.output}\n{error.message}")

    async def _read_with_publisher(self, reader: LogReader, run: GradingRun, results: str) -> GradingRun:
        try:
            status = await read_log(reader, run.output, results, cpu_s=self._options.log_cpu_s)
        except ParserSlowError:
            return run._replace(whole=False)
        return run._replace(status=status)

    async def reference(self, instance: SweInstance) -> ReferenceTests:
        """Make an instance's reference tests; where that fails it is tried twice."""
        try:
            return await self._reference(instance)
        except VerifierError:
            return await self._reference(instance)

    async def _reference(self, instance: SweInstance) -> ReferenceTests:
        async with open_grading_sandbox(
            self._provider, instance, self._image_of(instance), self._options.limits
        ) as sandbox:
            try:
                return await make_reference(sandbox, instance)
            except BudgetExceeded as over:
                raise VerifierError(f"making the reference's tests: {over.message}", kind="over_budget") from over
            except VerifierError as error:
                usage = await asyncio.to_thread(self._measure)
                if lack := await health.check_machine(sandbox, usage, self._options.machine):
                    raise lack.error(error.message) from error
                raise

    async def _check_machine(
        self, sandbox: GradingSandbox, patch_run: PatchRun, usage: health.FreeResources
    ) -> Shortage | None:
        floors = self._options.machine
        if patch_run.run is not None and patch_run.run.died:
            return health.shortage(usage, floors)
        return await health.check_machine(sandbox, usage, floors)


async def _starved(sandbox: GradingSandbox) -> bool:
    """Whether it may be a process of this sandbox that the kernel has killed: one at its own limit says nothing of the
    others."""
    try:
        kills = await sandbox.kernel_kills()
    except (BudgetExceeded, SandboxGone):
        return True
    return kills is None or kills > 0
