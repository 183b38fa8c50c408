"""Ever looser ways to find a text in a file, as opencode's `edit` has them: each yields texts that stand in the file.

Order   exact, lines trimmed, block between two anchor lines, blanks folded, indentation moved, escapes undone, blanks
        around left off, block with half its lines the same, each occurrence.
Blanks  are those of ECMAScript: with U+FEFF and U+00A0, without U+001C..U+001F and U+0085.
Cost    what is looked at more than once is prepared per line; similarity is counted on whole integers at once.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

WHITE = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
_BLANKS = re.compile(f"[{WHITE}]+")
_LEADING = re.compile(f"[{WHITE}]*")
_ESCAPE = re.compile(r"\\([ntr'\"`\\\n$])")
_MEANING = {"n": "\n", "t": "\t", "r": "\r"}
MIN_SIMILARITY = 0.65
"""Least similarity of a block between anchors; 1 is equal."""
MIN_SAME_SHARE = 0.5
"""Least share of a block's inner lines that are the same."""
Matcher = Callable[[str, str], Iterator[str]]


def exact(text: str, old: str) -> Iterator[str]:
    yield old


def lines_trimmed(text: str, old: str) -> Iterator[str]:
    lines, wanted = text.split("\n"), _without_last_empty(old.split("\n"))
    bare, wanted_bare = _stripped(lines), _stripped(wanted)
    for at in _places(bare, wanted_bare):
        yield "\n".join(lines[at : at + len(wanted)])


