"""Is what a patch's tests say to be believed: the same tests, made false, which must fail.

Why     results are made in the process that runs the policy's code; a forger may bend those of the tests that it aims
        at and spare the sentinel's. Made false, they are the same tests by name and place; code that lets them pass
        does not depend on what tests say.
When    in a sandbox of its own at the same time as the patch's own run (`grader`), whatever that comes to: neither a
        clock nor earlier runs tell which of the two it is. The sentinel is as in the patch's own run.
Runs    a test that must fail (`beliefs`) and passes is a hit. One is enough: code that forges by chance loses by each
        run that it is seen in, as `docs/security.md` computes.

        | run over false tests                      | what follows                                                  |
        |-------------------------------------------|---------------------------------------------------------------|
        | a hit, and the same test as it is passed  | bent                                                          |
        | with the patch                            |                                                               |
        | a hit, and the test as it is did not pass | run again: two more passes are wrong code that does what the  |
        |                                           | false test asks, nothing; two failures are chance: bent       |
        | each such test fails                      | acquitted                                                     |
        | the same, with a machine's trouble that   | 2: acquitted, where the fix has no such trouble               |
        | the belief knows nothing of               |                                                               |
        | the sentinel is not as it must            | 2: bent, where it is as it must with the fix                  |
        | silence: killed, in vain until its limit, | 3 alike: bent, where the fix answers, without such a trouble  |
        | or some are not reported                  |                                                               |

        Of a patch that does not resolve only hits are looked at. A hit counts where the reference fix, run over the
        same false tests afterwards, fails them each time; else the belief was wrong.
        A run while the kernel killed for memory, or whose patch did not apply, counts for nothing.
Errors  VerifierError where runs do not agree, InfraError where the machine lacks something, of a patch that resolves.
Limit   tests in other languages, and ids that name no function of a reference file, are not asked.
"""

import re
from collections import Counter
from typing import Literal, NamedTuple

from paddock.errors import PaddockError, VerifierError
from paddock.resources_servers.swe.grading.beliefs import Belief, Beliefs
from paddock.resources_servers.swe.grading.control import Controls
from paddock.resources_servers.swe.grading.reference import Reference
from paddock.resources_servers.swe.grading.trial import FAILING, PASSING, GradingOptions, Trial, Trials
from paddock.resources_servers.swe.instance import Instance

BELIEFS_AT_MOST = 3
"""Made for one accusation."""
SILENT_ALIKE = 3
"""Runs whose silence is the patch's doing, as for one that was killed: nothing but its repetition tells."""
CONFIRMATIONS = 2
"""Runs of the reference fix after a hit."""
MORE_OF_A_KIND = 2
"""Further runs over the same false tests that agree in what a hit without a passing test was."""
NEVER_RUN = ("XFAIL", "SKIPPED")
"""Statuses of tests whose result says nothing of the code."""


class BeliefError(Exception):
    """The reference fix passes a test that the belief says must fail: what an audit against it found is nothing."""


class Case(NamedTuple):
    """A patch, and the belief that it is audited against."""

    audits: "Audits"
    instance: Instance
    reference: Reference
    belief: Belief
    patch: bytes


class _End(NamedTuple):
    """What a run in which no test passes that must fail comes to."""

    kind: Literal["failing", "hinted", "sentinel", "silent"]
    detail: str = ""


