"""Groups whose members did not all end in a verdict: which are run anew, and what is done when that did not help.

Law     a group is compared over its members with a reward alone, as if it had been that small. One that has too few is
        dropped whole; it never waits.
Source  RLOO (arXiv 2402.14740) and GRPO (arXiv 2402.03300) define the baseline for a group of any size of 2 or more.
"""

from collections.abc import Iterable

from paddock.training.core.records import Group, Member
from paddock.training.core.settings import GroupSettings
from paddock.types import RETRIED


def missing_members(group: Group) -> list[int]:
    """The numbers of the members to run anew: those that failed for no fault of theirs, and those without a rollout."""
    outcomes = {member.nth: member.outcome for member in group.members}
    return [nth for nth in range(group.size) if outcomes.get(nth, "infra") in RETRIED]


def with_rerolls(group: Group, members: Iterable[Member]) -> Group:
    """The group with `members` in place of those of the same number."""
    by_number = {member.nth: member for member in group.members}
    by_number.update({member.nth: member for member in members})
    return group._replace(members=tuple(by_number[nth] for nth in sorted(by_number)))


def repair(group: Group, settings: GroupSettings) -> Group | None:
    """The group, if enough of its members have a reward to be compared; None: it has to be dropped. Failed members stay
    in it, to be counted."""
    rewarded = sum(member.reward is not None for member in group.members)
    needed = settings.min_members if settings.repair == "leave_one_out" else max(group.size, settings.min_members)
    return group if rewarded >= needed else None
