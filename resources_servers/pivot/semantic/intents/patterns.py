"""Patterns of searches in one form, so that those that match the same lines are equal whatever dialect they are in.

Law     a pattern is a set of alternatives, each a row of characters' classes that repeat, and of anchors. Equal ones
        match the same lines of ASCII text. What may match nothing at an edge says nothing of a line and is left out
        (`foo.*`), and so is an alternative that holds another one.
Blanks  one blank is the same as one or more of them: `def\\s+x` and `def x`.
Definition  a function's name of `MIN_NAME_CHARS` or more is the same with the `(` or the word's end behind it, and with
        blanks between the line's beginning and `def`. Of a class the end of the word only: it need not have a `(`.
Errors  None: a pattern of which it is not known what it matches.
"""

import importlib
import re
import string
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from paddock.resources_servers.pivot.semantic.intents.dialects import (
    HALF_END,
    HALF_START,
    WORD_END,
    WORD_START,
    Dialect,
    UnknownPatternError,
    to_python,
)

MIN_NAME_CHARS = 6
"""A shorter name may be the beginning of many: `def get` looks for more than `def get(` does."""
_MAX_ALTERNATIVES = 64
_MAX_DEPTH = 20
_MANY = 1 << 16
_ASCII = frozenset(range(128))
_WHITE = frozenset(map(ord, " \t\n\r\f\v"))
_WORD = frozenset(map(ord, string.ascii_letters + string.digits + "_"))
_CATEGORIES = {"SPACE": _WHITE, "DIGIT": frozenset(map(ord, string.digits)), "WORD": _WORD}
_ANCHORS = {"AT_BEGINNING": "^", "AT_END": "$", "AT_BOUNDARY": "b", "AT_NON_BOUNDARY": "B"}
_MARKS = {ord(mark): mark for mark in (WORD_START, WORD_END, HALF_START, HALF_END)}
_DEFINITION = re.compile(r"((?:async )?(?:def|class|function|fn|func)) (\w+)(.*)", re.DOTALL)
_ONLY_IN = {
    "*.py": re.compile(r"(async )?def [A-Za-z_]\w*|from [\w.]+ import( |$)"),
    "*.go": re.compile(r"func \(\w+ \*?\w+\) \w"),
    "*.rs": re.compile(r"(pub )?fn [a-z_]\w*"),
}
_parser: Any = importlib.import_module("re._parser")
"""The standard library's parser of regular expressions, which has no public name."""


class CharClass(NamedTuple):
    """The characters that stand at one place."""

    members: frozenset[int]
    others: bool = False
    """Whether those beyond ASCII that are no members stand there, too."""


Item = CharClass | frozenset[Any]
"""A class, or the alternatives of a group."""


class Repeat(NamedTuple):
    """An item some times in a row."""

    item: Item
    least: int = 1
    most: int = 1


Branch = tuple[Repeat | str, ...]
"""Repeats and anchors: `^`, `$`, `b`, `B` and the marks of `dialects`."""


class Pattern(NamedTuple):
    """What a line must hold."""

    alternatives: frozenset[Branch | str]
    """A text: an expression that is known by its words only."""

    @property
    def only_in(self) -> frozenset[str]:
        """The files that alone can hold what it looks for, as globs; empty: any can."""
        texts = [_text(each)[0] if isinstance(each, tuple) else "" for each in self.alternatives]
        return frozenset(glob for glob, known in _ONLY_IN.items() if all(map(known.match, texts)))

    @property
    def with_literal_dots(self) -> "Pattern":
        """The pattern with a dot where any one character may stand between two words: who writes `os.path` means that
        name."""
        return Pattern(
            frozenset(_literal_dots(each) if isinstance(each, tuple) else each for each in self.alternatives)
        )

    @property
    def anchored(self) -> bool:
        return any("^" in each for each in self.alternatives)


@lru_cache(maxsize=1024)
def pattern_of(
    patterns: tuple[str, ...],
    dialect: Dialect,
    *,
    ignore_case: bool = False,
    whole: str = "",
    exact: bool = False,
) -> Pattern | None:
    """Return what lines must hold to match one of some patterns. `whole`: "word", "line" or empty, what a match must
    be; `exact`: what matches counts, not only that a line does."""
    try:
        text = "|".join(f"(?:{to_python(pattern, dialect)})" for pattern in patterns)
        if whole == "word":
            if re.search(text, "") is not None:
                # What grep takes for a word where nothing matches is grep's own.
                return None
            text = f"{HALF_START}(?:{text}){HALF_END}"
        elif whole == "line":
            text = f"^(?:{text})$"
        if text.startswith("(?:(?i)"):
            if len(patterns) > 1 or text.count("(?i)") > 1:
                return None
            text, ignore_case = text.replace("(?i)", "", 1), True
        branches = _branches(_parser.parse(text), ignore_case, 0)
    except (UnknownPatternError, re.error, OverflowError, RecursionError):
        return None
    if exact:
        return Pattern(frozenset(map(_with_boundaries, branches)))
    return Pattern(frozenset(_least({_normal(branch) for branch in branches})))


