"""Lines of a file that somebody else appends to.

Law     only whole lines are given. A file that has shrunk, or is another one under the same name, is read anew from its
        start, and its reader is told by `restarts`.
Errors  OSError of the disk; a missing file has no lines.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from paddock.collect.lines import Fault, LineSpan, StoredLine, check

CHUNK = 1 << 22
"""Bytes that are read at a time."""


class GrowingFile:
    """One reader's position in one journal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.restarts = 0
        """How often the file had to be read from its start again."""
        self._file_id: tuple[int, int] | None = None
        self._last = LineSpan(0, 0, 0)

    def new_lines(self) -> Iterator[StoredLine]:
        """Each whole line after those that were read."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            self._restart(None)
            return
        with file:
            status = os.fstat(file.fileno())
            file_id = (status.st_dev, status.st_ino)
            if file_id != self._file_id or status.st_size < self._last.end:
                self._restart(file_id)
            file.seek(self._last.end)
            rest = [b""]
            while chunk := file.read(CHUNK):
                head, newline, chunk = chunk.partition(b"\n")
                rest.append(head)
                if newline:
                    *lines, last = (b"".join(rest) + newline + chunk).split(b"\n")
                    rest = [last]
                    for line in lines:
                        yield self._line(line + b"\n")

    def _line(self, data: bytes) -> StoredLine:
        before = self._last
        self._last = LineSpan(before.number + 1, before.end, before.end + len(data))
        try:
            return StoredLine(self._last, data, check(data, older=True), None)
        except Fault as fault:
            return StoredLine(self._last, data, 0, fault)

    def _restart(self, file_id: tuple[int, int] | None) -> None:
        if self._file_id is not None:
            self.restarts += 1
        self._file_id, self._last = file_id, LineSpan(0, 0, 0)
