"""A patch split into its files, as bytes: what each section touches, without applying anything.

Shape   git sections (`diff --git`), and plain ones (`---` then `+++`, outside a hunk) that `patch` would also take.
Names   all that a section has: of its header, of `---`/`+++`, of renames and copies; quoted ones unquoted. A section
        is as guarded as its most guarded name, so a header can't hide what a tool would write.
Errors  none: what is of no section is kept as it stands, and left to the tools that apply.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_HUNK = re.compile(rb"^@@ -\d+(?:,(\d{1,18}))? \+\d+(?:,(\d{1,18}))? @@")
_NAMED = (b"--- ", b"+++ ", b"rename from ", b"rename to ", b"copy from ", b"copy to ", b"Index: ", b"*** ")
_ESCAPE = re.compile(rb'\\([0-7]{3}|[abtnvfr"\\])')
_CONTROL = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}


class Section(NamedTuple):
    """One file of a patch, or the text before the first."""

    body: bytes
    paths: frozenset[str]
    """As written and without their first part; empty for text."""
    adds: bool = False
    """The file is new."""

    @property
    def path(self) -> str:
        """The name for people: the shortest, which is without `a/`."""
        return min(self.paths, key=len, default="")

    def added_lines(self) -> list[bytes]:
        return [line[1:] for line in self.body.split(b"\n") if line.startswith(b"+") and not line.startswith(b"+++ ")]


_NAMES_AT_MOST = 3 * 4096
"""Bytes of a git header that can name two files: a path has 4096 at most. Longer ones would take long to search."""


def sections(patch: bytes) -> list[Section]:
    """Split a patch into sections; joined again they are the patch."""
    return [_section(lines) for lines in _split(patch.split(b"\n"))]


def join(parts: list[Section]) -> bytes:
    return b"".join(part.body for part in parts)


def _split(lines: list[bytes]) -> Iterator[list[bytes]]:
    """Yield groups of lines, each with its line feed, a section each."""
    whole = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    group: list[bytes] = []
    old = new = 0
    in_header = False
    for index, line in enumerate(whole):
        if (old > 0 or new > 0) and not line.startswith(b"diff --git "):
            old, new = _consume(line, old, new)
            group.append(line)
            continue
        if _starts(whole, index, in_header=in_header):
            if group:
                yield group
            group, in_header = [], True
        group.append(line)
        old = new = 0
        if hunk := _HUNK.match(line):
            in_header = False
            old, new = (int(count) if count is not None else 1 for count in hunk.groups())
    if group:
        yield group


def _starts(lines: list[bytes], index: int, *, in_header: bool) -> bool:
    line = lines[index]
    if line.startswith(b"diff --git "):
        return True
    plain = line.startswith((b"--- ", b"*** ")) and index + 1 < len(lines)
    return plain and not in_header and lines[index + 1].startswith((b"+++ ", b"--- "))


def _consume(line: bytes, old: int, new: int) -> tuple[int, int]:
    if line.startswith(b"\\"):
        return old, new
    if line.startswith(b"-"):
        return old - 1, new
    if line.startswith(b"+"):
        return old, new - 1
    return old - 1, new - 1


def _section(lines: list[bytes]) -> Section:
    names: set[bytes] = set()
    adds = False
    for line in lines:
        text = line.rstrip(b"\r\n")
        if _HUNK.match(text) or text == b"GIT binary patch":
            break
        if text.startswith(b"diff --git "):
            names |= _header_names(text.removeprefix(b"diff --git "))
        elif text.startswith(_NAMED):
            names.add(_name(text.split(b" ", 2 if text.startswith((b"rename", b"copy")) else 1)[-1]))
        adds = adds or text.startswith((b"new file mode ", b"--- /dev/null"))
    return Section(b"".join(lines), frozenset(_paths(names)), adds)


def _header_names(rest: bytes) -> set[bytes]:
    """Read the names of a git header: two quoted ones, or two that are equal after `a/` and `b/`, or two words."""
    if rest.startswith(b'"') or rest.endswith(b'"'):
        return {_name(name) for name in re.findall(rb'"(?:[^"\\]|\\.)*"|\S+', rest)}
    middle = len(rest) // 2
    if rest[middle : middle + 1] == b" " and rest[1:middle] == rest[middle + 2 :]:
        return {rest[:middle], rest[middle + 1 :]}
    names = re.search(rb"(\S.*?) (b/.*)$", rest) if len(rest) <= _NAMES_AT_MOST else None
    return set(names.groups()) if names else set(rest.split())


def _name(raw: bytes) -> bytes:
    name = raw.split(b"\t", 1)[0].strip()
    if not (name.startswith(b'"') and name.endswith(b'"') and len(name) > 1):
        return name
    return _ESCAPE.sub(lambda match: bytes([_CONTROL.get(match[1]) or int(match[1], 8) & 255]), name[1:-1])


def _paths(names: set[bytes]) -> Iterator[str]:
    for name in names:
        if name in (b"/dev/null", b""):
            continue
        path = name.decode("utf-8", "surrogateescape")
        yield path
        head, slash, rest = path.partition("/")
        if slash and head in ("a", "b") and rest:
            yield rest
