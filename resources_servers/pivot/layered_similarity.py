"""How alike two texts are, from 0 to 1: twice the matching characters over all characters, as difflib counts them.

Law     where it is at least `floor`, the ratio of `SequenceMatcher(None, expected, actual, autojunk=False)`, exactly;
        else a number below `floor` and not below the ratio. Text and no text are 0.0 alike.
Apart   difflib's default takes characters that are frequent in a text of 200 or more for junk, so that a small change
        in a long text can read as a large one; NeMo-Gym's likeness is of that kind.
Cost    bounds by length and by letters are tried first, and the alignment ends once it cannot reach `floor`. It is
        linear in each stretch that it aligns; after `MAX_STEPS` characters of work, what is not aligned counts as
        different.
"""

from collections import Counter
from typing import NamedTuple

MAX_STEPS = 1_000_000
"""About two seconds; texts of 64 kB that differ in a hundred places take a third of it."""


def similarity(expected: str, actual: str, floor: float = 0.0) -> float:
    """Return the ratio, or where it is below `floor` a bound of it that is below too."""
    if expected == actual:
        return 1.0
    if not expected or not actual:
        return 0.0
    total = len(expected) + len(actual)
    bound = _ratio(min(len(expected), len(actual)), total)
    if bound >= floor:
        bound = _ratio((Counter(expected) & Counter(actual)).total(), total)
    return bound if bound < floor else _aligned_ratio(expected, actual, floor)


def _ratio(matching: int, total: int) -> float:
    return 2.0 * matching / total


class _Stretch(NamedTuple):
    """Parts of both texts that are still to be aligned, as slices."""

    left: int
    left_end: int
    right: int
    right_end: int

    @property
    def most(self) -> int:
        """The number of characters that may match."""
        return min(self.left_end - self.left, self.right_end - self.right)


def _aligned_ratio(expected: str, actual: str, floor: float) -> float:
    total = len(expected) + len(actual)
    pending = [_Stretch(0, len(expected), 0, len(actual))]
    matching, possible, steps = 0, pending[0].most, MAX_STEPS
    while pending and steps > 0 and _ratio(matching + possible, total) >= floor:
        here = pending.pop()
        possible -= here.most
        steps -= here.left_end - here.left + here.right_end - here.right
        left, right, size = _longest_block(expected, actual, here)
        if not size:
            continue
        matching += size
        for rest in (
            _Stretch(here.left, left, here.right, right),
            _Stretch(left + size, here.left_end, right + size, here.right_end),
        ):
            if rest.most > 0:
                pending.append(rest)
                possible += rest.most
    return _ratio(matching + (possible if steps > 0 else 0), total)


def _longest_block(expected: str, actual: str, within: _Stretch) -> tuple[int, int, int]:
    """Find the longest common block, its start in both and its length: the first in `expected`, then in `actual`.

    By the suffix automaton of the right stretch: `follow` and `link` are its transitions and suffix links, `length`
    each state's longest text, `first_end` where that text first ends.
    """
    follow: list[dict[str, int]] = [{}]
    link, length, first_end = [-1], [0], [within.right]
    last = 0
    for at in range(within.right, within.right_end):
        char = actual[at]
        new = len(follow)
        follow.append({})
        link.append(0)
        length.append(length[last] + 1)
        first_end.append(at + 1)
        state = last
        while state >= 0 and char not in follow[state]:
            follow[state][char] = new
            state = link[state]
        if state >= 0:
            link[new] = _suffix_of(state, char, follow, link, length, first_end)
        last = new
    state = matched = 0
    best = (within.left, within.right, 0)
    for at in range(within.left, within.left_end):
        char = expected[at]
        while state and char not in follow[state]:
            state = link[state]
            matched = length[state]
        if char in follow[state]:
            state = follow[state][char]
            matched += 1
            if matched > best[2]:
                best = (at + 1 - matched, first_end[state] - matched, matched)
    return best


def _suffix_of(
    state: int, char: str, follow: list[dict[str, int]], link: list[int], length: list[int], first_end: list[int]
) -> int:
    """The state of `state`'s text and `char`, split off from one of longer texts where it must be."""
    target = follow[state][char]
    if length[target] == length[state] + 1:
        return target
    clone = len(follow)
    follow.append(dict(follow[target]))
    link.append(link[target])
    length.append(length[state] + 1)
    first_end.append(first_end[target])
    link[target] = clone
    while state >= 0 and follow[state].get(char) == target:
        follow[state][char] = clone
        state = link[state]
    return clone
