"""What of the semantic comparator may be set. Every knob says its unit; the defaults are strict.

Shapes  lines count from 1 and ranges include both ends.
Errors  an unknown key or a value out of range is pydantic's ValidationError.
"""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class PartialCredit(BaseModel):
    """What an expected call is worth of which only a part came, by the rung that this reaches (`ladder`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: float = Field(default=0.05, ge=0, lt=1)
    """The right kind of action: a view, a search, a change of files, a run of tests, the same program."""
    target: float = Field(default=0.2, ge=0, lt=1)
    """Moreover the right target: the file, the pattern, the tests."""
    content: float = Field(default=0.5, ge=0, lt=1)
    """Moreover the right content, shown otherwise or under a limit that may cut it."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.kind <= self.target <= self.content:
            raise ValueError(
                f"kind {self.kind:g}, target {self.target:g}, content {self.content:g}: no rung may be worth less than "
                "the one below it"
            )
        return self

    def value(self, rung: Literal["kind", "target", "content"]) -> float:
        values: dict[str, float] = {"kind": self.kind, "target": self.target, "content": self.content}
        return values[rung]


class SemanticOptions(BaseModel):
    """How much two equivalent actions may differ."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cwd: str | None = None
    """Absolute directory in which the tools run where neither the row's `cwd` nor its history says it. None: unknown,
    and then a relative and an absolute path are never the same."""
    read_min_coverage: float = Field(default=1.0, gt=0, le=1)
    """Share of the lines the expert read that a read must show."""
    read_max_ratio: float = Field(default=1.5, ge=1)
    """How many times as many lines as the expert a read may show."""
    read_extra_lines: int = Field(default=10, ge=0)
    """Lines more than the expert that a read may always show."""
    read_whole_file_ok: bool = False
    """True: a read of the whole file stands for a read of any of its lines. False: it does as any other read of as many
    lines, where the history shows how many the file has."""
    edit_looks_count: bool = False
    """True: comments, formatting and quotes in Python, and blanks at the ends of lines, must be as the expert's edit
    leaves them. False: they are looks, save where the expert's edit changes nothing else."""
    search_wider_levels: int = Field(default=1, ge=0)
    """How many directories above the expert's a search may start, but never at `/`. 0: exactly there."""
    text_shared_words: int = Field(default=2, ge=0)
    """Words of content of the expert's message, last words or thought that the policy's must share; where the expert
    has fewer than twice as many, half of them. 0: any text with a word or a symbol passes, whatever it says."""
    text_shared_terms: float = Field(default=0.5, ge=0, le=1)
    """Share of the terms (paths, identifiers, numbers, words in backticks) of the expert's message, last words,
    question or thought that the policy's must mention, rounded up, and two where there are two; of a question those of
    the sentences that ask. 0: none."""
    multiple_calls: Literal["guess_proof", "f1"] = "guess_proof"
    """How several calls are paid. `guess_proof`: the matched calls over the greater number of both sides, or by
    `surplus_look_cost`; no set of guesses gains over its best one. `f1`: twice the matched calls over those of both
    sides, whatever the others are unless they destroy; it pays a second guess that is more than half as likely."""
    surplus_look_cost: float = Field(default=0.1, gt=0, le=1)
    """What each look beside an expected change costs of the reward, down to the share that the calls have; by
    `guess_proof` only."""
    partial_credit: PartialCredit | None = None
    """What an action that only comes near earns, where no more calls came than expected. None: nothing; `{}`: the
    values of the ladder that are its defaults."""
    max_calls: int = Field(default=32, ge=1)
    """Calls in one response that are judged; a response with more scores 0, unless the expert made as many."""

    @model_validator(mode="after")
    def _credit_without_guesses(self) -> Self:
        if self.partial_credit is not None and self.multiple_calls == "f1":
            raise ValueError("partial_credit: needs `multiple_calls: guess_proof`, since `f1` pays guesses")
        return self
