"""What a report says.

Verdict `exact`: one sample holds all that was sampled; `split`: several do, each exact; `differs`: so, but a prompt was
        not what the template itself writes; `masked`: some of it is trained on in none, or is not what the engine
        sampled; `failed`: the run did not get to its end; `refused`: it did not because the server or the template
        refused a request, which says nothing of tokens.
Units   tokens; characters; shares from 0 to 1.
"""

from collections.abc import Iterable
from typing import Literal

from paddock.tokens import PromptTraits
from paddock.types import Record

Verdict = Literal["exact", "refused", "split", "differs", "masked", "failed"]
VERDICTS: tuple[Verdict, ...] = ("exact", "refused", "split", "differs", "masked", "failed")
"""From the best to the worst; whatever was found inexact shows before what could not be tried."""


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of the verdicts; `exact` where there are none."""
    return max(verdicts, key=VERDICTS.index, default="exact")


class Figures(Record):
    """Figures of one run: its record beside the engine's own log."""

    verdict: Verdict
    calls: int
    """Answers that the engine sampled to their end."""
    continuing: int
    """Calls whose prompt starts with all ids of the call before."""
    branches: int
    """Ends of the record's tree."""
    samples: int
    """Number of samples in mode `branch`."""
    sampled_tokens: int
    """Tokens that the engine sampled, by its log."""
    dropped_tokens: int
    """Sampled tokens that no sample of mode `branch` trains on."""
    dropped_whole_tokens: int
    """Sampled tokens that the sample of mode `whole` does not train on."""
    unproven_tokens: int
    """Tokens that samples train on and that the engine's log does not have at their place."""
    sample_tokens: int
    """Tokens of all samples of mode `branch`."""
    distinct_tokens: int
    """Tokens of these samples, each counted once with all that stands before it."""
    tokenised_chars: int
    """Characters that the server tokenised."""
    final_chars: int
    """Characters of the last call's prompt and answer."""

    @property
    def append_only(self) -> float:
        """Share of calls after the first."""
        return self.continuing / (self.calls - 1) if self.calls > 1 else 1.0

    @property
    def forks(self) -> int:
        return max(0, self.branches - 1)

    @property
    def prefix_factor(self) -> float:
        """How many samples a token is in, on average."""
        return self.sample_tokens / self.distinct_tokens if self.distinct_tokens else 0.0

    @property
    def tokenising(self) -> float:
        """What was tokenised, by the length of the final conversation."""
        return self.tokenised_chars / self.final_chars if self.final_chars else 0.0


class ScenarioResult(Record):
    """What came of one scenario."""

    scenario: str
    requests: int
    """That the client made."""
    branches_by_design: int
    """Conversations that the client itself starts beside the first."""
    problem: str | None = None
    """What ended it too early."""
    refused: bool = False
    """The problem is a refusal: of the server, or of the template."""
    differences: list[str] = []
    """How its prompts differ from the template's own, in words."""
    figures: Figures

    @property
    def verdict(self) -> Verdict:
        if self.problem:
            return "refused" if self.refused else "failed"
        return worst([self.figures.verdict, "differs" if self.differences else "exact"])

    @property
    def verdict_in_combination(self) -> Verdict:
        """What it counts as in its combination: several samples are as good as one where the client meant them."""
        meant = self.verdict == "split" and self.figures.forks <= self.branches_by_design
        return "exact" if meant else self.verdict


class Combination(Record):
    """A harness in a dialect, over a template."""

    subject: str
    """`harness:NAME`, `program:NAME`: run for real; `client:NAME`: a model of how a program sends history back."""
    dialect: str
    template: str
    runs: list[ScenarioResult]

    @property
    def verdict(self) -> Verdict:
        return worst(run.verdict_in_combination for run in self.runs)

    @property
    def worse(self) -> list[ScenarioResult]:
        """Runs that are not as good as they could be."""
        return [run for run in self.runs if run.verdict_in_combination != "exact"]

    @property
    def total(self) -> Figures:
        """Figures of its runs together, without those that branch by design where there are others."""
        plain = [run.figures for run in self.runs if not run.branches_by_design]
        counted = plain or [run.figures for run in self.runs]
        sums = {
            name: sum(getattr(figures, name) for figures in counted)
            for name in Figures.model_fields
            if name != "verdict"
        }
        sums["calls"] -= len(counted) - 1  # only the first call of each run continues none
        sums["branches"] -= len(counted) - 1
        return Figures(verdict=self.verdict, **sums)


class TemplateTraits(Record):
    """What a template does to the past."""

    template: str
    traits: PromptTraits


class FidelityReport(Record):
    """All combinations that were tried."""

    combinations: list[Combination]
    templates: list[TemplateTraits]
    skipped: dict[str, str] = {}
    """Programs that are not here, and why they can't be tried."""
    wall_s: float

    @property
    def refused(self) -> bool:
        """Nothing was measured: each run was refused."""
        return all(run.verdict == "refused" for combination in self.combinations for run in combination.runs)

    def worse_than(self, required: Verdict) -> list[Combination]:
        """Combinations with a worse verdict; a refusal says nothing of tokens."""
        measured = [item for item in self.combinations if item.verdict != "refused"]
        return [item for item in measured if VERDICTS.index(item.verdict) > VERDICTS.index(required)]
