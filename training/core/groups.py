"""Groups whose members did not all end in a verdict: who is run anew, and what is done when that did not help.

Law     a group is compared over its members with a reward alone, as if it had been that small. One that has too few is
        dropped whole; it never waits.
Source  RLOO (arXiv 2402.14740) and GRPO (arXiv 2402.03300) define the baseline for a group of any size of 2 or more.
"""

from collections.abc import Iterable

from paddock.training.core.records import Group, Member
from paddock.training.core.settings import GroupSettings
from paddock.types import Outcome

REROLLED: frozenset[Outcome] = frozenset({"infra", "verifier"})
"""Not the policy's and not the data's fault: another rollout may end otherwise."""


def missing(group: Group) -> list[int]:
    """The places to run anew: members that failed for no fault of theirs, and those that are not there."""
    there = {member.nth: member.outcome for member in group.members}
    return [nth for nth in range(group.size) if there.get(nth, "infra") in REROLLED]


def rerolled(group: Group, members: Iterable[Member]) -> Group:
    """The group with these in their places; one that failed again stays as it is."""
    there = {member.nth: member for member in group.members}
    there.update({member.nth: member for member in members})
    return group._replace(members=tuple(there[nth] for nth in sorted(there)))


def repaired(group: Group, settings: GroupSettings) -> Group | None:
    """The group, if it can be compared as it is; None: it is dropped. Failed members stay in it, to be counted."""
    rewarded = sum(member.reward is not None for member in group.members)
    needed = settings.min_members if settings.repair == "leave_one_out" else max(group.size, settings.min_members)
    return group if rewarded >= needed else None
