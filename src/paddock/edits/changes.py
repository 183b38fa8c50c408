"""Replacements and hunks in one form, compared where the file's text is not known.

Rules    `contained`: one's old text contains the other's, in one place, and the other made there gives the one's new
         text. `shared_context`: the same lines become the same lines, the text around agrees as far as both show it,
         and what both show of it is not blank.
Sound    `contained` holds on every file where both can be made, since the smaller old text stands nowhere else, unless
         there it overlaps itself; of a hunk that is assumed, and that a replacement around it begins and ends at line
         ends. `shared_context` holds where what both show stands once. Neither is complete: a change they do not
         recognise is not the same.
Anchors  two hunks with anchors must have the same, or one's must be a line of the other's old text.
Others   a `replace_all` is the same only as an equal one, and so is a hunk that adds to the end of the file.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from paddock.edits.comparison import EffectComparison, differs, same_by
from paddock.edits.model import Hunk, Replace, split_lines

_ALIGNED_LINES = 400
"""Above this number of lines all between the common head and tail is one core, unaligned."""
_ALIGNED_PAIRS = 30_000
"""So it is where pairs of equal lines, times the lines, are more: each alignment may look at all of them."""

_EQUAL = same_by("equal_edits")
_CONTAINED = same_by("contained")
_SHARED = same_by("shared_context")
_TEXT = differs("text", "another text is replaced, or by another text")
_CONTEXT = differs("context", "nothing shows that it is the same place")


class TextChange(NamedTuple):
    """One replacement or one hunk."""

    old: str
    new: str
    whole_lines: bool = False
    """True: a hunk. Its old lines are whole lines, and both texts begin with the newline before them."""
    replace_all: bool = False
    anchor: str | None = None

    @property
    def is_addition(self) -> bool:
        """True: a hunk without old lines; `structure` makes those of a diff into inserts."""
        return self.whole_lines and self.old == "\n"


class Core(NamedTuple):
    """Lines that become other lines, with the old text around them that the change shows."""

    before: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    after: str


def of_replace(edit: Replace) -> TextChange:
    return TextChange(edit.old, edit.new, replace_all=edit.replace_all)


def of_hunk(hunk: Hunk) -> TextChange:
    return TextChange(_whole_lines(hunk.old), _whole_lines(hunk.new), whole_lines=True, anchor=hunk.anchor)


def _whole_lines(lines: Sequence[str]) -> str:
    return "\n" + "".join(line + "\n" for line in lines)


def same_change(
    expected: TextChange, actual: TextChange, cores: Callable[[TextChange], tuple[Core, ...]] | None = None
) -> EffectComparison:
    """Compare two changes. `cores`: remembers those of changes that are compared with several; None: nothing does."""
    if expected == actual:
        return _EQUAL
    if expected.replace_all or actual.replace_all:
        return _TEXT
    if expected.is_addition or actual.is_addition:
        both = expected.is_addition and actual.is_addition and expected.new == actual.new
        return _EQUAL if both else _TEXT
    if not anchors_agree(expected, actual):
        return _CONTEXT
    if is_contained(actual, expected) or is_contained(expected, actual):
        return _CONTAINED
    return same_cores([expected], [actual], cores)


def is_contained(small: TextChange, big: TextChange) -> bool:
    """True when the small change, made on the big one's old text, gives its new text."""
    return apply_to(small, big) == (_padded(big.new) if _pads(small, big) else big.new)


def apply_to(small: TextChange, big: TextChange) -> str | None:
    """The big change's old text after the small change; None when there is not one place for it."""
    text = _padded(big.old) if _pads(small, big) else big.old
    if small.whole_lines and not re.search(r"\w", small.old):
        return None
    at = text.find(small.old)
    if not small.old or at < 0 or text.find(small.old, at + 1) >= 0:
        return None
    return text[:at] + small.new + text[at + len(small.old) :]


def as_whole_lines(change: TextChange) -> TextChange:
    """A replacement as if its texts were whole lines."""
    return change._replace(old=_padded(change.old), new=_padded(change.new), whole_lines=True)


def _pads(small: TextChange, big: TextChange) -> bool:
    return small.whole_lines and not big.whole_lines


def _padded(text: str) -> str:
    """The text as if whole lines were around it, so that a hunk's lines can be found at its ends."""
    return f"\n{text}\n"


def anchors_agree(left: TextChange, right: TextChange) -> bool:
    if left.anchor is None or right.anchor is None:
        return True
    mine, others = left.anchor.strip(), right.anchor.strip()
    return mine == others or mine in _stripped(right.old) or others in _stripped(left.old)


def _stripped(text: str) -> set[str]:
    return {line.strip() for line in text.split("\n")}


def same_cores(
    expected: Sequence[TextChange],
    actual: Sequence[TextChange],
    cores: Callable[[TextChange], tuple[Core, ...]] | None = None,
) -> EffectComparison:
    """By `shared_context`, core by core, however the cores are spread over the changes."""
    if any(change.replace_all for change in [*expected, *actual]):
        return _TEXT
    pairs = [
        [(change, core) for change in changes for core in (cores or cores_of)(change)] for changes in (expected, actual)
    ]
    if not pairs[0] or [core[1:3] for _, core in pairs[0]] != [core[1:3] for _, core in pairs[1]]:
        return _TEXT
    for (mine, our_core), (others, their_core) in zip(*pairs, strict=True):
        if not (anchors_agree(mine, others) and _share_context(our_core, their_core)):
            return _CONTEXT
    return _SHARED


def _share_context(left: Core, right: Core) -> bool:
    before = min(left.before, right.before, key=len)
    after = min(left.after, right.after, key=len)
    agree = left.before.endswith(before) and right.before.endswith(before)
    agree = agree and left.after.startswith(after) and right.after.startswith(after)
    return agree and bool(before.strip() or after.strip())


def cores_of(change: TextChange) -> tuple[Core, ...]:
    return tuple(_cores(change))


def _cores(change: TextChange) -> Iterator[Core]:
    closed = change.whole_lines or (change.old.endswith("\n") and (not change.new or change.new.endswith("\n")))
    split = split_lines if closed else _open_lines
    lead = "\n" if change.whole_lines else ""
    old, new = split(change.old.removeprefix(lead)), split(change.new.removeprefix(lead))
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    before, after = old[:head], old[len(old) - tail :] + [""] * closed
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    for start, end, replacement in _differences(old, new):
        yield Core(
            lead + "".join(line + "\n" for line in before + old[:start]),
            tuple(old[start:end]),
            tuple(replacement),
            "\n".join(old[end:] + after),
        )


def _open_lines(text: str) -> list[str]:
    """Lines of a text that may stop within the last one."""
    return text.split("\n")


def _common(left: Sequence[str], right: Sequence[str]) -> int:
    """How many items at the beginning are equal."""
    for count, (mine, others) in enumerate(zip(left, right, strict=False)):
        if mine != others:
            return count
    return min(len(left), len(right))


class _Difference(NamedTuple):
    start: int
    end: int
    new: list[str]


def _differences(old: list[str], new: list[str]) -> Iterator[_Difference]:
    if not old or not new or len(old) + len(new) > _ALIGNED_LINES:
        if old or new:
            yield _Difference(0, len(old), new)
        return
    counts = Counter(new)
    if sum(counts[line] for line in old) * min(len(old), len(new)) > _ALIGNED_PAIRS:
        yield _Difference(0, len(old), new)
        return
    for tag, start, end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield _Difference(start, end, new[new_start:new_end])
