"""The control: the reference fix, run in the same way as a patch in doubt, now; and how long its runs take.

Why     a patch is given a zero for a strange run only where the reference fix has none on this machine at this time.
        So a control is run afresh after each doubt that has repeated: what was clean earlier settles nothing.
Agree   a control that is not clean is run again; what two runs agree in is raised, and whose fault it is:

        | two runs of the control     | what follows                                            |
        |-----------------------------|---------------------------------------------------------|
        | one is clean                | return: the patch's own doing                           |
        | the same doubt              | VerifierError `control_<doubt>`                         |
        | the sentinel not as it must | as in the next line                                     |
        | tests fail                  | without a sentinel: clean, the row can have none; else  |
        |                             | RowError `gold_unresolved`                              |
        | the same, with a hint       | VerifierError `control_fails`                           |
        | it can't be run             | RowError `gold_does_not_apply`                          |
        | no two are alike            | VerifierError `control_unsteady`                        |
        | the machine lacks something | InfraError, at the first                                |
        | the row has no fix          | VerifierError `control_missing`                         |
Time    the last undisturbed run of the reference fix of an instance gives the measure of its time limit.
"""

from collections import Counter, OrderedDict

from paddock.errors import PaddockError, RowError, VerifierError
from paddock.resources_servers.swe.grading.reference import CACHE_SIZE, ReferenceTests, digest
from paddock.resources_servers.swe.grading.trial import GradingOptions, PatchTrial, PatchTrials
from paddock.resources_servers.swe.instance import SweInstance

OUTPUT_SHOWN = 500
"""Characters of a control's output in an error."""


class Controls:
    """Runs reference fixes, and remembers of each instance how long its tests take and if it can have a sentinel."""

    def __init__(self, trials: PatchTrials, options: GradingOptions) -> None:
        self._trials = trials
        self._options = options
        self._duration_s: OrderedDict[str, float] = OrderedDict()
        self._without_sentinel: set[str] = set()
        """Instances whose reference fix was clean only without a sentinel, in the latest control."""

    def sentinel(self, instance: SweInstance) -> bool:
        """Say whether this instance's runs have a sentinel."""
        return self._options.sentinel and digest(instance) not in self._without_sentinel

    def limit_s(self, instance: SweInstance) -> float:
        """Return the time limit, in seconds, of this instance's tests on this machine."""
        duration_s = self._duration_s.get(digest(instance), 0.0)
        return max(self._options.tests_timeout_s, self._options.tests_timeout_factor * duration_s)

    async def run_fix(self, instance: SweInstance, reference: ReferenceTests, *, sentinel: bool = False) -> PatchTrial:
        """Run the reference fix over the reference tests, once."""
        fix = reference.guard.split(instance.gold_patch).applied
        limit_s = self.limit_s(instance)
        trial = await self._trials.run(instance, reference, fix, sentinel=sentinel, limit_s=limit_s)
        key = digest(instance)
        if trial.whole and trial.patch_run.run is not None and (trial.key == "resolved" or key not in self._duration_s):
            self._duration_s[key] = trial.patch_run.run.duration_s
            self._duration_s.move_to_end(key)
            while len(self._duration_s) > CACHE_SIZE:
                self._duration_s.popitem(last=False)
        return trial

    async def settle(self, instance: SweInstance, reference: ReferenceTests, doubted: PatchTrial) -> None:
        """Return when the reference fix runs clean here and now; otherwise raise the error of who is at fault."""
        key = digest(instance)
        if not instance.gold_patch:
            raise VerifierError(
                f"{doubted.detail}; the row has no reference fix that a run in doubt could be compared with",
                kind="control_missing",
                retryable=False,
            )
        if self._options.sentinel:
            trial = await self._run_until_agreed(instance, reference, doubted, sentinel=True)
            if trial.key == "resolved":
                self._without_sentinel.discard(key)
                return
        trial = await self._run_until_agreed(instance, reference, doubted, sentinel=False)
        if trial.key != "resolved":
            raise _fault(trial, doubted)
        if self._options.sentinel:
            self._without_sentinel.add(key)

    async def _run_until_agreed(
        self, instance: SweInstance, reference: ReferenceTests, doubted: PatchTrial, *, sentinel: bool
    ) -> PatchTrial:
        """Return a clean control, or the second that its sentinel may have spoilt; what else two agree in is raised."""
        seen: Counter[str] = Counter()
        for _ in range(self._options.max_runs):
            trial = await self.run_fix(instance, reference, sentinel=sentinel)
            if trial.key == "resolved":
                return trial
            if trial.shortage is not None:
                raise trial.shortage.error(f"{doubted.detail}; and with the reference fix: {trial.detail}")
            seen[trial.key] += 1
            if seen[trial.key] == 2 and sentinel and trial.key in ("sentinel", "fails"):
                return trial
            if seen[trial.key] == 2:
                raise _fault(trial, doubted)
        counts = ", ".join(f"{key} {count}" for key, count in seen.items())
        raise VerifierError(
            f"{doubted.detail}; and runs of the reference fix differ: {counts}", kind="control_unsteady"
        )


def _fault(trial: PatchTrial, doubted: PatchTrial) -> PaddockError:
    run = trial.patch_run.run
    if run is None:
        return RowError(f"the reference fix could not be run: {trial.detail}", kind="gold_does_not_apply")
    if trial.key == "fails" and not trial.hinted:
        return RowError(f"the reference fix is not resolved here: {trial.detail}", kind="gold_unresolved")
    return VerifierError(
        f"{doubted.detail}; and the reference fix, run in the same way: {trial.detail}; "
        f"its output ends: {run.output.strip()[-OUTPUT_SHOWN:]}",
        kind=f"control_{trial.key}",
    )
