"""The records that the modules of the GenRM server exchange.

Indices a group's members are numbered from 0; `response_i` and `response_j` of a comparison are member numbers in the
        order in which the judge saw them.
Ranges  scores 1 to 5, ranking 1 (the first is much better) to 6 (the second is); source: NVIDIA's GenRM judges.
"""

from typing import NamedTuple

from pydantic import Field

from paddock.types import Json, JsonObject, Record

LOWEST_SCORE, HIGHEST_SCORE = 1.0, 5.0
LOWEST_RANKING, HIGHEST_RANKING = 1.0, 6.0


class JudgeScores(Record):
    """The scores and the ranking of one answer of a judge."""

    score_1: float = Field(ge=LOWEST_SCORE, le=HIGHEST_SCORE)
    """Of the response that it saw first."""
    score_2: float = Field(ge=LOWEST_SCORE, le=HIGHEST_SCORE)
    ranking: float = Field(ge=LOWEST_RANKING, le=HIGHEST_RANKING)
    missing: tuple[str, ...] = ()
    """Names of those that the answer did not state, which have their defaults."""


class PairComparison(Record):
    """One answer of a judge about two members: an entry of `comparison_results`."""

    response_i: int
    """Member that the judge saw as `response_1`."""
    response_j: int
    """Member that it saw as `response_2`."""
    judge_idx: int = 0
    """Which of the answers on this pair; of several judges, the index of the one that gave it is this modulo their
    number (`groups.plan`)."""
    score_1: float
    score_2: float
    ranking: float
    missing: tuple[str, ...] = ()
    """As in `JudgeScores`."""


class MemberPair(NamedTuple):
    """Members to compare, in the order in which the judge is to see them."""

    first: int
    second: int


class ResponseTraits(Record):
    """Lengths and formatting of a response, which move its reward besides the judge's scores."""

    answer_chars: int = Field(ge=0)
    """Characters of its messages' texts."""
    reasoning_chars: int = Field(ge=0)
    """Characters of its reasoning."""
    style_density: float = Field(ge=0)
    """Marks (headers, list items, bold, emoji) per character of the messages' texts without code fences; 0 of none."""


class Candidate(Record):
    """A response as it is judged."""

    text: str
    """What the judge is shown: messages and calls, no reasoning."""
    traits: ResponseTraits


class GroupRewards(NamedTuple):
    """A group's rewards, by member number, and what they are made of: the components of a member sum to its reward."""

    rewards: dict[int, float]
    components: dict[int, dict[str, float]]
    """`judge`, and where they apply `reasoning_bonus`, `answer_bonus`, `reasoning_length`, `answer_length`, `style`."""
    tiebreaks: int = 0
    """Comparisons whose ranking was used because their scores were equal."""


def on_wire(comparison: PairComparison) -> JsonObject:
    """Make an entry of `comparison_results`."""
    wire: dict[str, Json] = comparison.model_dump(exclude={"missing"})
    return {**wire, "missing": list(comparison.missing)} if comparison.missing else wire
