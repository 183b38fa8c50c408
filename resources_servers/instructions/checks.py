"""What the checks of all kinds of instructions share: their form, and texts, counts and blocks as they read them."""

from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

import regex
from pydantic import AfterValidator, BaseModel, ConfigDict

Relation = Literal["less than", "at least"]


def _has_text(value: str) -> str:
    if not value.strip():
        raise ValueError("needs a text, which is more than blanks")
    return value


Text = Annotated[str, AfterValidator(_has_text)]
"""Blanks are found in any answer, or in none."""


class Arguments(BaseModel):
    """Arguments of one instruction; those that its kind does not know are not read."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class InstructionKind(NamedTuple):
    """One kind: the model of its arguments, and its check."""

    arguments: type[Arguments]
    follows: Callable[[str, Any], bool]


def holds(count: int, relation: Relation, threshold: int) -> bool:
    return count < threshold if relation == "less than" else count >= threshold


@lru_cache(maxsize=4096)
def literal(text: str, *, whole: bool = False) -> Any:
    """The pattern of a text, in capitals or not; `whole`: not within a longer word."""
    pattern = regex.escape(text, special_only=True)
    return regex.compile(rf"(?<!\w){pattern}(?!\w)" if whole else pattern, regex.IGNORECASE)


def blocks(text: str, divider: str) -> list[str]:
    """The blocks of a text between dividers, which may stand at its ends too; none where two have nothing between."""
    parts = [part.strip() for part in text.split(divider)]
    return [part for part in parts if part] if all(parts[1:-1]) else []
