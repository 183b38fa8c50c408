"""The control: the reference fix, run in the same way as a patch in doubt, now; and what its runs tell of time.

Why     a patch is given a zero for a strange run only where the reference fix has none on this machine at this time.
        So a control is run afresh after each doubt that has repeated: what was clean earlier settles nothing.
Agree   a control that is not clean is run again; what two runs agree in is told, whose fault it is with it:

        | two runs of the control     | told                                                    |
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
Time    the last undisturbed run of the reference fix of an instance gives the measure of its time limit.
"""

from collections import Counter, OrderedDict

from paddock.errors import PaddockError, RowError, VerifierError
from paddock.resources_servers.swe.grading.reference import REMEMBERED, Reference, digest
from paddock.resources_servers.swe.grading.trial import GradingOptions, Trial, Trials
from paddock.resources_servers.swe.instance import Instance

OUTPUT_SHOWN = 500
"""Characters of a control's output in an error."""


class Controls:
    """Runs of reference fixes, and what is known by them of each instance."""

    def __init__(self, trials: Trials, options: GradingOptions) -> None:
        self._trials = trials
        self._options = options
        self._took_s: OrderedDict[str, float] = OrderedDict()
        self._without: set[str] = set()
        """Instances whose reference fix was clean only without a sentinel, in the latest control."""

    def sentinel(self, instance: Instance) -> bool:
        """Do this instance's runs have a sentinel?"""
        return self._options.sentinel and digest(instance) not in self._without

    def limit_s(self, instance: Instance) -> float:
        """The time limit of this instance's tests on this machine."""
        took_s = self._took_s.get(digest(instance), 0.0)
        return max(self._options.tests_timeout_s, self._options.tests_timeout_factor * took_s)

    async def run_fix(self, instance: Instance, reference: Reference, *, sentinel: bool = False) -> Trial:
        """The reference fix over a reference, once."""
        fix = reference.guard.split(instance.gold_patch).kept
        limit_s = self.limit_s(instance)
        trial = await self._trials.run(instance, reference, fix, sentinel=sentinel, limit_s=limit_s)
        key = digest(instance)
        if trial.whole and trial.tried.run is not None and (trial.key == "resolved" or key not in self._took_s):
            self._took_s[key] = trial.tried.run.duration_s
            self._took_s.move_to_end(key)
            while len(self._took_s) > REMEMBERED:
                self._took_s.popitem(last=False)
        return trial

    async def settle(self, instance: Instance, reference: Reference, doubted: Trial) -> None:
        """Return when the reference fix runs clean here and now; raise whose fault it is otherwise."""
        key = digest(instance)
        if self._options.sentinel:
            trial = await self._agreed(instance, reference, doubted, sentinel=True)
            if trial.key == "resolved":
                self._without.discard(key)
                return
        trial = await self._agreed(instance, reference, doubted, sentinel=False)
        if trial.key != "resolved":
            raise _fault(trial, doubted)
        if self._options.sentinel:
            self._without.add(key)

    async def _agreed(self, instance: Instance, reference: Reference, doubted: Trial, *, sentinel: bool) -> Trial:
        """A clean control, or the second that its sentinel may have spoilt; what else two agree in is raised."""
        seen: Counter[str] = Counter()
        for _ in range(self._options.runs_at_most):
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
        told = ", ".join(f"{key} {count}" for key, count in seen.items())
        raise VerifierError(f"{doubted.detail}; and runs of the reference fix differ: {told}", kind="control_unsteady")


def _fault(trial: Trial, doubted: Trial) -> PaddockError:
    run = trial.tried.run
    if run is None:
        return RowError(f"the reference fix could not be run: {trial.detail}", kind="gold_does_not_apply")
    if trial.key == "fails" and not trial.hinted:
        return RowError(f"the reference fix is not resolved here: {trial.detail}", kind="gold_unresolved")
    return VerifierError(
        f"{doubted.detail}; and the reference fix, run in the same way: {trial.detail}; "
        f"its output ends: {run.output.strip()[-OUTPUT_SHOWN:]}",
        kind=f"control_{trial.key}",
    )
