"""Groups that have ended and wait for their step.

Order   the oldest first: by the oldest version that sampled a token, then by id.
Law     a group comes out once, either to be trained on or because it is too old; none is ever too old for the step that
        it comes out for.
Errors  BugError for a group that is there already.
"""

from collections.abc import Iterable
from typing import NamedTuple

from paddock.errors import BugError
from paddock.training.core.admission import GroupAdmission
from paddock.training.core.records import Group


class ReplayBuffer:
    """The waiting groups of one run."""

    def __init__(self, admission: GroupAdmission, groups: Iterable[Group] = ()) -> None:
        self._admission = admission
        self._waiting: dict[int, _WaitingGroup] = {}
        for group in groups:
            self.put(group)

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def groups(self) -> list[Group]:
        """The waiting groups in the order in which they come out."""
        return [waiting.group for waiting in sorted(self._waiting.values())]

    def put(self, group: Group) -> None:
        if group.id in self._waiting:
            raise BugError(f"group {group.id} ended twice", kind="group_doubled")
        self._waiting[group.id] = _WaitingGroup(group.oldest_version, group.id, group)

    def give_up(self, step: int) -> list[Group]:
        """Take out the groups that are too old for `step`, and so for each step that follows."""
        return self._out([waiting for waiting in sorted(self._waiting.values()) if not self._usable(waiting, step)])

    def count_up_to(self, version: int) -> int:
        """How many groups have a token that this version of the weights, or an older one, sampled."""
        return sum(waiting.oldest_version <= version for waiting in self._waiting.values())

    def ready(self, step: int) -> bool:
        """Whether enough groups wait for `step`."""
        usable = sum(self._usable(waiting, step) for waiting in self._waiting.values())
        return usable >= self._admission.num_prompts_per_step

    def take(self, step: int) -> list[Group] | None:
        """Take the oldest groups that `step` may train on; None while there are not enough."""
        if not self.ready(step):
            return None
        usable = [waiting for waiting in sorted(self._waiting.values()) if self._usable(waiting, step)]
        return self._out(usable[: self._admission.num_prompts_per_step])

    def _usable(self, waiting: "_WaitingGroup", step: int) -> bool:
        return self._admission.usable(waiting.oldest_version, step)

    def _out(self, taken: "list[_WaitingGroup]") -> list[Group]:
        return [self._waiting.pop(waiting.id).group for waiting in taken]


class _WaitingGroup(NamedTuple):
    """A group and its sort key: sorted, groups stand in the order in which they come out."""

    oldest_version: int
    id: int
    group: Group
