"""Is a passing run to be believed: the same tests again, made false, which must fail.

Why     results are made in the process that runs the policy's code; a forger may bend those of the tests that it aims
        at and spare the sentinel's. Made false, they are the same tests by name, place and look, in a fresh sandbox
        that has no other sign of it; code that lets them pass does not depend on what tests say.
False   the functions of the tests that the fix is for, in the reference's Python files (`falsify`), drawn once per
        instance; a test counts where it fails with the reference fix. What passes there is made false bluntly, or left.
Silence a run that was killed or says nothing accuses nobody: a forger gains nothing by it.
Limit   tests in other languages, and ids that name no function of a reference file, are not asked.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from paddock.resources_servers.swe.grading.falsify import falsified
from paddock.resources_servers.swe.grading.reading import read_run
from paddock.resources_servers.swe.grading.reference import File, Reference, digest
from paddock.resources_servers.swe.grading.running import Tried
from paddock.resources_servers.swe.instance import Instance

_CHANCE = random.SystemRandom()  # a forger must not foresee what is made false
PASSING = ("PASSED", "XFAIL")
Try = Callable[[Instance, Reference, bytes], Awaitable[Tried]]


class Audit(NamedTuple):
    """An instance's reference with false tests."""

    reference: Reference
    must_fail: frozenset[str]
    """Listed tests that fail with the reference fix."""


class Audits:
    """Audits of instances, made once each."""

    def __init__(self, run: Try) -> None:
        """`run` tries a patch over a reference, without a sentinel."""
        self._run = run
        self._known: dict[str, asyncio.Future[Audit | None]] = {}

    async def complaint(self, instance: Instance, reference: Reference, patch: bytes) -> str | None:
        """A test that the patch passes whatever it says; None: none."""
        audit = await self._of(instance, reference)
        if audit is None:
            return None
        passing = await self._passing(instance, audit.reference, patch)
        return next((f"{test}: passes, whatever it says" for test in sorted(passing & audit.must_fail)), None)

    async def can_tell(self, instance: Instance, reference: Reference) -> bool:
        """Some target fails with the reference fix when it is made false."""
        audit = await self._of(instance, reference)
        return audit is not None and bool(audit.must_fail)

    async def _of(self, instance: Instance, reference: Reference) -> Audit | None:
        key = digest(instance)
        known = self._known.get(key)
        if known is None or (known.done() and (known.cancelled() or known.exception() is not None)):
            known = self._known[key] = asyncio.ensure_future(self._make(instance, reference))
        return await asyncio.shield(known)

    async def _make(self, instance: Instance, reference: Reference) -> Audit | None:
        targets = _targets(instance)
        wanted = {_function(test) for test in targets}
        blunt: set[str] = set()
        fix = reference.guard.split(instance.gold_patch).kept
        for _ in range(2):
            tests = _made_false(reference.tests, wanted, blunt)
            if tests == reference.tests:
                return None
            false = reference._replace(tests=tests)
            passing = await self._passing(instance, false, fix)
            blunt = {_function(test) for test in passing & targets}
            if not blunt:
                break
        return Audit(false, targets - passing)

    async def _passing(self, instance: Instance, reference: Reference, patch: bytes) -> frozenset[str]:
        tried = await self._run(instance, reference, patch)
        if tried.run is None or tried.run.killed_by is not None:
            return frozenset()
        reading = await asyncio.to_thread(read_run, instance, tried.run)
        found = {**reading.pass_to_pass, **reading.fail_to_pass}
        return frozenset(test for test, status in found.items() if status in PASSING)


def _made_false(tests: Mapping[str, File | None], wanted: set[str], blunt: set[str]) -> dict[str, File | None]:
    return {
        path: file._replace(data=falsified(file.data, wanted, blunt, chance=_CHANCE))
        if file is not None and path.endswith(".py")
        else file
        for path, file in tests.items()
    }


def _targets(instance: Instance) -> frozenset[str]:
    """The tests that the fix is for."""
    if instance.rule != "map":
        return frozenset(instance.fail_to_pass)
    passing = {test for test, status in instance.expected.items() if status in PASSING}
    return frozenset(test for test in passing if instance.before.get(test) not in PASSING) or frozenset(passing)


def _function(test: str) -> str:
    """The name of the function in a test's id."""
    name = test.rsplit("::", 1)[-1] if "::" in test else test
    return name.split("[", 1)[0].split(" ", 1)[0].rsplit(".", 1)[-1]
