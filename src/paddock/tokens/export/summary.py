"""What became of many rollouts' turns, in counts.

Units   tokens; a rollout that is left out for its outcome counts as a rollout and by that outcome, and in nothing else.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from paddock.tokens.export.records import Reason
from paddock.tokens.export.sample_plan import SamplePlan
from paddock.types import REWARDED, Outcome


@dataclass
class Summary:
    rollouts: int = 0
    samples: int = 0
    tokens: int = 0
    """Of all samples."""
    distinct_tokens: int = 0
    """Of the turns that samples are made of, each counted once."""
    trained_tokens: int = 0
    cut: int = 0
    """Rollouts that a budget ended."""
    without_sample: int = 0
    """Rollouts with nothing to train on, those of `outcomes` not counted."""
    skipped: Counter[Reason] = field(default_factory=Counter)
    """Turns that are not trained on."""
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    """Rollouts without a reward."""

    def left_out(self, outcome: Outcome) -> None:
        """Count a rollout of which nothing is written."""
        self.rollouts += 1
        self.outcomes[outcome] += 1

    def add(self, outcome: Outcome, plan: SamplePlan) -> None:
        """Count a rollout of which all samples are written."""
        self.rollouts += 1
        if outcome not in REWARDED:
            self.outcomes[outcome] += 1
        self.samples += len(plan.planned)
        self.without_sample += not plan.planned
        self.tokens += plan.tokens
        self.distinct_tokens += plan.distinct_tokens
        self.trained_tokens += plan.trained_tokens
        self.skipped.update(turn.reason for turn in plan.skipped)
        self.cut += outcome == "truncated" or any(
            plan.exact.placed[sample.leaf].finish_reason == "length" for sample in plan.planned
        )

    @property
    def prefix_factor(self) -> float:
        """How many samples a token is in, on average; 1: no prefix is there twice. 0: there are no samples."""
        return self.tokens / self.distinct_tokens if self.distinct_tokens else 0.0

    def lines(self) -> Iterator[str]:
        """For a reader."""
        yield (
            f"{self.rollouts} rollouts, {self.samples} samples, {self.tokens} tokens, "
            f"{self.trained_tokens} of them trained on"
        )
        if self.samples:
            yield f"each token is in {self.prefix_factor:.2f} samples; {self.cut} rollouts cut by a budget"
        if self.skipped:
            yield f"{self.skipped.total()} turns not trained on: {_counts(self.skipped)}"
        if self.without_sample:
            yield f"{self.without_sample} rollouts without a sample"
        if self.outcomes.total():
            yield f"{self.outcomes.total()} rollouts without a reward: {_counts(self.outcomes)}"


def _counts(counter: Counter[Reason] | Counter[Outcome]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counter.most_common() if count)
