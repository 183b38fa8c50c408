"""The request and reply of `/score_step`: the votes of a judge on one step of a rollout.

Shapes  a step is a list of Responses API items: the model's output, then the results of its calls.
Law     a vote is 1 (the step helps), -1 (it does not) or None (missing); the score is the mean of the votes that are
        there, None where none is.
"""

from math import fsum
from typing import Literal, Self

from pydantic import Field, model_validator

from paddock.types import JsonObject, Record
from paddock.types.records import Finite


class StepRequest(Record):
    """One step to judge."""

    step_id: str
    """The caller's own name for the step; the reply has it too."""
    problem: str
    """What the rollout is asked to do."""
    history: list[list[JsonObject]] = []
    """The steps before, oldest first; the judge sees the last of them, as many as the server is set to."""
    step: list[JsonObject]
    seed: int = Field(default=0, ge=0)
    """Seed of the votes: vote k, from 0, is sampled with `seed * 1000 + k`."""


class StepScore(Record):
    """The judge's votes on a step, and their mean."""

    step_id: str
    score: Finite | None
    votes: list[Literal[-1, 1] | None]
    reasons: list[str | None] = []
    """Why a vote is missing, for each; None for one that is there."""

    @classmethod
    def of(cls, step_id: str, votes: list[Literal[-1, 1] | None], reasons: list[str | None]) -> Self:
        return cls(step_id=step_id, score=_mean(votes), votes=votes, reasons=reasons)

    @model_validator(mode="after")
    def _mean_of_votes(self) -> Self:
        mean = _mean(self.votes)
        if (mean is None) != (self.score is None) or abs((self.score or 0.0) - (mean or 0.0)) > 1e-9:
            raise ValueError(f"score {self.score!r}, but the mean of the votes {self.votes} is {mean!r}")
        if self.reasons and len(self.reasons) != len(self.votes):
            raise ValueError(f"{len(self.reasons)} reasons for {len(self.votes)} votes")
        return self


def _mean(votes: list[Literal[-1, 1] | None]) -> float | None:
    present = [vote for vote in votes if vote is not None]
    return fsum(present) / len(present) if present else None
