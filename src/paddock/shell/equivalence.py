"""Whether two commands do the same, judged by their text alone.

Law     equal means: run by bash from the same directory over the same files, both leave the same names, contents and
        modes, exit with the same status and print the same, standard output and error as one text in any order, up to
        the spelling of one path and the line that bash names in its own messages. Else sameness is only not sure.
Given   each command has a shell of its own, of whose state only what a last `cd` or `export` leaves counts; no
        terminal; commands accept their words; what they read or remove exists, and so does a directory that both enter,
        or that holds or is what both name; text files are text, what they make is not in the way; a component before
        `..` or a final slash is a directory, no link, and stays; no expansion begins with a dash; sorting is by byte;
        nothing shadows or reconfigures a known command; `python` and `python3`, `pytest` and `python -m pytest`, `pip`
        and `python -m pip` are one program each; git runs in a work tree without hooks.
Errors  none: text that is not understood is equal to the same text only.
"""

import reprlib
from typing import Literal, NamedTuple

from paddock.shell.memo import once
from paddock.shell.normal import NormalForm, normal_form
from paddock.shell.parse import parse
from paddock.shell.paths import START, join, within

Reason = Literal["identical", "same_form", "same_tree", "different", "untracked", "unparsed"]


class Equivalence(NamedTuple):
    equal: bool
    reason: Reason
    """`identical`: the same text. `same_form`: the same normal form. `same_tree`: the same words in the same structure,
    of commands that are not followed further. `different`: the forms differ. `untracked`: at least one is not followed
    further, and the trees differ. `unparsed`: at least one is not valid bash."""
    why: str = ""
    """Why a command was not judged."""
    forms: tuple[object, object] | None = None
    """The normal forms of both, where they differ."""

    @property
    def detail(self) -> str:
        """In words: where the forms differ first, or why a command was not judged."""
        return _difference(*self.forms) if self.forms else self.why


def equivalent(expected: str, actual: str, *, cwd: str | None = None) -> Equivalence:
    """`cwd`: the absolute path of the directory that both start in; None: unknown, then absolute and relative paths
    never meet."""
    if expected == actual:
        return Equivalence(equal=True, reason="identical")
    for side, command in (("expected", expected), ("actual", actual)):
        error = parse(command).error
        if error:
            return Equivalence(equal=False, reason="unparsed", why=f"{side}: {error}")
    (first, first_hash), (second, second_hash) = _normal(expected, cwd), _normal(actual, cwd)
    if first_hash == second_hash and first.form == second.form:
        start = join("/", cwd) if cwd and cwd.startswith("/") else START
        astray = next(
            (directory for directory in first.entered ^ second.entered if not _is_named(directory, first.form, start)),
            None,
        )
        if astray is not None:
            return Equivalence(equal=False, reason="different", why=f"nothing shows that {astray} is a directory")
        return Equivalence(equal=True, reason="same_form" if first.tracked else "same_tree")
    reason: Reason = "different" if first.tracked and second.tracked else "untracked"
    return Equivalence(equal=False, reason=reason, forms=(first.form, second.form))


_TEXTS = ("print", "text", "any of", "patterns")
"""Forms whose strings are no paths."""


def _is_named(directory: str, form: object, start: str) -> bool:
    """Whether a directory exists where what a form names does: it is above or at `start`, or one of its paths."""
    if within(start, directory) or not directory.strip("./"):
        return True
    pending = [form]
    while pending:
        here = pending.pop()
        if not isinstance(here, tuple) or not here or here[0] in _TEXTS:
            continue
        path = here[1] if len(here) > 1 else None
        if isinstance(path, str) and (path == directory or (here[0] == "path" and within(path, directory))):
            return True
        pending.extend(here)
    return False


class _KeyedForm(NamedTuple):
    normal: NormalForm
    key: int
    """Differs only where the forms do; comparing long forms part by part, pair by pair, would take much longer."""


def _normal(command: str, cwd: str | None) -> _KeyedForm:
    def make() -> _KeyedForm:
        normal = normal_form(parse(command), cwd)
        return _KeyedForm(normal, hash(normal.form))

    return once(("normal", command, cwd), make)


_MAX_PARTS = 64
"""Longer forms are not looked into for a reader."""
_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxtuple, _REPR.maxstring, _REPR.maxother = 6, 8, 80, 80


def _difference(expected: object, actual: object) -> str:
    """The innermost pair of parts that differ."""
    while isinstance(expected, tuple) and isinstance(actual, tuple) and len(expected) == len(actual) <= _MAX_PARTS:
        pairs = [(left, right) for left, right in zip(expected, actual, strict=True) if left != right]
        if len(pairs) != 1:
            break
        ((expected, actual),) = pairs
    return f"expected {_short(expected)}, actual {_short(actual)}"


def _short(form: object) -> str:
    text = _REPR.repr(form)
    return text if len(text) <= 160 else text[:157] + "..."
