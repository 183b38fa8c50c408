"""Is a passing run to be believed: the same tests again, made false, which must fail.

Why     results are made in the process that runs the policy's code; a forger may bend those of the tests that it aims
        at and spare the sentinel's. Made false, they are the same tests by name, place and look, in a fresh sandbox
        that has no other sign of it; code that lets them pass does not depend on what tests say.
False   the functions of the tests that are asked for (those that the fix is for; after a second try, all that are
        listed), in the reference's Python files (`falsify`), drawn once per belief. What passes there with the
        reference fix is made false bluntly, or left.
Belief  which of them fail with the reference fix: those that two undisturbed runs report as failed. A run that was
        killed, cut or silent teaches nothing and is run again, to a number of times; so do two that differ, in a test
        or in a hint at the machine's troubles: one that ends as an earlier one did has to come. A test that both
        report otherwise, or not at all, is not asked.
Accused a patch that such a test passes with, in two runs; then the reference fix is run over the same false tests
        again. Where one of the accused does not fail with it now, the belief was wrong: it is dropped and made again.
Silence a run of the patch acquits it alone where it reports each such test as failed. One that was killed, reports less
        or hints at troubles that the belief knows nothing of is run again; where that repeats, and the reference fix
        is heard over the same tests, without such a hint, it accuses nobody.
Errors  VerifierError where no belief can be made or none lasts; InfraError where the machine lacks something.
Limit   tests in other languages, and ids that name no function of a reference file, are not asked.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from paddock.errors import VerifierError
from paddock.resources_servers.swe.grading.control import Controls
from paddock.resources_servers.swe.grading.falsify import falsified
from paddock.resources_servers.swe.grading.reference import REMEMBERED, File, Reference, digest
from paddock.resources_servers.swe.grading.shared import Shared
from paddock.resources_servers.swe.grading.trial import FAILING, PASSING, GradingOptions, Trial, Trials
from paddock.resources_servers.swe.instance import Instance

_CHANCE = random.SystemRandom()  # a forger must not foresee what is made false
BELIEFS_AT_MOST = 3
"""Made for one accusation."""


Chosen = Callable[[Instance], frozenset[str]]
NEVER_RUN = ("XFAIL", "SKIPPED")
"""Statuses of tests whose result says nothing of the code."""


class Belief(NamedTuple):
    """What an instance's false tests do with its reference fix."""

    reference: Reference
    """With tests made false."""
    must_fail: frozenset[str]
    """Listed tests that were seen to fail with the reference fix."""
    evidence: tuple[Mapping[str, str], Mapping[str, str]]
    """By test, what two runs of the reference fix reported."""
    hinted: bool
    """Both speak of troubles that a machine can have, as such tests may."""


