"""A git patch turned round: what it adds is removed. Text is treated as bytes; a binary section can't be turned.

Errors  RowError for a patch with a binary section that holds no data of both sides.
"""

import re
from collections.abc import Iterable

from paddock.resources_servers.swe.rows.fields import field_error

_HUNK = re.compile(rb"^@@ -(\d+(?:,\d+)?) \+(\d+(?:,\d+)?) @@")
_SWAPPED = (
    (b"new file mode ", b"deleted file mode "),
    (b"old mode ", b"new mode "),
    (b"rename from ", b"rename to "),
    (b"--- ", b"+++ "),
)
_NO_END = b"\\"


def reversed_patch(patch: bytes) -> bytes:
    """Return the patch that undoes another."""
    lines = patch.split(b"\n")
    if any(line == b"GIT binary patch" or line.startswith(b"Binary files ") for line in lines):
        raise field_error("patch", "has a binary section: it can't be turned round into the fix")
    done: list[bytes] = []
    header: list[bytes] = []
    hunk: list[bytes] = []
    left = [0, 0]
    for line in lines:
        if any(left) or (hunk and line.startswith(_NO_END)):
            hunk.append(line)
            left = [
                left[0] - line.startswith((b"-", b" ")) - (not line),
                left[1] - line.startswith((b"+", b" ")) - (not line),
            ]
            continue
        done += _turned_hunk(hunk)
        hunk = []
        if (sizes := _HUNK.match(line)) is not None:
            done += _turned_header(header)
            header = []
            done.append(b"@@ -%b +%b @@%b" % (sizes[2], sizes[1], line[sizes.end() :]))
            left = [_size(sizes[1]), _size(sizes[2])]
        else:
            header.append(line)
    return b"\n".join([*done, *_turned_hunk(hunk), *_turned_header(header)])


def _size(part: bytes) -> int:
    _, comma, size = part.partition(b",")
    return int(size) if comma else 1


def _turned_hunk(lines: Iterable[bytes]) -> list[bytes]:
    """Turn a hunk round; of each changed block, what is removed comes first."""
    turned: list[bytes] = []
    removed: list[bytes] = []
    added: list[bytes] = []
    last = turned
    for line in lines:
        if line.startswith(b"+"):
            last = removed
            removed.append(b"-" + line[1:])
        elif line.startswith(b"-"):
            last = added
            added.append(b"+" + line[1:])
        elif line.startswith(_NO_END):
            last.append(line)
        else:
            turned += [*removed, *added]
            removed.clear()
            added.clear()
            last = turned
            turned.append(line)
    return [*turned, *removed, *added]


def _turned_header(lines: list[bytes]) -> list[bytes]:
    turned = [_turned_line(line) for line in lines]
    for first, second in _SWAPPED:
        for index in range(len(turned) - 1):
            if turned[index].startswith(second) and turned[index + 1].startswith(first):
                turned[index], turned[index + 1] = turned[index + 1], turned[index]
    return turned


def _turned_line(line: bytes) -> bytes:
    if (match := re.fullmatch(rb"diff --git a/(.*) b/(.*)", line)) is not None:
        return b"diff --git a/%b b/%b" % (match[2], match[1])
    if (match := re.match(rb"index ([0-9a-f]+)\.\.([0-9a-f]+)", line)) is not None:
        return b"index %b..%b%b" % (match[2], match[1], line[match.end() :])
    for pair in _SWAPPED:
        for here, there in (pair, pair[::-1]):
            if line.startswith(here):
                name = line[len(here) :]
                side = {b"--- ": (b"a/", b"b/"), b"+++ ": (b"b/", b"a/")}.get(here)
                if side is not None and name.startswith(side[0]):
                    name = side[1] + name[2:]
                return there + name
    return line