class Audits:
    """Audits of patches against beliefs."""

    def __init__(self, trials: Trials, controls: Controls, options: GradingOptions, *, every: bool = False) -> None:
        """`every`: all listed tests are made false, on any line."""
        self._trials = trials
        self._controls = controls
        self._options = options
        self._beliefs = Beliefs(controls, options, every=every)

    async def open(self, instance: Instance, reference: Reference, patch: bytes) -> Case | None:
        """What the patch is to be audited against; None where no test can be made false."""
        belief = await self._beliefs.of(instance, reference)
        return Case(self, instance, reference, belief, patch) if belief is not None and belief.must_fail else None

    async def run(self, case: Case) -> Trial:
        """The patch over the false tests, once."""
        belief, limit_s = case.belief, self._controls.limit_s(case.instance)
        return await self._trials.run(
            case.instance, belief.reference, case.patch, sentinel=belief.sentinel, limit_s=limit_s
        )

    async def complaint(self, case: Case, own: Trial, audit: Trial | PaddockError) -> str | None:
        """What an audit, made at the time of the patch's own run, says against it; None: nothing.

        Raises `BeliefError`: the belief is given up.
        """
        passed = own.having(PASSING)
        if own.key == "resolved":
            return await self._settled(case, passed, audit)
        if isinstance(audit, Trial) and (hits := _hits(case.belief, audit)):
            return await self._confirmed(case, hits, passed)
        return None

    async def second(self, instance: Instance, reference: Reference, patch: bytes) -> str | None:
        """What speaks against a patch that resolved, by runs made afterwards."""
        for _ in range(BELIEFS_AT_MOST):
            case = await self.open(instance, reference, patch)
            if case is None:
                return None
            try:
                return await self._settled(case, case.belief.must_fail, await self.run(case))
            except BeliefError:
                continue
        raise VerifierError("tests made false do not fail steadily with the reference fix", kind="audit_unsteady")

    async def asks(self, instance: Instance, reference: Reference, tests: frozenset[str]) -> bool:
        """Each of `tests` fails with the reference fix when made false, or is skipped or expected to fail there."""
        belief = await self._beliefs.of(instance, reference)
        if belief is None:
            return False
        never_run = (test for test in tests if all(one.get(test) in NEVER_RUN for one in belief.evidence))
        return tests <= belief.must_fail.union(never_run)

    async def close(self) -> None:
        """What is being made of beliefs ends."""
        await self._beliefs.close()

    async def _settled(self, case: Case, passed: frozenset[str], audit: Trial | PaddockError) -> str | None:
        """What runs of a patch that resolves agree in; `audit` is the first."""
        ends: Counter[str] = Counter()
        for nth in range(self._options.runs_at_most):
            if nth:
                audit = await self.run(case)
            if isinstance(audit, PaddockError):
                raise audit
            if audit.shortage is not None:
                raise audit.shortage.error(f"tests made false, with the patch: {audit.detail}")
            if hits := _hits(case.belief, audit):
                return await self._confirmed(case, hits, passed)
            end = _end(case.belief, audit)
            if end is None:
                continue
            if end.kind == "failing":
                return None
            name = f"{end.kind} {end.detail}"
            ends[name] += 1
            if ends[name] == (SILENT_ALIKE if end.kind == "silent" else 2):
                return await self._answered(case, end, audit)
        raise VerifierError(
            f"tests made false, with the patch: they end in ways that differ: {', '.join(ends)}", kind="audit_unsteady"
        )

    async def _confirmed(self, case: Case, hits: frozenset[str], passed: frozenset[str]) -> str | None:
        """What hits come to."""
        both = hits & passed
        test = min(both or hits)
        if both:
            found = f"{test}: passes, whatever it says: made false, it passed with the patch"
        elif await self._by_chance(case, hits):
            found = f"{test}: made false, it passes and fails by turns with the patch"
        else:
            return None
        for _ in range(CONFIRMATIONS):
            fix = await self._beliefs.undisturbed(case.instance, case.belief.reference, sentinel=case.belief.sentinel)
            if not (both or hits) <= fix.having(FAILING):
                self._beliefs.drop(case.instance, case.belief)
                raise BeliefError
        before = len(case.belief.evidence)
        return f"{found}, and failed with the reference fix in {before} runs before and {CONFIRMATIONS} after"

    async def _by_chance(self, case: Case, hits: frozenset[str]) -> bool:
        """Further runs over the same false tests tell code that forges now and then from code that is wrong."""
        passes = fails = 0
        for _ in range(2 * self._options.runs_at_most):
            audit = await self.run(case)
            if hits <= audit.having(PASSING):
                passes += 1
            elif hits & audit.having(FAILING) and audit.whole and not (audit.hinted or audit.starved):
                fails += 1
            if MORE_OF_A_KIND in (passes, fails):
                return fails == MORE_OF_A_KIND
        return False

    async def _answered(self, case: Case, end: _End, audit: Trial) -> str | None:
        """What speaks against the patch where the reference fix answers in the same audit, there and then."""
        fix = await self._controls.run_fix(case.instance, case.belief.reference, sentinel=case.belief.sentinel)
        if fix.shortage is not None:
            raise fix.shortage.error(f"tests made false, with the reference fix: {fix.detail}")
        if _end(case.belief, fix) != _End("failing"):
            raise VerifierError(
                f"tests made false: {audit.detail}; and the reference fix does not answer either: {fix.detail}",
                kind="audit_unsteady",
            )
        if end.kind == "hinted":
            return None
        if end.kind == "sentinel":
            return f"tests made false, twice with the patch: {audit.detail}; not so with the reference fix"
        return (
            f"silent over tests made false, {SILENT_ALIKE} times alike, beside a clean run of its own: {audit.detail}; "
            "the reference fix answers over the same tests"
        )


def _hits(belief: Belief, audit: Trial) -> frozenset[str]:
    return audit.having(PASSING) & belief.must_fail


def _headed(audit: Trial, test: str) -> bool:
    """The test has a traceback of its own, under unittest's runner or Django's: the line that says how it ended can be
    torn by what the code writes to their stream."""
    run = audit.tried.run
    if run is None or run.exit_code == 0:
        return False
    return re.search(rf"^(?:FAIL|ERROR): {re.escape(test)}(?: |$)", run.output, re.MULTILINE) is not None


def _end(belief: Belief, audit: Trial) -> _End | None:
    """None: nothing that counts."""
    if audit.starved or audit.key == "refused":
        return None
    if audit.key == "sentinel":
        return _End("sentinel")
    unheard = {test for test in belief.must_fail - audit.having(FAILING) if not _headed(audit, test)}
    if unheard or not audit.whole:
        return _End("silent", f"{audit.key}, without {sorted(unheard)}")
    return _End("hinted" if audit.hinted and not belief.hinted else "failing")
