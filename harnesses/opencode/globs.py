"""Which entries of a tree ripgrep lists for one `--glob`.

Law     a glob without a slash is about names, with one about paths from the searched folder. What it names is listed
        though it is hidden or ignored; files that it does not name are not listed; folders that it does not name are
        entered unless they are hidden or ignored. `!glob` leaves out what it names. An empty glob says nothing.
Syntax  `*`, `?`, `[...]`, `**` as a whole part, `{a,b}`, a backslash for the next character.
Cost    linear in a path for each alternative, whatever the glob: it is the policy's.
Errors  GlobError for brackets and braces that do not close, and for more alternatives than anyone writes.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Literal

GlobMatch = Literal["in", "out", "unnamed"]
MOST_ALTERNATIVES = 256
_ANY = "**"
_PIECE = re.compile(r"\\.|\[[!^]?.[^\]]*\]|.", re.DOTALL)


class GlobError(ValueError):
    """The text is no glob."""


class Glob:
    """One glob."""

    def __init__(self, text: str) -> None:
        self._negated = text.startswith("!")
        text = text.removeprefix("!")
        self._empty = not text
        self._folders_only = text.endswith("/") and len(text) > 1
        self._patterns = [
            _Alternative(alternative)
            for alternative in _alternatives(text.removesuffix("/") if self._folders_only else text)
        ]

    def match(self, path: str, *, folder: bool) -> GlobMatch:
        if self._empty:
            return "unnamed"
        parts = path.split("/")
        if (folder or not self._folders_only) and any(alternative.names(parts) for alternative in self._patterns):
            return "out" if self._negated else "in"
        return "unnamed" if self._negated or folder else "out"


class _Alternative:
    """One alternative of a glob: without braces."""

    def __init__(self, text: str) -> None:
        parts = text.removeprefix("/").split("/") if "/" in text else [_ANY, text]
        self._parts = [None if part == _ANY else _segment(part) for part in parts]
        """None: any folders."""

    def names(self, path: Sequence[str]) -> bool:
        reached = {0}
        for part in self._parts[:-1]:
            if part is None:
                reached = set(range(min(reached), len(path))) if reached else set()
            else:
                reached = {at + 1 for at in reached if at < len(path) and part.fullmatch(path[at])}
        last = self._parts[-1]
        if last is None:
            return any(at < len(path) for at in reached)
        return len(path) - 1 in reached and last.fullmatch(path[-1]) is not None


def list_files(
    glob: Glob, folders: Iterable[str], files: Iterable[str], ignored: Collection[str], *, hidden: bool
) -> Iterator[str]:
    """List the files that a glob finds, in the given order. Paths are relative; `hidden`: dot files count as others."""
    listed = {path: _is_listed(glob, path, ignored, folder=True, hidden=hidden) for path in folders}

    @cache
    def entered(path: str) -> bool:
        return not path or (listed.get(path, False) and entered(path.rpartition("/")[0]))

    return (
        path
        for path in files
        if entered(path.rpartition("/")[0]) and _is_listed(glob, path, ignored, folder=False, hidden=hidden)
    )


def _is_listed(glob: Glob, path: str, ignored: Collection[str], *, folder: bool, hidden: bool) -> bool:
    match = glob.match(path, folder=folder)
    if match != "unnamed":
        return match == "in"
    is_hidden = path.rpartition("/")[2].startswith(".")
    return path not in ignored and (hidden or not is_hidden)


def _segment(text: str) -> re.Pattern[str]:
    """Between two stars each piece is as wide as what it matches, so the first place where it stands is the best."""
    chunks = [""]
    for piece in _PIECE.findall(text):
        if piece == "*":
            chunks.append("")
        else:
            chunks[-1] += _piece(piece)
    first, *more = chunks
    middle = "".join(f"(?>.*?{chunk})" for chunk in more[:-1] if chunk)
    return re.compile(first + middle + (f".*{more[-1]}" if more else ""), re.DOTALL)


def _piece(piece: str) -> str:
    if piece == "?":
        return "."
    if piece[0] == "[":
        if len(piece) == 1:
            raise GlobError(piece)
        negated = piece[1] in "!^"
        inner = re.sub(r"([\\\[\]^&~|])", r"\\\1", piece[1 + negated : -1])
        try:
            re.compile(f"[{inner}]")
        except re.error as error:
            raise GlobError(piece) from error
        return f"[{'^' if negated else ''}{inner}]"
    if piece == "\\":
        raise GlobError(piece)
    return re.escape(piece.removeprefix("\\"))


def _alternatives(text: str) -> list[str]:
    """The globs without braces that a glob stands for."""
    open_at = depth = 0
    cuts: list[int] = []
    at = 0
    for piece in _PIECE.findall(text):
        if piece == "{":
            depth += 1
            open_at, cuts = (at, []) if depth == 1 else (open_at, cuts)
        elif piece == "," and depth == 1:
            cuts.append(at)
        elif piece == "}":
            depth -= 1
            if depth < 0:
                raise GlobError(text)
            if depth == 0:
                return _spread(text[:open_at], text, [open_at, *cuts, at])
        at += len(piece)
    if depth:
        raise GlobError(text)
    return [text]


def _spread(head: str, text: str, cuts: Sequence[int]) -> list[str]:
    """The first braces of a text, whose signs stand at `cuts`, and those after them."""
    inner = [text[start + 1 : end] for start, end in pairwise(cuts)]
    alternatives = [alternative for part in inner for alternative in _alternatives(part)]
    tails = _alternatives(text[cuts[-1] + 1 :])
    if len(alternatives) * len(tails) > MOST_ALTERNATIVES:
        raise GlobError(text)
    return [head + alternative + tail for alternative in alternatives for tail in tails]
