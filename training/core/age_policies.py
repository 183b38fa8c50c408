"""Policies for the age of groups: which of them a step trains on, which it waits for, and which are too old.

target_step     each group has its step from its start: steps take groups in the order in which they started, and wait
                for them. One that is lost makes room for the next. So none is too old but where an engine lags behind,
                and each step has the mixture of rows that was drawn. NeMo-RL: a group's `target_weight_version`
                (`nemo_rl/algorithms/async_utils`).
accept_late     a step takes the oldest groups that have ended and waits for none; what is too old is taken, and
                counted. SkyRL's `fully_async` trainer: its `max_staleness_steps` bounds how many groups start.
cancel          a step takes the oldest groups that have ended; those too old for the next one are cancelled and their
                rows run again, `max_retries` times. Steps wait for the last of these alone. prime-rl cancels likewise.
Law     what is chosen depends on the arguments alone, so that a resumed run chooses as the first one would have.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from paddock.training.core.admission import GroupAdmission, RunningGroup
from paddock.training.core.buffer import WaitingGroup
from paddock.training.core.settings import GroupSettings


class AgePolicy(Protocol):
    """What a run's steps train on."""

    def usable(self, version: int, step: int) -> bool:
        """Whether `step` may train on tokens that weights `version` sampled."""
        ...

    def choose(
        self, step: int, running: Collection[RunningGroup], waiting: Sequence[WaitingGroup]
    ) -> Sequence[WaitingGroup] | None:
        """The groups that `step` trains on; None: it has to wait. `waiting`: those that it may, the oldest first."""
        ...


class TargetStep(NamedTuple):
    """`target_step`."""

    admission: GroupAdmission

    def usable(self, version: int, step: int) -> bool:
        return self.admission.usable(version, step)

    def choose(
        self, step: int, running: Collection[RunningGroup], waiting: Sequence[WaitingGroup]
    ) -> Sequence[WaitingGroup] | None:
        prompts = self.admission.num_prompts_per_step
        first = sorted(waiting, key=lambda group: group.id)[:prompts]
        if len(first) < prompts or any(group.id < first[-1].id for group in running):
            return None
        return first


class AcceptLate(NamedTuple):
    """`accept_late`."""

    admission: GroupAdmission

    def usable(self, version: int, step: int) -> bool:
        return True

    def choose(
        self, step: int, running: Collection[RunningGroup], waiting: Sequence[WaitingGroup]
    ) -> Sequence[WaitingGroup] | None:
        return _oldest(waiting, self.admission.num_prompts_per_step)


class Cancel(NamedTuple):
    """`cancel`."""

    admission: GroupAdmission
    max_retries: int

    def usable(self, version: int, step: int) -> bool:
        return self.admission.usable(version, step)

    def choose(
        self, step: int, running: Collection[RunningGroup], waiting: Sequence[WaitingGroup]
    ) -> Sequence[WaitingGroup] | None:
        last = [group.version for group in running if group.tries >= self.max_retries]
        if self._has_to_wait(step, last, waiting):
            return None
        return _oldest(waiting, self.admission.num_prompts_per_step)

    def _has_to_wait(self, step: int, last: Sequence[int], waiting: Sequence[WaitingGroup]) -> bool:
        """Whether not all of the groups that are the last try of their rows would find a step, were this one taken
        now. `last`: their versions. Of those too old after `more` further steps, as many fit as these steps train on,
        beside the groups that have ended."""
        prompts, max_age = self.admission
        for more in range(max_age if last else 0):
            oldest = step + more - max_age
            n_running = sum(version <= oldest for version in last)
            n_ended = sum(group.oldest_version <= oldest for group in waiting)
            if n_running and n_running + max(0, n_ended - prompts) > more * prompts:
                return True
        return False


def age_policy(admission: GroupAdmission, settings: GroupSettings) -> AgePolicy:
    """The policy that `paddock.groups.age_policy` names."""
    if settings.age_policy == "target_step":
        return TargetStep(admission)
    return AcceptLate(admission) if settings.age_policy == "accept_late" else Cancel(admission, settings.max_retries)


def _oldest(waiting: Sequence[WaitingGroup], count: int) -> Sequence[WaitingGroup] | None:
    return waiting[:count] if len(waiting) >= count else None
