"""Ended groups that wait for their step.

Order   the oldest first: by the oldest version that sampled a token, then by id.
Law     a group comes out once, either to be trained on or because it is too old; none is ever too old for the step that
        it comes out for.
Errors  BugError for a group that is there already.
"""

from collections.abc import Iterable

from paddock.errors import BugError
from paddock.training.core.admission import Admission
from paddock.training.core.records import Group


class ReplayBuffer:
    """Of one run."""

    def __init__(self, admission: Admission, groups: Iterable[Group] = ()) -> None:
        self._admission = admission
        self._groups: dict[int, Group] = {}
        for group in groups:
            self.put(group)

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def groups(self) -> list[Group]:
        """In the order in which they come out."""
        return sorted(self._groups.values(), key=lambda group: (group.oldest_version, group.id))

    def put(self, group: Group) -> None:
        if group.id in self._groups:
            raise BugError(f"group {group.id} ended twice", kind="group_doubled")
        self._groups[group.id] = group

    def give_up(self, step: int) -> list[Group]:
        """Takes out those that are too old for `step`, and so for each that follows."""
        old = [group for group in self.groups if not self._admission.usable(group.oldest_version, step)]
        for group in old:
            del self._groups[group.id]
        return old

    def take(self, step: int) -> list[Group] | None:
        """The oldest that `step` may train on; None while there are not enough."""
        usable = [group for group in self.groups if self._admission.usable(group.oldest_version, step)]
        if len(usable) < self._admission.num_prompts_per_step:
            return None
        taken = usable[: self._admission.num_prompts_per_step]
        for group in taken:
            del self._groups[group.id]
        return taken
