"""Whether a figure holds its bound, by its values in the rounds of one run, each against the floor of its round.

Met     the middle half of the rounds holds the bound; missed: none of it does; noisy: it is on both sides, so the
        machine was too busy, or the bound too near, for this run to tell.
"""

from collections.abc import Sequence
from statistics import quantiles
from typing import Any, NamedTuple


class FigureBound(NamedTuple):
    """What a figure may be."""

    figure: str
    limit: float
    is_least: bool = False
    """The figure may be no smaller; else no larger."""

    def check(self, rounds: Sequence[float]) -> dict[str, Any]:
        """One line of a report. `rounds`: two at least."""
        low, middle, high = quantiles(rounds, n=4, method="inclusive")
        holds = [value >= self.limit if self.is_least else value <= self.limit for value in (low, high)]
        return {
            "figure": self.figure,
            "value": middle,
            "at_least" if self.is_least else "at_most": self.limit,
            "p25": low,
            "p75": high,
            "bound": "met" if all(holds) else "noisy" if any(holds) else "missed",
        }