def _branches(nodes: Iterable[tuple[Any, Any]], fold: bool, depth: int) -> frozenset[Branch]:
    if depth > _MAX_DEPTH:
        raise UnknownPatternError
    found: frozenset[Branch] = frozenset({()})
    for operator, argument in nodes:
        parts = _of_node(str(operator), argument, fold, depth)
        if len(found) * len(parts) > _MAX_ALTERNATIVES:
            raise UnknownPatternError
        found = frozenset(_joined(before, part) for before in found for part in parts)
    return found


def _of_node(operator: str, argument: Any, fold: bool, depth: int) -> frozenset[Branch]:
    match operator:
        case "LITERAL" if argument in _MARKS:
            return frozenset({(_MARKS[argument],)})
        case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
            return frozenset({(Repeat(_class(operator, argument, fold)),)})
        case "BRANCH":
            return frozenset(branch for part in argument[1] for branch in _branches(part, fold, depth + 1))
        case "SUBPATTERN":
            _, added, removed, inner = argument
            if added or removed:
                raise UnknownPatternError
            return _branches(inner, fold, depth + 1)
        case "MAX_REPEAT" | "MIN_REPEAT":
            least, most, inner = argument
            return _repeated(_branches(inner, fold, depth + 1), int(least), int(most))
        case "AT" if str(argument) in _ANCHORS:
            return frozenset({(_ANCHORS[str(argument)],)})
        case _:
            raise UnknownPatternError


def _repeated(branches: frozenset[Branch], least: int, most: int) -> frozenset[Branch]:
    most = min(most, _MANY)
    if (least, most) == (0, 1):
        return branches | {()}
    branch = next(iter(branches))
    is_single = len(branches) == 1 and len(branch) == 1 and isinstance(branch[0], Repeat)
    if is_single and isinstance(only := branch[0], Repeat) and (only.least, only.most) == (1, 1):
        return frozenset({(Repeat(only.item, least, most),)})
    return frozenset({(Repeat(branches, least, most),)})


def _joined(before: Branch, behind: Branch) -> Branch:
    last, first = before[-1] if before else None, behind[0] if behind else None
    if not isinstance(last, Repeat) or not isinstance(first, Repeat) or last.item != first.item:
        return before + behind
    both = Repeat(last.item, last.least + first.least, min(last.most + first.most, _MANY))
    return (*before[:-1], both, *behind[1:])


def _class(operator: str, argument: Any, fold: bool) -> CharClass:
    members: set[int] = set()
    others = operator == "ANY"
    negated = operator in ("NOT_LITERAL", "ANY")
    entries = argument if operator == "IN" else [("LITERAL", argument)] if operator != "ANY" else []
    for kind, value in entries:
        match str(kind):
            case "NEGATE":
                negated = True
            case "LITERAL":
                members.add(value)
            case "RANGE" if value[1] < 1 << 12:
                members.update(range(value[0], value[1] + 1))
            case "CATEGORY":
                name = str(value).removeprefix("CATEGORY_")
                named = _CATEGORIES[name.removeprefix("NOT_")]
                members |= _ASCII - named if name.startswith("NOT_") else named
                others = others or name.startswith("NOT_")
            case _:
                raise UnknownPatternError
    if fold:
        members |= {ord(char.swapcase()) for char in map(chr, members) if len(char.swapcase()) == 1}
    if negated:
        if not members <= _ASCII or (others and operator == "IN"):
            raise UnknownPatternError
        members, others = set(_ASCII - members), True
    elif others and not members <= _ASCII:
        raise UnknownPatternError
    members.discard(ord("\n"))
    if not members:
        raise UnknownPatternError
    return CharClass(frozenset(members), others)


def _normal(branch: Branch) -> Branch:
    parts = [_blank(part) for part in _with_boundaries(branch)]
    for start, anchor in ((0, "^"), (-1, "$")):
        while parts and isinstance(edge := parts[start], Repeat | str):
            inner = parts[1 if start == 0 else -2] if len(parts) > 1 else None
            if isinstance(edge, Repeat) and edge.least == 0:
                parts.pop(start)
            elif isinstance(edge, Repeat):
                parts[start] = Repeat(edge.item, edge.least, edge.least)
                break
            elif edge == anchor and inner == _ANYTHING:
                parts.pop(start)
            else:
                break
    return _definition(tuple(parts))


