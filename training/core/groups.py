"""Groups whose members did not all end in a verdict, however often they were run; groups that teach nothing.

Law     a group is compared over its members with a reward alone, as if it had been that small. One that has too few is
        dropped whole; it never waits.
Source  RLOO (arXiv 2402.14740) and GRPO (arXiv 2402.03300) define the baseline for a group of any size of 2 or more.
"""

from paddock.training.core.gdpo import part_sums
from paddock.training.core.records import Group
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.core.shaped_rewards import shape_groups
from paddock.training.core.step_credit import sample_credits


def repair(group: Group, settings: GroupSettings) -> Group | None:
    """The group, if enough of its members have a reward to be compared; None: it has to be dropped. Failed members stay
    in it, to be counted."""
    rewarded = sum(member.reward is not None for member in group.members)
    needed = settings.min_members if settings.repair == "leave_one_out" else max(group.size, settings.min_members)
    return group if rewarded >= needed else None


def has_advantage(group: Group, grpo: GrpoSettings) -> bool:
    """Whether a sample of the group has an advantage other than 0, by the rewards that training sees, before advantages
    are normalised."""
    (shaped,), _ = shape_groups([group], grpo)
    if grpo.adv_estimator.name == "gdpo":
        return any(part_sums(shaped, grpo))
    credits_by_member = sample_credits(shaped.members, grpo.model_copy(update={"normalize_rewards": False}))
    return any(credit.advantage for each in credits_by_member if each is not None for credit in each)
