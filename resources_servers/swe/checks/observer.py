"""Runs of a row's tests, without its fix and with it, as grading makes them: each in a fresh sandbox, over the same
steps as a policy's patch.

Null    no patch at all: the reference's tests over the untouched tree. Grading itself gives an empty patch no run.
Gold    the reference fix, without what the reference owns.
Sentinel as in grading: tests of its own among the row's, taken out of what is told; not where the fix's own run loses
        them (`Observer.begin`).
Errors  as grading's; a fix that does not apply is RowError.
"""

import time
from collections.abc import Mapping
from typing import NamedTuple

from paddock.errors import RowError
from paddock.resources_servers.swe import swebench_logs
from paddock.resources_servers.swe.checks.records import Side
from paddock.resources_servers.swe.grading import Grade, Grader, GradingOptions, measure_of
from paddock.resources_servers.swe.grading import sentinel as sentinels
from paddock.resources_servers.swe.grading.guard import DroppedPart
from paddock.resources_servers.swe.grading.patch_run import read_with_program, run_patch
from paddock.resources_servers.swe.grading.reference import ReferenceTests, make_reference
from paddock.resources_servers.swe.grading.run_results import (
    GradingRun,
    expected_of,
    read_run,
    reward_status,
    without_markers,
)
from paddock.resources_servers.swe.grading.sandbox import open_grading_sandbox
from paddock.resources_servers.swe.images import resolve_image
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.publishers import read_log
from paddock.resources_servers.swe.summary import parse_summary
from paddock.sandbox.images.prepare import StoreProvider


class ObservedRun(NamedTuple):
    """One run of a row's tests."""

    side: Side
    run: GradingRun
    status: Mapping[str, str]
    """By test, all that the run reports."""
    duration_s: float
    """From a sandbox's making to the end of the tests."""


class Observer:
    """Runs tests of instances in sandboxes of a provider."""

    def __init__(self, provider: StoreProvider, options: GradingOptions) -> None:
        self._provider = provider
        self._options = options
        self._grader = Grader(provider, options, resolve_image, measure_of(provider.store.home))

    async def reference(self, instance: SweInstance) -> ReferenceTests:
        image = resolve_image(instance)
        async with open_grading_sandbox(self._provider, instance, image, self._options.limits) as sandbox:
            return await make_reference(sandbox, instance)

    async def begin(self, instance: SweInstance, reference: ReferenceTests) -> ObservedRun:
        """Make a first run with the fix; the others can have a sentinel where it has one."""
        first = await self.observe(instance, reference, "gold", sentinel=self._options.sentinel)
        if first.run.sentinel is not None and read_run(instance, first.run).doubt == "sentinel":
            return await self.observe(instance, reference, "gold", sentinel=False)
        return first

    async def observe(
        self, instance: SweInstance, reference: ReferenceTests, side: Side, *, sentinel: bool
    ) -> ObservedRun:
        """Run the tests once."""
        image, limits = resolve_image(instance), self._options.limits
        patch = reference.guard.split(instance.gold_patch).applied if side == "gold" else b""
        started = time.monotonic()
        async with open_grading_sandbox(self._provider, instance, image, limits) as sandbox:
            patch_run = await run_patch(
                sandbox, instance, reference, patch, timeout_s=self._options.tests_timeout_s, sentinel=sentinel
            )
            duration_s = time.monotonic() - started
        if patch_run.run is None:
            raise RowError(f"the fix does not run: {patch_run.refused or patch_run.planted}", kind="fix_does_not_apply")
        run = patch_run.run
        if instance.log_program is not None and run.killed_by is None:
            async with open_grading_sandbox(self._provider, instance, image, limits) as sandbox:
                run = run._replace(status=await read_with_program(sandbox, instance.log_program, patch_run.logs))
        elif instance.log_reader is not None and run.killed_by is None:
            status = await read_log(instance.log_reader, run.output, patch_run.results, cpu_s=self._options.log_cpu_s)
            run = run._replace(status=status)
        elif instance.rule == "reward":
            run = run._replace(status=reward_status(instance, patch_run.results))
        return ObservedRun(side, run, _statuses(instance, run), duration_s)

    async def grade(self, instance: SweInstance) -> Grade:
        """Grade the fix, sentinels and all."""
        return await self._grader.grade(instance, instance.gold_patch)


def dropped_parts(instance: SweInstance, reference: ReferenceTests) -> list[DroppedPart]:
    """Return the parts of the fix that no agent could make count."""
    return reference.guard.split(instance.gold_patch).dropped


def _statuses(instance: SweInstance, run: GradingRun) -> dict[str, str]:
    if run.status is not None:
        return dict(run.status)
    if instance.rule == "map":
        status = parse_summary(run.output)
    else:
        status = swebench_logs.parse(instance.log_parser, without_markers(run.output), expected_of(instance))
    if run.sentinel is None:
        return status
    return sentinels.take_out(run.sentinel, status, run.output, run.exit_code).status