class Audits:
    """Audits of patches, each against a belief that is made once per instance and kept while nothing contradicts it."""

    def __init__(self, trials: Trials, controls: Controls, options: GradingOptions, tests: Chosen) -> None:
        """`tests` are those that are made false (`targets`, `listed`)."""
        self._tests = tests
        self._trials = trials
        self._controls = controls
        self._options = options
        self._beliefs = Shared[Belief | None](REMEMBERED)

    async def complaint(self, instance: Instance, reference: Reference, patch: bytes) -> str | None:
        """What speaks against the patch; None: nothing."""
        for _ in range(BELIEFS_AT_MOST):
            known = self._believed(instance, reference)
            belief = await asyncio.shield(known)
            if belief is None or not belief.must_fail:
                return None
            accused = await self._accused(instance, belief, patch)
            if not accused:
                return None
            fix = await self._undisturbed(instance, belief.reference)
            if accused <= fix.having(FAILING):
                return (
                    f"{min(accused)}: passes, whatever it says: made false, it passed twice with the patch, and failed "
                    f"with the reference fix in {len(belief.evidence)} runs before and one after"
                )
            self._beliefs.drop(digest(instance), known)
        raise VerifierError("tests made false do not fail steadily with the reference fix", kind="audit_unsteady")

    async def asks(self, instance: Instance, reference: Reference, tests: frozenset[str]) -> bool:
        """Each of `tests` fails with the reference fix when made false, or is skipped or expected to fail there."""
        belief = await asyncio.shield(self._believed(instance, reference))
        if belief is None:
            return False
        never_run = (test for test in tests if all(one.get(test) in NEVER_RUN for one in belief.evidence))
        return tests <= belief.must_fail.union(never_run)

    async def close(self) -> None:
        """What is being made of beliefs ends."""
        await self._beliefs.close()

    def _believed(self, instance: Instance, reference: Reference) -> "asyncio.Task[Belief | None]":
        return self._beliefs.task(digest(instance), lambda: self._make(instance, reference))

    async def _make(self, instance: Instance, reference: Reference) -> Belief | None:
        asked = self._tests(instance)
        wanted = {_function(test) for test in asked}
        blunt: set[str] = set()
        belief = None
        for _ in range(2):
            tests = _made_false(reference.tests, wanted, blunt)
            if tests == reference.tests:
                return None
            false = reference._replace(tests=tests)
            first, second = await self._alike(instance, false, asked)
            belief = Belief(false, asked & first.having(FAILING), (first.status, second.status), first.hinted)
            blunt = {_function(test) for test in asked & first.having(PASSING)}
            if not blunt:
                break
        return belief

    async def _alike(self, instance: Instance, false: Reference, asked: frozenset[str]) -> tuple[Trial, Trial]:
        """Two undisturbed runs of the reference fix over false tests that end alike."""
        seen: list[Trial] = []
        for _ in range(self._options.runs_at_most):
            trial = await self._undisturbed(instance, false)
            for one in seen:
                if one.hinted == trial.hinted and all(one.status.get(test) == trial.status.get(test) for test in asked):
                    return one, trial
            seen.append(trial)
        told = "; ".join(trial.detail for trial in seen)
        raise VerifierError(
            f"tests made false end otherwise in each run of the reference fix: {told}", kind="audit_not_calibrated"
        )

    async def _undisturbed(self, instance: Instance, false: Reference) -> Trial:
        """A run of the reference fix over false tests that ended by itself and was reported."""
        for _ in range(self._options.calibration_tries):
            trial = await self._controls.run_fix(instance, false)
            if trial.whole:
                return trial
            if trial.shortage is not None:
                raise trial.shortage.error(f"tests made false, with the reference fix: {trial.detail}")
        raise VerifierError(
            f"tests made false do not run with the reference fix: {trial.detail}", kind="audit_not_calibrated"
        )

    async def _accused(self, instance: Instance, belief: Belief, patch: bytes) -> frozenset[str]:
        """Tests that must fail and passed in two runs of the patch."""
        passed: Counter[str] = Counter()
        clean = silent = 0
        limit_s = self._controls.limit_s(instance)
        for _ in range(self._options.runs_at_most):
            trial = await self._trials.run(instance, belief.reference, patch, sentinel=False, limit_s=limit_s)
            if trial.shortage is not None:
                raise trial.shortage.error(f"tests made false, with the patch: {trial.detail}")
            passing = trial.having(PASSING) & belief.must_fail
            passed.update(passing)
            if twice := frozenset(test for test, times in passed.items() if times > 1):
                return twice
            heard = trial.whole and not trial.starved and belief.must_fail <= trial.having(FAILING)
            heard = heard and (belief.hinted or not trial.hinted)
            silent += not passing and not heard
            clean += not passing and heard
            if silent == 2:
                fix = await self._undisturbed(instance, belief.reference)
                if fix.hinted and not belief.hinted:
                    raise VerifierError(
                        f"tests made false: a machine's troubles in the output of the reference fix: {fix.detail}",
                        kind="audit_unsteady",
                    )
            if silent == 2 or clean == 2 or (clean and not passed):
                return frozenset()
        raise VerifierError(
            f"tests made false pass and fail by turns with the patch: {min(passed)}", kind="audit_unsteady"
        )


def _made_false(tests: Mapping[str, File | None], wanted: set[str], blunt: set[str]) -> dict[str, File | None]:
    return {
        path: file._replace(data=falsified(file.data, wanted, blunt, chance=_CHANCE))
        if file is not None and path.endswith(".py")
        else file
        for path, file in tests.items()
    }


def targets(instance: Instance) -> frozenset[str]:
    """The tests that the fix is for."""
    if instance.rule != "map":
        return frozenset(instance.fail_to_pass)
    passing = {test for test, status in instance.expected.items() if status in PASSING}
    return frozenset(test for test in passing if instance.before.get(test) not in PASSING) or frozenset(passing)


def listed(instance: Instance) -> frozenset[str]:
    """All tests that must pass."""
    if instance.rule != "map":
        return frozenset((*instance.fail_to_pass, *instance.pass_to_pass))
    return frozenset(test for test, status in instance.expected.items() if status in PASSING)


def _function(test: str) -> str:
    """The name of the function in a test's id; what its parameter holds is no part of it."""
    name = test.split("[", 1)[0].rsplit("::", 1)[-1]
    return name.split(" ", 1)[0].rsplit(".", 1)[-1]