def block_anchors(text: str, old: str) -> Iterator[str]:
    lines, wanted = text.split("\n"), old.split("\n")
    if len(wanted) < 3:
        return
    wanted = _stripped(_without_last_empty(wanted))
    bare = _stripped(lines)
    slack = max(1, len(wanted) // 4)
    blocks = [block for block in _blocks(bare, wanted) if abs(block.size - len(wanted)) <= slack]
    if len(blocks) == 1:
        best = blocks[0]
        good = _reaches(bare[best.first : best.last + 1], wanted)
    elif blocks:
        scores = [_similarity(bare[block.first : block.last + 1], wanted) for block in blocks]
        best = blocks[scores.index(max(scores))]
        good = max(scores) >= MIN_SIMILARITY
    else:
        return
    if good:
        yield "\n".join(lines[best.first : best.last + 1])


def blanks_folded(text: str, old: str) -> Iterator[str]:
    wanted = _words(old)
    folded = " ".join(wanted)
    lines = text.split("\n")
    words = [_words(line) for line in lines]
    somewhere = re.compile(f"[{WHITE}]+".join(map(re.escape, wanted)))
    for line, its in zip(lines, words, strict=True):
        if its == wanted:
            yield line
        elif folded in " ".join(its) and (match := somewhere.search(line)):
            yield match[0]
    count = old.count("\n") + 1
    if count > 1:
        all_words = [[word for word in its if word] for its in words]
        sizes = [0, *accumulate(map(len, all_words))]
        wanted = [word for word in wanted if word]
        for at in range(len(lines) - count + 1):
            same_size = sizes[at + count] - sizes[at] == len(wanted)
            if same_size and [word for its in all_words[at : at + count] for word in its] == wanted:
                yield "\n".join(lines[at : at + count])


def indentation_moved(text: str, old: str) -> Iterator[str]:
    lines, wanted = text.split("\n"), old.split("\n")
    moved = _dedented(wanted)
    for at in _places(_stripped(lines), _stripped(wanted)):
        window = lines[at : at + len(wanted)]
        if _dedented(window) == moved:
            yield "\n".join(window)


def escapes_undone(text: str, old: str) -> Iterator[str]:
    meant = _unescaped(old)
    if meant in text:
        yield meant
    lines = text.split("\n")
    count = meant.count("\n") + 1
    escaped = [at for at, line in enumerate(lines) if "\\" in line]
    for at in range(len(lines) - count + 1):
        window = "\n".join(lines[at : at + count])
        # Without a backslash there is nothing to undo: such a window is the text that was looked for already.
        following = bisect_left(escaped, at)
        has_escape = following < len(escaped) and escaped[following] < at + count
        if (_unescaped(window) if has_escape else window) == meant:
            yield window


def ends_trimmed(text: str, old: str) -> Iterator[str]:
    inner = old.strip(WHITE)
    if inner == old or inner not in text:
        return
    yield inner
    lines, count = text.split("\n"), old.count("\n") + 1
    for at in range(len(lines) - count + 1):
        window = "\n".join(lines[at : at + count])
        if window.strip(WHITE) == inner:
            yield window


def half_the_same(text: str, old: str) -> Iterator[str]:
    lines, wanted = text.split("\n"), old.split("\n")
    if len(wanted) < 3:
        return
    wanted = _stripped(_without_last_empty(wanted))
    bare = _stripped(lines)
    for block in _blocks(bare, wanted):
        if block.size != len(wanted):
            continue
        inner = [
            ours == theirs
            for ours, theirs in zip(bare[block.first + 1 : block.last], wanted[1:-1], strict=True)
            if ours or theirs
        ]
        if not inner or sum(inner) / len(inner) >= MIN_SAME_SHARE:
            yield "\n".join(lines[block.first : block.last + 1])


def each_occurrence(text: str, old: str) -> Iterator[str]:
    for _ in range(text.count(old)):
        yield old


MATCHERS: tuple[Matcher, ...] = (
    exact,
    lines_trimmed,
    block_anchors,
    blanks_folded,
    indentation_moved,
    escapes_undone,
    ends_trimmed,
    half_the_same,
    each_occurrence,
)


class _Block(NamedTuple):
    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


def _blocks(bare: Sequence[str], wanted: Sequence[str]) -> Iterator[_Block]:
    """From each line that is the first wanted one to the next line, not the very next, that is the last."""
    lasts = [at for at, line in enumerate(bare) if line == wanted[-1]]
    for first, line in enumerate(bare):
        if line == wanted[0]:
            index = bisect_left(lasts, first + 2)
            if index < len(lasts):
                yield _Block(first, lasts[index])


def _reaches(bare: Sequence[str], wanted: Sequence[str]) -> bool:
    """A lone block is taken as soon as its lines, from the top, have been similar enough."""
    count = min(len(wanted), len(bare)) - 2
    if count <= 0:
        return True
    total = 0.0
    for ours, theirs in zip(bare[1:-1], wanted[1:-1], strict=False):
        if ours or theirs:
            total += _alike(ours, theirs) / count
            if total >= MIN_SIMILARITY:
                return True
    return False


def _similarity(bare: Sequence[str], wanted: Sequence[str]) -> float:
    count = min(len(wanted), len(bare)) - 2
    if count <= 0:
        return 1.0
    pairs = zip(bare[1:-1], wanted[1:-1], strict=False)
    return sum(_alike(ours, theirs) for ours, theirs in pairs if ours or theirs) / count


def _alike(left: str, right: str) -> float:
    return 1 - edit_distance(left, right) / max(len(left), len(right))


def edit_distance(left: str, right: str) -> int:
    """Levenshtein's, by bit vectors (Myers, Hyyrö): a column of the table is one integer."""
    if not left or not right:
        return max(len(left), len(right))
    masks: dict[str, int] = {}
    for index, char in enumerate(left):
        masks[char] = masks.get(char, 0) | 1 << index
    full, top = (1 << len(left)) - 1, 1 << len(left) - 1
    more, less, distance = full, 0, len(left)
    for char in right:
        same = masks.get(char, 0)
        diagonal = (((same & more) + more) ^ more) | same | less
        up, down = less | ~(diagonal | more) & full, more & diagonal
        distance += bool(up & top) - bool(down & top)
        up, down = up << 1 | 1, down << 1
        more, less = (down | ~(diagonal | up)) & full, up & diagonal & full
    return distance


def _places(lines: Sequence[str], wanted: Sequence[str]) -> Iterator[int]:
    for at in range(len(lines) - len(wanted) + 1):
        if lines[at : at + 1] == wanted[:1] and lines[at : at + len(wanted)] == wanted:
            yield at


def _stripped(lines: Sequence[str]) -> list[str]:
    return [line.strip(WHITE) for line in lines]


def _without_last_empty(lines: list[str]) -> list[str]:
    return lines[:-1] if lines[-1] == "" else lines


def _words(text: str) -> list[str]:
    """None at all: one empty word."""
    return _BLANKS.split(text.strip(WHITE))


def _dedented(lines: Sequence[str]) -> list[str]:
    widths = [match.end() for line in lines if line.strip(WHITE) and (match := _LEADING.match(line))]
    least = min(widths, default=0)
    return [line[least:] if line.strip(WHITE) else line for line in lines]


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: _MEANING.get(match[1], match[1]), text)
