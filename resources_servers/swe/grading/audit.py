"""Whether to believe what a patch's tests say: the same tests, made false, must fail.

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
from paddock.resources_servers.swe.grading.reference import ReferenceTests
from paddock.resources_servers.swe.grading.trial import FAILING, PASSING, GradingOptions, PatchTrial, PatchTrials
from paddock.resources_servers.swe.instance import SweInstance

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


class AuditCase(NamedTuple):
    """A patch, and the belief that it is audited against."""

    audits: "Audits"
    instance: SweInstance
    reference: ReferenceTests
    belief: Belief
    patch: bytes


class _AuditEnd(NamedTuple):
    """The result of a run in which every test that must fail does not pass."""

    kind: Literal["failing", "hinted", "sentinel", "silent"]
    detail: str = ""


class Audits:
    """Audits patches against beliefs."""

    def __init__(
        self, trials: PatchTrials, controls: Controls, options: GradingOptions, *, every: bool = False
    ) -> None:
        """`every`: all listed tests are made false, on any line."""
        self._trials = trials
        self._controls = controls
        self._options = options
        self._beliefs = Beliefs(controls, options, every=every)

    async def open(self, instance: SweInstance, reference: ReferenceTests, patch: bytes) -> AuditCase | None:
        """Prepare the audit of a patch; None where no test can be made false."""
        belief = await self._beliefs.of(instance, reference)
        return AuditCase(self, instance, reference, belief, patch) if belief is not None and belief.must_fail else None

    async def run(self, case: AuditCase) -> PatchTrial:
        """Run the patch over the false tests, once."""
        belief, limit_s = case.belief, self._controls.limit_s(case.instance)
        return await self._trials.run(
            case.instance, belief.reference, case.patch, sentinel=belief.sentinel, limit_s=limit_s
        )

    async def complaint(self, case: AuditCase, own: PatchTrial, audit: PatchTrial | PaddockError) -> str | None:
        """What an audit, made at the time of the patch's own run, says against it; None: nothing.

        Raises `BeliefError`: the belief is given up.
        """
        passed = own.tests_with(PASSING)
        if own.key == "resolved":
            return await self._judge_runs(case, passed, audit)
        if isinstance(audit, PatchTrial) and (hits := _hits(case.belief, audit)):
            return await self._confirm_hits(case, hits, passed)
        return None

    async def audit_again(self, instance: SweInstance, reference: ReferenceTests, patch: bytes) -> str | None:
        """Return what runs made afterwards say against a patch that resolved; None: nothing."""
        for _ in range(BELIEFS_AT_MOST):
            case = await self.open(instance, reference, patch)
            if case is None:
                return None
            try:
                return await self._judge_runs(case, case.belief.must_fail, await self.run(case))
            except BeliefError:
                continue
        raise VerifierError("tests made false do not fail steadily with the reference fix", kind="audit_unsteady")

    async def covers(self, instance: SweInstance, reference: ReferenceTests, tests: frozenset[str]) -> bool:
        """Say whether each of `tests` fails with the reference fix when made false, or never runs there."""
        belief = await self._beliefs.of(instance, reference)
        if belief is None:
            return False
        never_run = (test for test in tests if all(status.get(test) in NEVER_RUN for status in belief.evidence))
        return tests <= belief.must_fail.union(never_run)

    async def close(self) -> None:
        """Cancel the beliefs that are being made."""
        await self._beliefs.close()

    async def _judge_runs(
        self, case: AuditCase, passed: frozenset[str], audit: PatchTrial | PaddockError
    ) -> str | None:
        """Return what runs of a patch that resolves agree in; `audit` is the first."""
        ends: Counter[str] = Counter()
        for nth in range(self._options.max_runs):
            if nth:
                audit = await self.run(case)
            if isinstance(audit, PaddockError):
                raise audit
            if audit.shortage is not None:
                raise audit.shortage.error(f"tests made false, with the patch: {audit.detail}")
            if hits := _hits(case.belief, audit):
                return await self._confirm_hits(case, hits, passed)
            end = _end(case.belief, audit)
            if end is None:
                continue
            if end.kind == "failing":
                return None
            name = f"{end.kind} {end.detail}"
            ends[name] += 1
            if ends[name] == (SILENT_ALIKE if end.kind == "silent" else 2):
                return await self._compare_with_fix(case, end, audit)
        raise VerifierError(
            f"tests made false, with the patch: they end in ways that differ: {', '.join(ends)}", kind="audit_unsteady"
        )

    async def _confirm_hits(self, case: AuditCase, hits: frozenset[str], passed: frozenset[str]) -> str | None:
        """Return the complaint that hits come to; None: they are no forgery."""
        both = hits & passed
        test = min(both or hits)
        if both:
            complaint = f"{test}: passes, whatever it says: made false, it passed with the patch"
        elif await self._is_by_chance(case, hits):
            complaint = f"{test}: made false, it passes and fails by turns with the patch"
        else:
            return None
        for _ in range(CONFIRMATIONS):
            fix = await self._beliefs.run_undisturbed(
                case.instance, case.belief.reference, sentinel=case.belief.sentinel
            )
            if not (both or hits) <= fix.tests_with(FAILING):
                self._beliefs.drop(case.instance, case.belief)
                raise BeliefError
        before = len(case.belief.evidence)
        return f"{complaint}, and failed with the reference fix in {before} runs before and {CONFIRMATIONS} after"

    async def _is_by_chance(self, case: AuditCase, hits: frozenset[str]) -> bool:
        """Say by further runs over the same false tests whether the code forges now and then, or is wrong."""
        passes = fails = 0
        for _ in range(2 * self._options.max_runs):
            audit = await self.run(case)
            if hits <= audit.tests_with(PASSING):
                passes += 1
            elif hits & audit.tests_with(FAILING) and audit.whole and not (audit.hinted or audit.starved):
                fails += 1
            if MORE_OF_A_KIND in (passes, fails):
                return fails == MORE_OF_A_KIND
        return False

    async def _compare_with_fix(self, case: AuditCase, end: _AuditEnd, audit: PatchTrial) -> str | None:
        """Return the complaint where the reference fix answers in the same audit, there and then; None: none."""
        fix = await self._controls.run_fix(case.instance, case.belief.reference, sentinel=case.belief.sentinel)
        if fix.shortage is not None:
            raise fix.shortage.error(f"tests made false, with the reference fix: {fix.detail}")
        if _end(case.belief, fix) != _AuditEnd("failing"):
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


def _hits(belief: Belief, audit: PatchTrial) -> frozenset[str]:
    return audit.tests_with(PASSING) & belief.must_fail


def _has_traceback(audit: PatchTrial, test: str) -> bool:
    """The test has a traceback of its own, under unittest's runner or Django's: the line that says how it ended can be
    torn by what the code writes to their stream."""
    run = audit.patch_run.run
    if run is None or run.exit_code == 0:
        return False
    return re.search(rf"^(?:FAIL|ERROR): {re.escape(test)}(?: |$)", run.output, re.MULTILINE) is not None


def _end(belief: Belief, audit: PatchTrial) -> _AuditEnd | None:
    """Return how an audit's run ended; None: it counts for nothing."""
    if audit.starved or audit.key == "refused":
        return None
    if audit.key == "sentinel":
        return _AuditEnd("sentinel")
    unreported = {test for test in belief.must_fail - audit.tests_with(FAILING) if not _has_traceback(audit, test)}
    if unreported or not audit.whole:
        return _AuditEnd("silent", f"{audit.key}, without {sorted(unreported)}")
    return _AuditEnd("hinted" if audit.hinted and not belief.hinted else "failing")
