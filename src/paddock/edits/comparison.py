"""The result of comparing edits: whether they are the same, by which rule, and in words.

Same     `equal_text`: the files end up with equal texts. `equal_edits`: the edits are equal as given. `contained`: one
         edit's old text contains the other's, and on it both do the same. `shared_context`: the same lines become the
         same lines, between context that agrees where both show it.
Differs  `files`, `kind`, `text`, `context` name what differs; `expected_fails`, `actual_fails` and `both_fail` say that
         an edit cannot be made on the known files.
Newline  texts are compared up to one final newline, and to nothing else: indentation and "\\r\\n" matter.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

Reason = Literal[
    "equal_text",
    "equal_edits",
    "contained",
    "shared_context",
    "files",
    "kind",
    "text",
    "context",
    "expected_fails",
    "actual_fails",
    "both_fail",
]


class EffectComparison(NamedTuple):
    """`detail` is a sentence for a reader; "" where there is nothing to add."""

    same: bool
    reason: Reason
    detail: str = ""


def same_by(reason: Reason) -> EffectComparison:
    return EffectComparison(same=True, reason=reason)


def differs(reason: Reason, detail: str) -> EffectComparison:
    return EffectComparison(same=False, reason=reason, detail=detail)


def same_text(left: str, right: str) -> bool:
    return left == right or left.removesuffix("\n") == right.removesuffix("\n")


_STRENGTH: tuple[Reason, ...] = ("equal_text", "equal_edits", "contained", "shared_context")


def weakest(comparisons: Iterable[EffectComparison]) -> EffectComparison:
    """The first comparison that is not the same; else the one by the weakest rule; of none, that the edits are
    equal."""
    result = same_by("equal_edits")
    for index, comparison in enumerate(comparisons):
        if not comparison.same:
            return comparison
        if not index or _STRENGTH.index(comparison.reason) > _STRENGTH.index(result.reason):
            result = comparison
    return result
