"""What of a row and of a response the judge is asked about.

Row     `expected_answer`, or the one in `metadata`; `question`, else the text of the prompt's last user message.
Answer  the last assistant message with text; of it, what follows the last `</think>`. A thought that does not end is no
        answer.
"""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator

from paddock.types import JsonObject, Row
from paddock.types.responses import content_text, final_text


class JudgedTask(BaseModel):
    """Question and answer; every other key of the row is kept and not read."""

    model_config = ConfigDict(frozen=True)

    expected_answer: str | int | float | None = None
    """A right answer; None: it is in `metadata`."""
    question: str | None = None
    """What was asked; None: it is read from the prompt."""
    metadata: dict[str, Any] | None = None
    """Its `expected_answer` is read where the row itself has none."""

    @model_validator(mode="after")
    def _has_answer(self) -> Self:
        if not self.expected:
            raise ValueError("expected_answer: needs a text or a number")
        return self

    @property
    def expected(self) -> str:
        """The expected answer as text, without space around it."""
        given = self.expected_answer
        if given is None or given == "":
            given = (self.metadata or {}).get("expected_answer")
        return str(given).strip() if isinstance(given, str | int | float) else ""


def question_of(task: JudgedTask, row: Row) -> str:
    """Return the row's question; empty: it has none."""
    if task.question:
        return task.question
    given = row.responses_create_params.get("input")
    if isinstance(given, str):
        return given
    items = given if isinstance(given, list) else []
    texts = [
        content_text(item.get("content")) for item in items if isinstance(item, dict) and item.get("role") == "user"
    ]
    return texts[-1] if texts else ""


def answer_of(response: JsonObject) -> str:
    """Return a response's answer; empty: it has none."""
    return (final_text(response) or "").strip()
