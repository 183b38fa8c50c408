"""What an instance's tests do when they are made false and the code is right: the measure of an audit.

False   functions of listed tests in the reference's Python files (`falsify`). In one way on lines that the policy has
        never seen: those that stand in its tree it could compare. Where no test that the fix is for has such a line,
        these tests are made false on any line. In another way (`every`) all listed tests, on any line.
Drawn   anew after a number of gradings (`GradingOptions.gradings_per_audit`). What passes with the reference fix is
        drawn once more, or left.
Belief  which of them fail with the reference fix: those that two undisturbed runs report as failed. A run that was
        killed, cut or silent teaches nothing and is run again, to a number of times; so do two that differ, in a test
        or in a hint at the machine's troubles: one that ends as an earlier one did has to come. A test that both
        report otherwise, or not at all, is not asked.
Sentinel as in the patch's own run (`Controls.sentinel`); none where the reference fix loses it over the false tests.
Errors  VerifierError where no belief can be made; InfraError where the machine lacks something.
"""

import asyncio
import random
from collections.abc import Collection, Mapping
from typing import NamedTuple

from paddock.errors import VerifierError
from paddock.resources_servers.swe.grading.control import Controls
from paddock.resources_servers.swe.grading.falsify import Falsification, apply_edits, falsifications
from paddock.resources_servers.swe.grading.reference import CACHE_SIZE, ReferenceTests, digest
from paddock.resources_servers.swe.grading.shared import SharedTasks
from paddock.resources_servers.swe.grading.trial import FAILING, PASSING, GradingOptions, PatchTrial
from paddock.resources_servers.swe.instance import SweInstance

_CHANCE = random.SystemRandom()  # a forger must not foresee what is made false
DRAWS = 2
"""Of changes, until each function that is asked for fails with the reference fix."""


class Belief(NamedTuple):
    """An instance's false tests, and how its reference fix does on them."""

    reference: ReferenceTests
    """With tests made false."""
    must_fail: frozenset[str]
    """Listed tests that were seen to fail with the reference fix."""
    evidence: tuple[Mapping[str, str], Mapping[str, str]]
    """By test, what two runs of the reference fix reported."""
    hinted: bool
    """Both speak of troubles that a machine can have, as such tests may."""
    sentinel: bool
    """Its runs have one."""
    partial: bool
    """Some listed tests could be made false only on lines that the policy may have seen, and are not."""


class Beliefs:
    """Beliefs of instances, each made once and kept until something contradicts it or it is worn."""

    def __init__(self, controls: Controls, options: GradingOptions, *, every: bool) -> None:
        """`every`: all listed tests, on any line."""
        self._controls = controls
        self._options = options
        self._every = every
        self._uses = SharedTasks[_BeliefUse](CACHE_SIZE)

    async def of(self, instance: SweInstance, reference: ReferenceTests) -> Belief | None:
        """Return the belief for one more grading; None where there is nothing to make false."""
        key = digest(instance)
        task = self._uses.task(key, lambda: self._make(instance, reference))
        drawn = await asyncio.shield(task)
        drawn.uses += 1
        if drawn.uses >= self._options.gradings_per_audit:
            self._uses.drop(key, task)
        return drawn.belief

    def drop(self, instance: SweInstance, belief: Belief) -> None:
        """Forget a belief that something contradicts."""
        self._uses.drop_result(digest(instance), lambda drawn: drawn.belief is belief)

    async def close(self) -> None:
        """Cancel the beliefs that are being made."""
        await self._uses.close()

    async def run_undisturbed(self, instance: SweInstance, false: ReferenceTests, *, sentinel: bool) -> PatchTrial:
        """Run the reference fix over false tests until a run ends undisturbed; VerifierError where none does."""
        for _ in range(self._options.calibration_tries):
            trial = await self._controls.run_fix(instance, false, sentinel=sentinel)
            if trial.whole and trial.key != "sentinel":
                return trial
            if trial.shortage is not None:
                raise trial.shortage.error(f"tests made false, with the reference fix: {trial.detail}")
        if has_sentinel(trial):
            return await self.run_undisturbed(instance, false, sentinel=False)
        raise VerifierError(
            f"tests made false do not run with the reference fix: {trial.detail}", kind="audit_not_calibrated"
        )

    async def _make(self, instance: SweInstance, reference: ReferenceTests) -> "_BeliefUse":
        return _BeliefUse(await self._draw(instance, reference))

    async def _draw(self, instance: SweInstance, reference: ReferenceTests) -> Belief | None:
        if self._every:
            return await self._make_over(instance, reference, listed(instance), seen=())
        belief = await self._make_over(instance, reference, listed(instance), seen=reference.seen)
        if belief is None or belief.must_fail.isdisjoint(targets(instance)):
            belief = await self._make_over(instance, reference, targets(instance), seen=())
        return belief

    async def _make_over(
        self, instance: SweInstance, reference: ReferenceTests, tests: frozenset[str], *, seen: Collection[bytes]
    ) -> Belief | None:
        wanted = {_function(test) for test in tests}
        falsehoods = _Falsehoods(reference, wanted, seen)
        partial = falsehoods.functions != _Falsehoods(reference, wanted, ()).functions
        covered = frozenset(test for test in tests if _function(test) in falsehoods.functions)
        belief = None
        for _ in range(DRAWS):
            if not covered or not falsehoods.functions:
                break
            false = falsehoods.reference()
            first, second = await self._agreeing_runs(instance, false, covered)
            evidence = (first.status, second.status)
            failed = covered & first.tests_with(FAILING)
            belief = Belief(false, failed, evidence, first.hinted, has_sentinel(first), partial)
            harmless = {_function(test) for test in covered & first.tests_with(PASSING)}
            if not harmless or not falsehoods.draw_again(harmless):
                break
        return belief

    async def _agreeing_runs(
        self, instance: SweInstance, false: ReferenceTests, covered: frozenset[str]
    ) -> tuple[PatchTrial, PatchTrial]:
        """Make runs of the reference fix over false tests until two end alike."""
        trials: list[PatchTrial] = []
        for _ in range(self._options.max_runs):
            trial = await self.run_undisturbed(instance, false, sentinel=self._controls.sentinel(instance))
            for earlier in trials:
                if _alike(earlier, trial, covered):
                    return earlier, trial
            trials.append(trial)
        ends = "; ".join(trial.detail for trial in trials)
        raise VerifierError(
            f"tests made false end otherwise in each run of the reference fix: {ends}", kind="audit_not_calibrated"
        )


