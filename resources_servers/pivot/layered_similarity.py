"""How alike two texts are, from 0 to 1: twice the matching characters over all characters, as difflib counts them.

Law     equal texts are 1.0 alike; text and no text are 0.0 alike. What is alike at both ends is counted first, so a
        small change in a long text never reads as a large one.
Cost    only the first `MAX_CHARS` of each text are aligned; beyond that, lengths bound the result. Bounds are tried
        before the alignment: a result below `floor` may be such a bound, so it says only "below".
"""

from difflib import SequenceMatcher

MAX_CHARS = 2_000


def similarity(expected: str, actual: str, floor: float = 0.0) -> float:
    """The exact ratio where it is at least `floor`, else a number below `floor` and not below the ratio."""
    if expected == actual:
        return 1.0
    if not expected or not actual:
        return 0.0
    bound = _ratio(min(len(expected), len(actual)), len(expected) + len(actual))
    if bound < floor:
        return bound
    return min(bound, _aligned(expected[:MAX_CHARS], actual[:MAX_CHARS], floor))


def _aligned(expected: str, actual: str, floor: float) -> float:
    total = len(expected) + len(actual)
    head = _common_prefix(expected, actual)
    tail = _common_prefix(expected[head:][::-1], actual[head:][::-1])
    ends = head + tail
    left, right = expected[head : len(expected) - tail], actual[head : len(actual) - tail]
    if not left or not right:
        return _ratio(ends, total)
    matcher = SequenceMatcher(None, left, right)
    for bound in (matcher.real_quick_ratio, matcher.quick_ratio):
        most = _ratio(ends + round(bound() * (len(left) + len(right)) / 2), total)
        if most < floor:
            return most
    return _ratio(ends + sum(block.size for block in matcher.get_matching_blocks()), total)


def _ratio(matching: int, total: int) -> float:
    return 2.0 * matching / total


def _common_prefix(one: str, other: str) -> int:
    """Length of the common start, by halving: slices compare at memory speed."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
