"""How often a judge agrees with known preferences, and how far it can be relied on.

Asked   each pair in both orders. Its opinion of one answer is the sign of `margin`; of a pair, that of the sum over all
        answers, so that a leaning to one place cancels out.
Rates   with 95 % Wilson intervals. A pair of which a comparison failed counts in `failed` and nowhere else; one that is
        labelled as a tie counts in no rate of agreement.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from paddock.collect.statistics import Interval, wilson95
from paddock.resources_servers.genrm.calibration.preferences import Preference
from paddock.resources_servers.genrm.records import PairComparison
from paddock.types import JsonObject

MIDDLE = 3.5
"""The ranking that prefers neither."""


class PreferenceCheck(NamedTuple):
    """One known preference, and the judge's comparisons of its two responses."""

    preference: Preference
    comparisons: Sequence[PairComparison]
    """Empty where a comparison failed."""
    failure: str | None = None
    """The kind of its error; None: it did not fail."""


class Share(NamedTuple):
    """A count and what it is a part of."""

    hits: int
    of: int

    @property
    def share(self) -> float:
        """The share, from 0 to 1; there must be something to count."""
        return self.hits / self.of

    @property
    def ci95(self) -> Interval:
        return wilson95(self.share, self.of)

    def to_json(self) -> JsonObject:
        share = {"share": self.share, "ci95": list(self.ci95)} if self.of else {"share": None, "ci95": None}
        return {**share, "hits": self.hits, "of": self.of}

    def __str__(self) -> str:
        if not self.of:
            return "none to count"
        return f"{self.share:.3f}  [{self.ci95.low:.3f}, {self.ci95.high:.3f}]  ({self.hits} of {self.of})"


class Calibration(NamedTuple):
    """How a judge did on one file of preferences."""

    pairs: int
    failed: dict[str, int]
    """Pairs that the judge did not answer usably, by the failure's kind."""
    ties: int
    """Pairs that are labelled as ties."""
    agreement: Share
    """Opinions on pairs that are the label's; a pair without an opinion is no agreement."""
    by_strength: dict[int, Share]
    """The same, of the pairs whose label has that strength."""
    shown_first: Share
    """Single answers that prefer what stood first, of those that prefer anything."""
    consistent: Share
    """Pairs on which both orders say the same, by each judge alone, of those on which both say anything."""
    abstained: Share
    """Single answers that prefer neither."""

    def to_json(self) -> JsonObject:
        shares = {
            name: share.to_json()
            for name in ("agreement", "shown_first", "consistent", "abstained")
            for share in [getattr(self, name)]
        }
        strengths = {str(strength): share.to_json() for strength, share in self.by_strength.items()}
        return {"pairs": self.pairs, "failed": self.failed, "ties": self.ties, **shares, "by_strength": strengths}

    def lines(self) -> list[str]:
        """Render it for people."""
        failed = ", ".join(f"{kind} {count}" for kind, count in sorted(self.failed.items())) or "none"
        return [
            f"pairs          {self.pairs}, of them labelled as ties {self.ties}, failed: {failed}",
            f"agreement      {self.agreement}",
            *(f"  strength {strength}   {share}" for strength, share in sorted(self.by_strength.items())),
            f"consistent     {self.consistent}   both orders say the same",
            f"shown first    {self.shown_first}   of single answers prefer what stood first; 0.5 is fair",
            f"abstained      {self.abstained}   single answers without a preference",
        ]


def margin(comparison: PairComparison) -> float:
    """By how much the first is preferred: the difference of scores, and of equal ones what the ranking says."""
    return comparison.score_1 - comparison.score_2 or MIDDLE - comparison.ranking


def calibrate(checked: Sequence[PreferenceCheck]) -> Calibration:
    failed = Counter(check.failure for check in checked if check.failure is not None)
    answered = [check for check in checked if check.failure is None]
    labelled = [check for check in answered if check.preference.preferred is not None]
    answers = [margin(comparison) for check in answered for comparison in check.comparisons]
    opinions = [opinion for opinion in answers if opinion]
    strengths = sorted({check.preference.strength for check in labelled if check.preference.strength is not None})
    return Calibration(
        pairs=len(checked),
        failed=dict(failed),
        ties=sum(check.preference.preferred is None for check in checked),
        agreement=_agreement(labelled),
        by_strength={s: _agreement([check for check in labelled if check.preference.strength == s]) for s in strengths},
        shown_first=Share(sum(opinion > 0 for opinion in opinions), len(opinions)),
        consistent=_consistent(answered),
        abstained=Share(len(answers) - len(opinions), len(answers)),
    )


def _agreement(labelled: Sequence[PreferenceCheck]) -> Share:
    right = 0
    for check in labelled:
        total = sum(_for_first(comparison) for comparison in check.comparisons)
        right += total > 0 if check.preference.preferred == 0 else total < 0
    return Share(right, len(labelled))


def _for_first(comparison: PairComparison) -> float:
    """The margin of response 0, wherever it stood."""
    return margin(comparison) if comparison.response_i == 0 else -margin(comparison)


def _consistent(answered: Sequence[PreferenceCheck]) -> Share:
    same = both = 0
    for check in answered:
        by_judge: dict[int, dict[int, float]] = {}
        for comparison in check.comparisons:
            by_judge.setdefault(comparison.judge_idx, {})[comparison.response_i] = _for_first(comparison)
        for orders in by_judge.values():
            if len(orders) == 2 and all(orders.values()):
                both += 1
                same += (orders[0] > 0) == (orders[1] > 0)
    return Share(same, both)
