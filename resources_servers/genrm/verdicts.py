"""From a group's judgement to its members' verdicts, with all that is needed to do it again offline.

Record  `genrm` among a verdict's extras: the group, this member's number, the traits of all members, every comparison.
        Of the judge nothing else is needed, so the reward can be computed anew, also under other reward settings.
Reason  `scored`; `scored_partial`: the group was closed before all were there; `scored_late`: this member came when its
        group was settled; `single`: there was nobody to compare it with.
Metrics `comparisons`, `mean_score`, `tiebreak_share` are this member's, before bonuses; those of `quality` its group's.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from paddock.errors import VerifierError, describe
from paddock.resources_servers.genrm.config import RewardSettings
from paddock.resources_servers.genrm.groups.records import GroupJudgement
from paddock.resources_servers.genrm.quality import Quality, quality_of
from paddock.resources_servers.genrm.records import GroupRewards, PairComparison, ResponseTraits, on_wire
from paddock.resources_servers.genrm.scoring.aggregation import group_rewards, tied
from paddock.types import JsonObject, Verdict

RECORD = "genrm"


class GroupResult:
    """A judgement and what follows from it, computed once for all members."""

    def __init__(self, judgement: GroupJudgement, settings: RewardSettings) -> None:
        self.judgement = judgement
        self._settings = settings

    @cached_property
    def rewards(self) -> GroupRewards:
        """Score all that were compared: one that a failed comparison masks is still what others were held against."""
        judgement = self.judgement
        touched = {member for pair in judgement.comparisons for member in (pair.response_i, pair.response_j)}
        members = [member for member in judgement.members if member in touched] or list(judgement.members)
        return group_rewards(members, judgement.comparisons, judgement.members, self._settings)

    @cached_property
    def quality(self) -> Quality:
        return quality_of(self.judgement.comparisons)

    @cached_property
    def _quality_metrics(self) -> dict[str, float]:
        return self.quality.as_metrics()

    def verdict(self, member: int) -> Verdict:
        numbers = _numbers(self.judgement.comparisons, member)
        return Verdict(
            reward=self.rewards.rewards[member],
            reward_components=self.rewards.components[member],
            reason=self._reason,
            detail=_detail(numbers),
            metrics={**numbers, **self._quality_metrics} if numbers else {},
            extras={RECORD: {"member": member, **self._record}},
        )

    @property
    def _reason(self) -> str:
        if not self.judgement.comparisons:
            return "single"
        if self.judgement.late is not None:
            return "scored_late"
        return "scored_partial" if self.judgement.partial else "scored"

    @cached_property
    def _record(self) -> JsonObject:
        judgement = self.judgement
        record: JsonObject = {"group": judgement.group}
        if judgement.partial:
            record["partial"] = True
        if judgement.late is not None:
            record["late"] = judgement.late
        record["members"] = {str(number): traits.model_dump() for number, traits in sorted(judgement.members.items())}
        record["comparisons"] = [on_wire(comparison) for comparison in judgement.comparisons]
        return record


def single_verdict(traits: ResponseTraits, settings: RewardSettings) -> Verdict:
    """Make the verdict of a group of one: no judge is asked."""
    return GroupResult(GroupJudgement(group="", members={0: traits}, comparisons=[]), settings).verdict(0)


def rescore(verdict: Verdict, traits: ResponseTraits, settings: RewardSettings) -> Verdict:
    """Score a stored verdict's record with these settings; `traits` are of the response that it is about."""
    judgement, member = read_record(verdict.extras.get(RECORD))
    own = judgement.model_copy(update={"members": {**judgement.members, member: traits}})
    return GroupResult(own, settings).verdict(member)


def read_record(stored: Any) -> tuple[GroupJudgement, int]:
    """Read a stored record: its judgement, and the number of its member; VerifierError when it is none."""
    if not isinstance(stored, dict):
        raise VerifierError(
            f"the stored verdict has no `{RECORD}`: without its comparisons it can't be scored again",
            kind="record_missing",
            retryable=False,
        )
    try:
        judgement = GroupJudgement.model_validate({key: value for key, value in stored.items() if key != "member"})
        member = int(stored["member"])
        if member not in judgement.members:
            raise ValueError(f"member {member} is not among its members")
    except (ValidationError, ValueError, TypeError, KeyError) as error:
        text = describe(error) if isinstance(error, ValidationError) else f"{type(error).__name__}: {error}"
        raise VerifierError(f"`{RECORD}`: {text}", kind="record_invalid", retryable=False) from error
    return judgement, member


def qualities(replies: Iterable[JsonObject]) -> list[Quality]:
    """Return the quality of each group in some verify replies, once; a late member's judgement is no other group."""
    by_group: dict[str, Quality] = {}
    for reply in replies:
        stored = reply.get(RECORD)
        if not isinstance(stored, dict) or not stored.get("comparisons") or "late" in stored:
            continue
        group = str(stored.get("group"))
        if group not in by_group:
            by_group[group] = quality_of(read_record(stored)[0].comparisons)
    return list(by_group.values())


def _numbers(comparisons: Sequence[PairComparison], member: int) -> dict[str, float]:
    own = [comparison for comparison in comparisons if member in (comparison.response_i, comparison.response_j)]
    if not own:
        return {}
    scores = [comparison.score_1 if comparison.response_i == member else comparison.score_2 for comparison in own]
    return {
        "comparisons": float(len(own)),
        "mean_score": math.fsum(scores) / len(own),
        "tiebreak_share": sum(map(tied, own)) / len(own),
    }


def _detail(numbers: Mapping[str, float]) -> str:
    if not numbers:
        return "a group of one: no judge was asked"
    return f"mean score {numbers['mean_score']:.3g} in {numbers['comparisons']:.0f} comparisons"
