"""Is a passing run to be believed: the same tests again, made false, which must fail.

Why     results are made in the process that runs the policy's code; a forger may bend those of the tests that it aims
        at and spare the sentinel's. Made false, they are the same tests by name and place, in a fresh sandbox; code
        that lets them pass does not depend on what tests say.
Sentinel as in the patch's own run (`Controls.sentinel`); none where the reference fix loses it over the false tests.
False   the functions of the tests that are asked for (those that the fix is for; after a second try, all that are
        listed), in the reference's Python files (`falsify`), drawn once per belief. What passes there with the
        reference fix is made false bluntly, or left.
Belief  which of them fail with the reference fix: those that two undisturbed runs report as failed. A run that was
        killed, cut or silent teaches nothing and is run again, to a number of times; so do two that differ, in a test
        or in a hint at the machine's troubles: one that ends as an earlier one did has to come. A test that both
        report otherwise, or not at all, is not asked.
Runs    of the patch, until they agree; then, but for the first, the reference fix is run over the same false tests:

        | run of the patch                          | runs that must agree | and with the reference fix           |
        |-------------------------------------------|----------------------|--------------------------------------|
        | each such test fails                      | 1: acquitted         |                                      |
        | the same, with a machine's trouble that   | 2: acquitted         | no such trouble, else VerifierError  |
        | the belief knows nothing of               |                      |                                      |
        | some pass                                 | 2, of one test: bent | they fail; else another belief       |
        | the sentinel is not as it must            | 2: bent              | it is as it must                     |
        | silence: killed, in vain until its limit, | 3 alike: bent        | it answers, without such a trouble;  |
        | or some are not reported                  |                      | else VerifierError                   |

        A run while the kernel killed for memory, or whose patch did not apply, counts for nothing.
Errors  VerifierError where no belief can be made or none lasts; InfraError where the machine lacks something.
Limit   tests in other languages, and ids that name no function of a reference file, are not asked.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

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
SILENT_ALIKE = 3
"""Runs whose silence is the patch's doing, as for one that was killed: nothing but its repetition tells."""


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
    sentinel: bool
    """Its runs have one."""


class Finding(NamedTuple):
    """What runs of a patch agree in, which its own run had nothing of."""

    kind: Literal["passing", "sentinel", "silent", "hinted"]
    tests: frozenset[str]
    """Those that passed."""
    detail: str


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
            found = await self._found(instance, belief, patch)
            if found is None:
                return None
            if found.kind != "passing":
                return await self._settled(instance, belief, found)
            fix = await self._undisturbed(instance, belief.reference, sentinel=belief.sentinel)
            if found.tests <= fix.having(FAILING):
                return (
                    f"{found.detail}: passes, whatever it says: made false, it passed twice with the patch, and failed "
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
            evidence = (first.status, second.status)
            belief = Belief(false, asked & first.having(FAILING), evidence, first.hinted, _has_sentinel(first))
            blunt = {_function(test) for test in asked & first.having(PASSING)}
            if not blunt:
                break
        return belief

    async def _alike(self, instance: Instance, false: Reference, asked: frozenset[str]) -> tuple[Trial, Trial]:
        """Two undisturbed runs of the reference fix over false tests that end alike."""
        seen: list[Trial] = []
        for _ in range(self._options.runs_at_most):
            trial = await self._undisturbed(instance, false, sentinel=self._controls.sentinel(instance))
            for one in seen:
                if _alike(one, trial, asked):
                    return one, trial
            seen.append(trial)
        told = "; ".join(trial.detail for trial in seen)
        raise VerifierError(
            f"tests made false end otherwise in each run of the reference fix: {told}", kind="audit_not_calibrated"
        )

    async def _undisturbed(self, instance: Instance, false: Reference, *, sentinel: bool) -> Trial:
        """A run of the reference fix over false tests that ended by itself and was reported."""
        for _ in range(self._options.calibration_tries):
            trial = await self._controls.run_fix(instance, false, sentinel=sentinel)
            if trial.whole and trial.key != "sentinel":
                return trial
            if trial.shortage is not None:
                raise trial.shortage.error(f"tests made false, with the reference fix: {trial.detail}")
        if _has_sentinel(trial):
            return await self._undisturbed(instance, false, sentinel=False)
        raise VerifierError(
            f"tests made false do not run with the reference fix: {trial.detail}", kind="audit_not_calibrated"
        )

    async def _found(self, instance: Instance, belief: Belief, patch: bytes) -> Finding | None:
        """What runs of the patch agree in; None: it is acquitted."""
        passed: Counter[str] = Counter()
        ends: Counter[str] = Counter()
        limit_s = self._controls.limit_s(instance)
        for _ in range(self._options.runs_at_most):
            trial = await self._trials.run(instance, belief.reference, patch, sentinel=belief.sentinel, limit_s=limit_s)
            if trial.shortage is not None:
                raise trial.shortage.error(f"tests made false, with the patch: {trial.detail}")
            passing = trial.having(PASSING) & belief.must_fail
            passed.update(passing)
            if twice := frozenset(test for test, times in passed.items() if times > 1):
                return Finding("passing", twice, min(twice))
            end = None if passing else _end(belief, trial)
            ends.update([end] if end is not None else [])
            if end == "failing" and (not passed or ends[end] == 2):
                return None
            if end in ("sentinel", "hinted") and ends[end] == 2:
                return Finding("sentinel" if end == "sentinel" else "hinted", frozenset(), trial.detail)
            if end is not None and ends[end] == SILENT_ALIKE:
                return Finding("silent", frozenset(), trial.detail)
        told = f"{min(passed)} passes and fails by turns" if passed else f"they end in ways that differ: {trial.detail}"
        raise VerifierError(f"tests made false, with the patch: {told}", kind="audit_unsteady")

    async def _settled(self, instance: Instance, belief: Belief, found: Finding) -> str | None:
        """What speaks against the patch where the reference fix answers in the same audit, there and then."""
        fix = await self._controls.run_fix(instance, belief.reference, sentinel=belief.sentinel)
        if fix.shortage is not None:
            raise fix.shortage.error(f"tests made false, with the reference fix: {fix.detail}")
        if _end(belief, fix) != "failing":
            raise VerifierError(
                f"tests made false: {found.detail}; and the reference fix does not answer either: {fix.detail}",
                kind="audit_unsteady",
            )
        if found.kind == "hinted":
            return None
        if found.kind == "sentinel":
            return f"tests made false, twice with the patch: {found.detail}; not so with the reference fix"
        return (
            f"silent over tests made false, {SILENT_ALIKE} times alike, after a clean run of its own: {found.detail}; "
            "the reference fix answers over the same tests"
        )


def _has_sentinel(trial: Trial) -> bool:
    return trial.tried.run is not None and trial.tried.run.sentinel is not None


def _alike(one: Trial, other: Trial, asked: frozenset[str]) -> bool:
    if (one.hinted, _has_sentinel(one)) != (other.hinted, _has_sentinel(other)):
        return False
    return all(one.status.get(test) == other.status.get(test) for test in asked)


def _end(belief: Belief, trial: Trial) -> str | None:
    """What a run in which no test passes that must fail comes to; None: nothing that counts."""
    if trial.starved or trial.key == "refused":
        return None
    if trial.key == "sentinel":
        return "sentinel"
    unheard = belief.must_fail - trial.having(FAILING)
    if unheard or not trial.whole:
        return f"{trial.key}, without {sorted(unheard)}"
    return "hinted" if trial.hinted and not belief.hinted else "failing"


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
