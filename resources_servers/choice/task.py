"""A multiple-choice row: its options, the letter of the right one, and the rule by which an answer is read.

Row     the fields of NeMo-Gym's `mcqa`: `options` (a list of objects, letter to text), `expected_answer` (a letter),
        `grading_mode`, `template_metadata.output_regex` (a pattern or a list of them, tried before the mode).
Errors  ValueError where no answer could be right: no options and no pattern, a right letter that is no option.
"""

from functools import cached_property
from typing import Literal, Self

import regex
from pydantic import BaseModel, ConfigDict, Field, model_validator

GradingMode = Literal["strict_single_letter_boxed", "lenient_boxed", "lenient_answer_colon", "lenient_answer_colon_md"]
PATTERN_FLAGS = regex.IGNORECASE
"""Of the patterns that come with a row."""


class TemplateMetadata(BaseModel):
    """How the row's prompt asked for the answer; keys beside the pattern are not read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    output_regex: str | list[str] | None = None


class ChoiceTask(BaseModel):
    """The keys of a row that are read; `metadata` and all others are not."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    expected_answer: str = Field(min_length=1)
    options: list[dict[str, str | None]] | None = None
    grading_mode: GradingMode = "strict_single_letter_boxed"
    template_metadata: TemplateMetadata | None = None

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        if len(self.right) != 1 or not self.right.isalpha():
            raise ValueError(f"expected_answer: {self.expected_answer[:40]!r} is not one letter")
        if self.texts and self.right not in self.texts:
            raise ValueError(f"expected_answer: {self.right} is none of the options {', '.join(sorted(self.texts))}")
        if not self.texts and not self.patterns:
            raise ValueError("options: there are none, and no template_metadata.output_regex")
        return self

    @property
    def right(self) -> str:
        return self.expected_answer.strip().upper()

    @cached_property
    def texts(self) -> dict[str, list[str]]:
        """The texts of each letter, upper case; options without a text and keys that are no letter are left out."""
        found: dict[str, list[str]] = {}
        for option in self.options or ():
            for key, text in option.items():
                if len(key) == 1 and key.isalpha() and text is not None:
                    found.setdefault(key.upper(), []).append(text)
        return found

    @cached_property
    def patterns(self) -> list[str]:
        given = self.template_metadata.output_regex if self.template_metadata else None
        return [given] if isinstance(given, str) else given or []
