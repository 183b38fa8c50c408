"""The `*** Begin Patch` grammar of Codex's apply_patch, read as the program reads it (version 0.169.0).

Source    the Lark grammar that Codex sends with the tool; by trial of the program, the forms that it accepts beyond the
          grammar, and its messages.
Lenient   whitespace around the patch, around the two markers and around file headers; a heredoc (`<<EOF`, `<<'EOF'`,
          `<<"EOF"`) around all; carriage returns at line ends; the first hunk without `@@`; an empty line for an empty
          context line; blank lines after `*** End of File`; an added file without lines; the end marker twice.
Strict    anything else is a PatchError with the line, counted from `*** Begin Patch` as line 1.
Empty     a patch without files is read as no edits; the program then refuses to apply it ("No files were modified.").
"""

from collections.abc import Sequence

from paddock.edits.errors import PatchError
from paddock.edits.lines import WHITE
from paddock.edits.model import Delete, Edit, Hunk, Hunks, Write

BEGIN, END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE = "*** Add File: ", "*** Delete File: ", "*** Update File: "
_HEADERS = (_ADD, _DELETE, _UPDATE)
_MOVE, _EOF = "*** Move to: ", "*** End of File"
_LAST_LINE = f"The last line of the patch must be '{END}'"
_HEREDOCS = ("<<EOF", "<<'EOF'", '<<"EOF"')


def parse_codex_patch(text: str) -> list[Edit]:
    """The edits of one patch, in order; PatchError when it is not one."""
    lines = _body(text)
    edits: list[Edit] = []
    at = 0
    while at < len(lines):
        header = lines[at].strip(WHITE)
        marker = _marker(header)
        path = header[len(marker) :]
        if marker == _ADD:
            end = _added_end(lines, at)
            edits.append(Write(path, "".join(line[1:] + "\n" for line in lines[at + 1 : end])))
        elif marker == _DELETE:
            end = at + 1
            edits.append(Delete(path))
        elif marker == _UPDATE:
            end = _update_end(lines, at)
            edits.append(_update(path, lines, at, end))
        elif header == END:
            if any(line.strip(WHITE) for line in lines[at + 1 :]):
                raise PatchError(_LAST_LINE)
            break
        else:
            valid = ", ".join(f"'{marker}{{path}}'" for marker in _HEADERS)
            raise PatchError(f"'{header}' is not a valid hunk header. Valid hunk headers: {valid}", at + 2)
        at = end
    return edits


def _body(text: str) -> list[str]:
    """The lines between the two markers."""
    lines = [line.rstrip("\r") for line in text.strip(WHITE).split("\n")]
    problem = _boundary_problem(lines)
    if problem and len(lines) >= 4 and lines[0] in _HEREDOCS and lines[-1].endswith("EOF"):
        lines = lines[1:-1]
        problem = _boundary_problem(lines)
    if problem:
        raise PatchError(problem)
    return lines[1:-1]


def _boundary_problem(lines: Sequence[str]) -> str | None:
    if lines != [""] and lines[0].strip(WHITE) != BEGIN:
        return f"The first line of the patch must be '{BEGIN}'"
    if len(lines) < 2 or lines[-1].strip(WHITE) != END:
        return _LAST_LINE
    return None


def _marker(header: str) -> str:
    return next((marker for marker in _HEADERS if header.startswith(marker)), "")


def _added_end(lines: Sequence[str], at: int) -> int:
    end = at + 1
    while end < len(lines) and lines[end].startswith("+"):
        end += 1
    return end


def _update_end(lines: Sequence[str], at: int) -> int:
    """The next header or end marker in the first column: after a space it would be a context line."""
    end = at + 1
    while end < len(lines) and not _marker(bare := lines[end].rstrip(WHITE)) and bare != END:
        end += 1
    return end


def _update(path: str, lines: Sequence[str], at: int, end: int) -> Hunks:
    first = at + 1
    move_to = None
    if first < end and (bare := lines[first].rstrip(WHITE)).startswith(_MOVE):
        move_to = bare[len(_MOVE) :]
        first += 1
    hunks = _HunkReader()
    for index in range(first, end):
        hunks.feed(lines[index], index + 2)
    if hunks.is_bare() and end < len(lines) and lines[end].rstrip(WHITE) != END:
        raise _unexpected(lines[end].rstrip(WHITE), end + 2)
    hunks.close(end + 2)
    if not hunks.done:
        raise PatchError(f"Update file hunk for path '{path}' is empty", at + 2)
    return Hunks(path, tuple(hunks.done), move_to)


class _HunkReader:
    """The hunks of one update, line by line. At any time one hunk is open or none is."""

    def __init__(self) -> None:
        self.done: list[Hunk] = []
        self._open: list[str] | None = None
        self._anchor: str | None = None

    def is_bare(self) -> bool:
        """True: a hunk's header was read and none of its lines."""
        return self._open == []

    def feed(self, line: str, number: int) -> None:
        bare = line.rstrip(WHITE)
        if bare == _EOF:
            self._end_of_file(line, number)
        elif (bare == "@@" or bare.startswith("@@ ")) and not self.is_bare():
            self.close(number)
            self._open, self._anchor = [], bare[3:] or None
        elif self._open is None and self.done:
            if bare:
                raise _no_header(line, number)
        elif line and line[0] not in " +-":
            raise _no_header(line, number) if self._open else _unexpected(line, number)
        else:
            self._open = self._open or []
            self._open.append(line or " ")

    def _end_of_file(self, line: str, number: int) -> None:
        if self._open is None and self.done:
            raise _no_header(line, number)
        self.close(number, at_end=True)

    def close(self, number: int, *, at_end: bool = False) -> None:
        if self._open is None:
            return
        if not self._open:
            raise PatchError("Update hunk does not contain any lines", number)
        self.done.append(Hunk(tuple(self._open), self._anchor, at_end=at_end))
        self._open, self._anchor = None, None


def _no_header(line: str, number: int) -> PatchError:
    return PatchError(f"Expected update hunk to start with a @@ context marker, got: '{line}'", number)


def _unexpected(line: str, number: int) -> PatchError:
    return PatchError(
        f"Unexpected line found in update hunk: '{line}'. Every line should start with "
        "' ' (context line), '+' (added line), or '-' (removed line)",
        number,
    )
