"""Reads the lines of a file that tools have shown, as a known range of it.

Source   outputs of `cat -n` and `nl -ba`; of OpenHands' str_replace_editor and file_editor; of OpenCode's read, today's
         (`40: code`) and earlier (`00040| code`); any of them as Codex's exec_command returns it, under a header.
Reading  lines that are numbered one by one, from the output's first line or after one that ends in ":" or ">". They end
         where the numbers do, or before a line that the tool has cut short. A file whose own
         lines look so is taken for numbered: the caller must know which tool gave the output.
Whole    a file is known to be complete only where the output says that it ends there, and the run begins at line 1.
Errors   none: an output without numbered lines gives None.
"""

import re
from collections.abc import Iterable, Sequence

from paddock.edits.model import KnownText, split_lines

_NUMBERED = (
    re.compile(r" *(\d{1,9})\t(.*)", re.DOTALL),
    re.compile(r" *(\d{1,9})\| (.*)", re.DOTALL),
    re.compile(r" *(\d{1,9}): (.*)", re.DOTALL),
)
_CUT = re.compile(r"<response clipped>|.{1900,}\.\.\.(?: \(line truncated to \d+ chars\))?$", re.DOTALL)
_EXEC_HEADER = re.compile(r"(?:(?:Chunk ID|Wall time|Process|Original token count|Exit code)\b.*\n)*Output:\n")
_FILE_ENDS = "(End of file"


def strip_exec_header(output: str) -> str:
    """The command's own output in what Codex's shell tools return; anything else as it is."""
    header = _EXEC_HEADER.match(output)
    return output[header.end() :] if header else output


def parse_numbered(output: str) -> KnownText | None:
    """The lines of a file that a tool's output shows with their numbers; None when it shows none."""
    lines = strip_exec_header(output).split("\n")
    for start, line in enumerate(lines):
        if start and not lines[start - 1].endswith((":", ">")):
            continue
        for numbered in _NUMBERED:
            if first := numbered.fullmatch(line):
                return _run(lines, start, numbered, int(first[1]))
    return None


def _run(lines: Sequence[str], start: int, numbered: re.Pattern[str], first_line: int) -> KnownText | None:
    texts: list[str] = []
    rest = start
    for rest in range(start, len(lines)):
        match = numbered.fullmatch(lines[rest])
        if not match or int(match[1]) != first_line + len(texts) or _CUT.match(match[2]):
            break
        texts.append(match[2])
    if not texts:
        return None
    complete = first_line == 1 and any(line.startswith(_FILE_ENDS) for line in lines[rest : rest + 3])
    # A last number without text is how str_replace_editor shows that the file ends in a newline.
    return KnownText(first_line, "\n".join(texts) + ("\n" if texts[-1] else ""), complete)


def assemble(views: Iterable[KnownText]) -> KnownText | None:
    """The views of one file, oldest first, as one range around the newest one; None when there are none.

    An older view is joined where it adjoins or overlaps with equal lines; one with other lines is out of date.
    """
    newest_first = list(views)[::-1]
    if not newest_first:
        return None
    text, waiting = newest_first[0], newest_first[1:]
    while not text.complete:
        joined = next(
            ((view, both) for view in waiting if (both := _join_ranges(text, view)) is not None and both != text),
            None,
        )
        if joined is None:
            break
        text = joined[1]
        waiting.remove(joined[0])
    return text


def _join_ranges(left: KnownText, right: KnownText) -> KnownText | None:
    """Both ranges as one; None when they disagree or leave a gap."""
    first, second = sorted((left, right), key=lambda text: text.first_line)
    head, tail = split_lines(first.text), split_lines(second.text)
    offset = second.first_line - first.first_line
    if offset > len(head):
        return None
    shared = min(len(head) - offset, len(tail))
    if head[offset : offset + shared] != tail[:shared]:
        return None
    if first.complete and len(tail) > shared:
        return None
    lines = head + tail[shared:]
    return KnownText(first.first_line, "".join(line + "\n" for line in lines), first.complete)
