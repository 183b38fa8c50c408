"""Groups that have ended and wait for their step.

Order   the oldest first: by the oldest version that sampled a token, then by id.
Law     a group comes out once, either to be trained on or because it is too old.
Errors  BugError for a group that is there already.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from paddock.errors import BugError
from paddock.training.core.records import Group

_NO_TRIES: Mapping[int, int] = {}


class WaitingGroup(NamedTuple):
    """A group and its sort key: sorted, groups stand in their order."""

    oldest_version: int
    id: int
    group: Group
    tries: int
    """How many groups of its row were lost before it."""


class ReplayBuffer:
    """The waiting groups of one run."""

    def __init__(self, groups: Iterable[Group] = (), tries: Mapping[int, int] = _NO_TRIES) -> None:
        """`tries`: by the group's id; a missing one stands for 0."""
        self._waiting: dict[int, WaitingGroup] = {}
        for group in groups:
            self.put(group, tries.get(group.id, 0))

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def waiting(self) -> list[WaitingGroup]:
        """The groups in their order."""
        return sorted(self._waiting.values())

    @property
    def groups(self) -> list[Group]:
        return [waiting.group for waiting in self.waiting]

    def put(self, group: Group, tries: int = 0) -> None:
        if group.id in self._waiting:
            raise BugError(f"group {group.id} ended twice", kind="group_doubled")
        self._waiting[group.id] = WaitingGroup(group.oldest_version, group.id, group, tries)

    def take(self, taken: Iterable[WaitingGroup]) -> list[Group]:
        """Take these groups out, in the order in which they are given."""
        return [self._waiting.pop(waiting.id).group for waiting in taken]