def _blank(part: Repeat | str) -> Repeat | str:
    if not isinstance(part, Repeat) or not isinstance(part.item, CharClass) or part.least != 1 or part.item.others:
        return part
    return _BLANK if ord(" ") in part.item.members and part.item.members <= _WHITE else part


_ANYTHING = Repeat(CharClass(_ASCII - {ord("\n")}, others=True), 0, _MANY)
_ANY_ONE = Repeat(CharClass(_ASCII - {ord("\n")}, others=True))
_DOT = Repeat(CharClass(frozenset({ord(".")})))
_BLANK = Repeat(CharClass(frozenset({ord(" ")})))


def _literal_dots(branch: Branch) -> Branch:
    found = list(branch)
    for at in range(2, len(found) - 2):
        around = (found[at - 2], found[at - 1], found[at + 1], found[at + 2])
        if found[at] == _ANY_ONE and all(map(_is_word, around)):
            found[at] = _DOT
    return tuple(found)


def _with_boundaries(branch: Branch) -> Branch:
    """Spell a word's end by the side that the pattern does not tell."""
    found: list[Repeat | str] = []
    for index, part in enumerate(branch):
        behind = branch[index + 1] if index + 1 < len(branch) else None
        before = branch[index - 1] if index else None
        if part in ("b", WORD_START) and _is_word(behind):
            found.append(HALF_START)
        elif part in ("b", WORD_END) and _is_word(before):
            found.append(HALF_END)
        else:
            found.append(part)
    return tuple(found)


def _is_word(part: Repeat | str | None) -> bool:
    return (
        isinstance(part, Repeat)
        and isinstance(part.item, CharClass)
        and part.least > 0
        and not part.item.others
        and part.item.members <= _WORD
    )


def _text(branch: Sequence[Repeat | str]) -> tuple[str, int]:
    """Return the plain text that a branch begins with, in lower case where case is ignored, and its parts' number."""
    text = ""
    for index, part in enumerate(branch):
        if not isinstance(part, Repeat) or not isinstance(part.item, CharClass) or part.least != part.most:
            return text, index
        chars = {chr(member) for member in part.item.members}
        if part.item.others or len({char.lower() for char in chars}) != 1 or part.least > _MAX_ALTERNATIVES:
            return text, index
        text += min(chars).lower() * part.least if len(chars) > 1 else min(chars) * part.least
    return text, len(branch)


def plain_text(pattern: Pattern) -> tuple[str, ...] | None:
    """Return what a pattern of plain text asks: ("ends", suffix) or ("holds", text, case). None: it asks more."""
    branch = next(iter(pattern.alternatives))
    if len(pattern.alternatives) > 1 or isinstance(branch, str):
        return None
    text, used = _text(branch)
    classes = [part.item for part in branch[:used] if isinstance(part, Repeat) and isinstance(part.item, CharClass)]
    folds = any(len(characters.members) > 1 for characters in classes)
    if branch[used:] == ("$",) and text.startswith(".") and not folds:
        return ("ends", text)
    if used < len(branch) or not text:
        return None
    return ("holds", text, "any case" if folds else "case")


_OPENING = Repeat(CharClass(frozenset({ord("(")})))
_OPENING_OR_COLON = Repeat(CharClass(frozenset(map(ord, "(:"))))
_ANY_WHITE = Repeat(CharClass(_WHITE - {ord("\n")}), 0, _MANY)


def _definition(branch: Branch) -> Branch:
    """Return the branch of a definition without what does not say what is defined."""
    lead = next((lead for lead in (("^", _ANY_WHITE), (HALF_START,)) if branch[: len(lead)] == lead), ())
    bare = branch[len(lead) :]
    text, used = _text(bare)
    found = _DEFINITION.fullmatch(text)
    if found is None or len(found[2]) < MIN_NAME_CHARS or found[2].endswith("_"):
        return branch
    tails: set[Branch] = {(), (HALF_END,)}
    if found[1] == "class":
        tails.add((_OPENING_OR_COLON,))
    else:
        tails |= {(_OPENING,), (HALF_END, _OPENING), (_ANY_WHITE, _OPENING), (HALF_END, _ANY_WHITE, _OPENING)}
    behind = bare[used:]
    if found[3] in ("", "(", " ("):
        behind = (*(_OPENING for _ in found[3].strip()), *behind)
    else:
        return branch
    if found[3].startswith(" ") or behind not in tails:
        return branch
    return bare[: used - len(found[3])]


def _least(branches: set[Branch]) -> Iterable[Branch]:
    """Leave out branches that hold another one: where they match, that one does."""
    return (branch for branch in branches if not any(_holds(branch, other) for other in branches))


def _holds(branch: Branch, other: Branch) -> bool:
    size = len(other)
    return size < len(branch) and any(branch[at : at + size] == other for at in range(len(branch) - size + 1))