class _BeliefUse:
    """A belief, and the number of gradings that it was used for."""

    def __init__(self, belief: Belief | None) -> None:
        self.belief = belief
        self.uses = 0


class _Falsehoods:
    """Falsifications of a reference's files: those left to try by function; the first of each is in force."""

    def __init__(self, reference: ReferenceTests, functions: Collection[str], seen: Collection[bytes]) -> None:
        self._reference = reference
        self._left: dict[tuple[str, str, int], list[Falsification]] = {}
        for path, file in reference.tests.items():
            if file is not None and path.endswith(".py"):
                for change in falsifications(file.data, functions, seen, chance=_CHANCE):
                    self._left.setdefault((path, change.function, change.line), []).append(change)

    @property
    def functions(self) -> frozenset[str]:
        return frozenset(function for _, function, _ in self._left)

    def draw_again(self, functions: Collection[str]) -> bool:
        """Take the next falsification of each of these functions; False: none has another."""
        more = [left for (_, function, _), left in self._left.items() if function in functions and len(left) > 1]
        for left in more:
            del left[0]
        return bool(more)

    def reference(self) -> ReferenceTests:
        """Return the reference with the current falsifications."""
        tests = dict(self._reference.tests)
        for path, file in tests.items():
            edits = [edit for (at, _, _), left in self._left.items() if at == path for edit in left[0].edits]
            if file is not None and edits:
                tests[path] = file._replace(data=apply_edits(file.data, edits))
        return self._reference._replace(tests=tests)


def has_sentinel(trial: PatchTrial) -> bool:
    return trial.patch_run.run is not None and trial.patch_run.run.sentinel is not None


def _alike(first: PatchTrial, second: PatchTrial, covered: frozenset[str]) -> bool:
    if (first.hinted, has_sentinel(first)) != (second.hinted, has_sentinel(second)):
        return False
    return all(first.status.get(test) == second.status.get(test) for test in covered)


def targets(instance: SweInstance) -> frozenset[str]:
    """Return the tests that the fix is for."""
    if instance.rule != "map":
        return frozenset(instance.fail_to_pass)
    passing = {test for test, status in instance.expected.items() if status in PASSING}
    return frozenset(test for test in passing if instance.before.get(test) not in PASSING) or frozenset(passing)


def listed(instance: SweInstance) -> frozenset[str]:
    """Return all tests that must pass."""
    if instance.rule != "map":
        return frozenset((*instance.fail_to_pass, *instance.pass_to_pass))
    return frozenset(test for test, status in instance.expected.items() if status in PASSING)


def _function(test: str) -> str:
    """Return the name of the function in a test's id; what its parameter holds is no part of it."""
    name = test.split("[", 1)[0].rsplit("::", 1)[-1]
    return name.split(" ", 1)[0].rsplit(".", 1)[-1]
