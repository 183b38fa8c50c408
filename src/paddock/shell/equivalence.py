"""Whether two commands do the same, judged by their text alone.

Law     equal means: run by bash from the same directory over the same files, both leave the same names, contents and
        modes, exit with the same status and print the same, standard output and error as one text in any order, up to
        the spelling of one path and the line that bash names in its own messages. Else sameness is only not sure.
Given   each command has a shell of its own, of whose state only what a last `cd` or `export` leaves counts; no
        terminal; commands accept their words; what they read, enter or remove exists, text files are text, what they
        make is not in the way; a component before `..` or a final slash is a directory, no link, and stays; no
        expansion begins with a dash; sorting is by byte; nothing shadows or reconfigures a known command; `python`
        and `python3`, `pytest` and `python -m pytest`, `pip` and `python -m pip` are one program each; git runs in a
        work tree without hooks.
Errors  none: text that is not understood is equal to the same text only.
"""

from functools import lru_cache
from typing import Literal, NamedTuple

from paddock.shell.normal import Normal, normal_form
from paddock.shell.parse import parse

Reason = Literal["identical", "same_form", "same_tree", "different", "untracked", "unparsed"]


class Equivalence(NamedTuple):
    equal: bool
    reason: Reason
    """`identical`: the same text. `same_form`: the same normal form. `same_tree`: the same words in the same structure,
    of commands that are not followed further. `different`: the forms differ. `untracked`: at least one is not followed
    further, and the trees differ. `unparsed`: at least one is not valid bash."""
    detail: str
    """For a reader: the first place where the forms part, or why a command was not judged."""


def equivalent(expected: str, actual: str, *, cwd: str | None = None) -> Equivalence:
    """`cwd`: the absolute path of the directory that both start in; None: unknown, then absolute and relative paths
    never meet."""
    if expected == actual:
        return Equivalence(equal=True, reason="identical", detail="")
    for side, command in (("expected", expected), ("actual", actual)):
        error = parse(command).error
        if error:
            return Equivalence(equal=False, reason="unparsed", detail=f"{side}: {error}")
    first, second = _normal(expected, cwd), _normal(actual, cwd)
    if first.form == second.form:
        return Equivalence(equal=True, reason="same_form" if first.tracked else "same_tree", detail="")
    reason: Reason = "different" if first.tracked and second.tracked else "untracked"
    return Equivalence(equal=False, reason=reason, detail=_difference(first.form, second.form))


def _normal(command: str, cwd: str | None) -> Normal:
    return _normal_short(command, cwd) if len(command) <= 8192 else normal_form(parse(command), cwd)


@lru_cache(maxsize=4096)
def _normal_short(command: str, cwd: str | None) -> Normal:
    return normal_form(parse(command), cwd)


def _difference(expected: object, actual: object) -> str:
    """The innermost pair of parts that differ."""
    while isinstance(expected, tuple) and isinstance(actual, tuple) and len(expected) == len(actual):
        pairs = [(left, right) for left, right in zip(expected, actual, strict=True) if left != right]
        if len(pairs) != 1:
            break
        ((expected, actual),) = pairs
    return f"expected {_short(expected)}, actual {_short(actual)}"


def _short(form: object) -> str:
    text = repr(form)
    return text if len(text) <= 160 else text[:157] + "..."
