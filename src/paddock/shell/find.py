"""The normal form of `find`: starting points as paths, tests in any order, no `-print` where it is implied.

Law     tests without side effects that stand next to each other under an implied `and` commute; options that warn when
        misplaced, actions, parentheses and `-o` stay where they are. Starting points are compared as spelled when a
        part of the expression looks at or prints the spelling, or runs a program; else which `-name` the last component
        as spelled matches counts, and with `-delete` whether it is `.` or `..`.
"""

from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise

from paddock.shell.form import CommandForm, FormContext, may_vanish, word_form
from paddock.shell.paths import Form, base_name, matches, path_form
from paddock.shell.syntax import Word
from paddock.shell.words import literal

_TESTS = {
    "-name": 1, "-iname": 1, "-type": 1, "-empty": 0, "-size": 1, "-mtime": 1, "-mmin": 1, "-perm": 1, "-executable": 0,
    "-readable": 0, "-writable": 0, "-links": 1, "-user": 1, "-group": 1,
}  # fmt: skip
"""Pure tests and how many words each takes."""

_GLOBALS = {"-maxdepth": 1, "-mindepth": 1, "-depth": 0, "-xdev": 0, "-mount": 0}
_SAME_WORDS = {"-not": "!", "-or": "-o", "-and": "-a"}
_BINARY = frozenset({"-o", "-a", ","})
_OPERATORS = _BINARY | {"!", "("}
_ACTIONS = frozenset({"-print", "-print0", "-prune", "-quit", "-delete"})
_TAKES = {**_TESTS, **_GLOBALS, **dict.fromkeys(_OPERATORS | _ACTIONS | {")"}, 0)}
_NO_IMPLIED_PRINT = frozenset({"-o", "-or", ",", "-prune", "-delete", "-print0", "-quit"})
_SURE = frozenset({"-name", "-iname", "-empty", "-print", "-o", "-a"})
"""With these a search fails only for a starting point that does not exist."""


def normal(args: Sequence[Word], context: FormContext) -> CommandForm | None:
    """None: a starting point or a test that cannot be told."""
    split = next((i for i, word in enumerate(args) if _begins_expression(word.text or "")), len(args))
    points = list(args[:split]) or [literal(".")]
    texts = [word.text for word in args[split:] if word.text is not None]
    if len(texts) != len(args) - split or any(may_vanish(point) for point in points):
        return None
    expression = _expression(texts)
    if expression is None:
        spelled = tuple(word_form(point, context) for point in points)
        return CommandForm(("find", "spelled", context.directory, spelled, tuple(_plainly(texts))))
    forms = [path_form(point, context.directory, context.part) for point in points]
    if any(form is None for form in forms):
        return None
    sure = all(text in _SURE or not text.startswith("-") for text in texts)
    spelled = tuple(word_form(point, context) for point in points)
    names = tuple(_own_name(point, texts) for point in points)
    return CommandForm(("find", tuple(forms), expression, names), sure, spelled=spelled)


def _plainly(texts: Sequence[str]) -> Iterator[str]:
    """With `-not` as `!`, where it surely is no word of another test or program."""
    runs = any(text in ("-exec", "-execdir", "-ok", "-okdir") for text in texts)
    for before, text in pairwise(("(", *texts)):
        yield "!" if text == "-not" and not runs and not before.startswith("-") else text


def _begins_expression(text: str) -> bool:
    return text in ("(", "!") or (text.startswith("-") and text != "-")


def _own_name(point: Word, texts: Sequence[str]) -> tuple[Hashable, ...]:
    """What the tests say of a starting point's own name, which is the last component as it was spelled."""
    if point.text is None:
        return ()
    name = base_name(point)
    name_tests = [(test, pattern) for test, pattern in pairwise(texts) if test in ("-name", "-iname")]
    answers = {
        (test, pattern, matches(name, pattern) if test == "-name" else matches(name.lower(), pattern.lower()))
        for test, pattern in name_tests
    }
    as_spelled = (point.text,) if "-delete" in texts and name in (".", "..") else ()
    return (*sorted(answers, key=repr), *as_spelled)


def _expression(texts: Sequence[str]) -> Form | None:
    """The expression with each run of tests sorted; None: something in it depends on spelling, or it is malformed."""
    out: list[Hashable] = []
    run: list[tuple[str, ...]] = []
    negated = False
    previous = "("
    rest = list(reversed(texts))
    while rest:
        word = rest.pop()
        text = _SAME_WORDS.get(word, word)
        takes = _TAKES.get(text)
        if takes is None or len(rest) < takes or (text in _BINARY and previous in _OPERATORS):
            return None
        given = (text, *(rest.pop() for _ in range(takes)))
        if text == "!":
            negated = not negated
        elif text in _TESTS:
            run.append(("!", *given) if negated else given)
            negated = False
        elif text != "-a":
            out += [*sorted(run), *(["!"] if negated else []), given if takes else text]
            run, negated = [], False
        previous = text
    if texts and previous in _OPERATORS:
        return None
    out += sorted(run)
    if out.count("-print") == 1 and out[-1] == "-print" and not _NO_IMPLIED_PRINT & set(texts):
        out.pop()
    return tuple(out)
