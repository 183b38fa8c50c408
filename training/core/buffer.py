"""Ended groups that wait for their step.

Order   the oldest first: by the oldest version that sampled a token, then by id.
Law     a group comes out once, either to be trained on or because it is too old; none is ever too old for the step that
        it comes out for.
Errors  BugError for a group that is there already.
"""

from collections.abc import Iterable
from typing import NamedTuple

from paddock.errors import BugError
from paddock.training.core.admission import Admission
from paddock.training.core.records import Group


class ReplayBuffer:
    """Of one run."""

    def __init__(self, admission: Admission, groups: Iterable[Group] = ()) -> None:
        self._admission = admission
        self._held: dict[int, _Held] = {}
        for group in groups:
            self.put(group)

    def __len__(self) -> int:
        return len(self._held)

    @property
    def groups(self) -> list[Group]:
        """In the order in which they come out."""
        return [held.group for held in sorted(self._held.values())]

    def put(self, group: Group) -> None:
        if group.id in self._held:
            raise BugError(f"group {group.id} ended twice", kind="group_doubled")
        self._held[group.id] = _Held(group.oldest_version, group.id, group)

    def give_up(self, step: int) -> list[Group]:
        """Takes out those that are too old for `step`, and so for each that follows."""
        return self._out([held for held in sorted(self._held.values()) if not self._usable(held, step)])

    def count_up_to(self, version: int) -> int:
        """How many have a token that this version sampled, or an older one."""
        return sum(held.oldest_version <= version for held in self._held.values())

    def ready(self, step: int) -> bool:
        """Whether there are enough for `step`."""
        usable = sum(self._usable(held, step) for held in self._held.values())
        return usable >= self._admission.num_prompts_per_step

    def take(self, step: int) -> list[Group] | None:
        """The oldest that `step` may train on; None while there are not enough."""
        if not self.ready(step):
            return None
        usable = [held for held in sorted(self._held.values()) if self._usable(held, step)]
        return self._out(usable[: self._admission.num_prompts_per_step])

    def _usable(self, held: "_Held", step: int) -> bool:
        return self._admission.usable(held.oldest_version, step)

    def _out(self, taken: "list[_Held]") -> list[Group]:
        return [self._held.pop(held.id).group for held in taken]


class _Held(NamedTuple):
    """Sorts as groups come out: ids differ."""

    oldest_version: int
    id: int
    group: Group
