"""Which candidates become rows: those where the policy's answers differ in reward.

Law     of a row with K rewards: kept where their mean lies within the bounds and their standard deviation is at least
        the least spread. `incomplete`: fewer than K verdicts; `too_easy`, `too_hard`, `alike`: by which bound it fails.
Units   rewards as the resources server gave them; the deviation is of the population.
"""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

Choice = Literal["pivot", "incomplete", "too_easy", "too_hard", "alike", "over_the_limit"]


class SelectionOptions(BaseModel):
    """The bounds between which a candidate is a pivot."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    samples: int = Field(default=8, ge=2)
    """Answers of the policy per candidate."""
    min_mean: float = Field(default=0.1, ge=0, le=1)
    """The least mean reward of a pivot."""
    max_mean: float = Field(default=0.9, ge=0, le=1)
    """The greatest mean reward of a pivot."""
    min_spread: float = Field(default=0.2, ge=0, le=1)
    """The least standard deviation of a pivot's rewards."""
    max_rows_per_trajectory: int = Field(default=8, ge=1)
    """Pivots of one trajectory; those with the widest spread are taken."""

    @model_validator(mode="after")
    def _ordered(self) -> "SelectionOptions":
        if self.min_mean > self.max_mean:
            raise ValueError(f"min_mean {self.min_mean:g} is above max_mean {self.max_mean:g}")
        return self


class SampledCandidate(NamedTuple):
    """A candidate and the rewards of the policy's answers."""

    uuid: str
    trajectory: str
    rewards: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.rewards) if self.rewards else 0.0

    @property
    def spread(self) -> float:
        return statistics.pstdev(self.rewards) if self.rewards else 0.0


def choose(candidates: Sequence[SampledCandidate], options: SelectionOptions) -> dict[str, Choice]:
    """Return what becomes of each candidate, by its uuid."""
    choices: dict[str, Choice] = {candidate.uuid: _choice(candidate, options) for candidate in candidates}
    taken: Counter[str] = Counter()
    for candidate in sorted(candidates, key=lambda one: (-one.spread, one.uuid)):
        if choices[candidate.uuid] != "pivot":
            continue
        taken[candidate.trajectory] += 1
        if taken[candidate.trajectory] > options.max_rows_per_trajectory:
            choices[candidate.uuid] = "over_the_limit"
    return choices


def _choice(candidate: SampledCandidate, options: SelectionOptions) -> Choice:
    if len(candidate.rewards) < options.samples:
        return "incomplete"
    if candidate.mean > options.max_mean:
        return "too_easy"
    if candidate.mean < options.min_mean:
        return "too_hard"
    return "pivot" if candidate.spread >= options.min_spread else "alike"


def counts_by(choices: Mapping[str, Choice], keys: Mapping[str, str]) -> dict[str, Counter[Choice]]:
    """Count the choices by a key of the candidates, as their tool or repository; `keys`: uuid to it."""
    counts: dict[str, Counter[Choice]] = {}
    for uuid, choice in choices.items():
        counts.setdefault(keys.get(uuid, ""), Counter())[choice] += 1
    return counts
