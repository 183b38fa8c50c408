"""When a group may start, so that what it samples is young enough for a later step.

Formula a group started at version `v` is of use to steps `s <= v + max_age`. So that each has its step, at most
        `(version + max_age + 1) * num_prompts_per_step` groups begin in all, and one more for each that was lost (given
        up or dropped). As each step uses `num_prompts_per_step`, that leaves room for
        `(version + max_age + 1 - step) * num_prompts_per_step` groups that run, have ended, or are being trained on.
Ages    `step - version`, in versions of the weights. `max_age` 0: what step `s` trains on was started after weights `s`
        were sent, and nothing runs while it trains.
Law     nothing here remembers: the same numbers give the same answer, after a restart too.
"""

from typing import NamedTuple


class RunningGroup(NamedTuple):
    """A group that runs, or that a resumed run has to start again."""

    id: int
    """Its number in the order in which groups started, from 0."""
    row: int
    epoch: int
    version: int
    """Version of the newest weights that had been sent when it started."""
    tries: int = 0
    """How many groups of its row were lost before it."""


class GroupAdmission(NamedTuple):
    """How many groups a run may have, and how old their tokens may be."""

    num_prompts_per_step: int
    max_age: int

    @property
    def capacity(self) -> int:
        """The most groups that run or wait for their step at one time."""
        return (self.max_age + 1) * self.num_prompts_per_step

    def room(self, *, step: int, version: int, alive: int) -> int:
        """How many groups may start now. `step` is the one to train next or being trained; `version` that of the newest
        weights that were sent; `alive` counts groups that run, wait for their step, or are being trained on."""
        return max(0, (version + self.max_age + 1 - step) * self.num_prompts_per_step - alive)

    def usable(self, version: int, step: int) -> bool:
        """Whether `step` may train on tokens that weights `version` sampled."""
        return version + self.max_age >= step
