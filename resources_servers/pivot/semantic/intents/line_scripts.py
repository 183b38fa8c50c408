"""Scripts of `sed` and `awk` that print some lines of a text and nothing else.

Shapes  `sed_lines` and `awk_lines` read a script's text and give what it prints.
Errors  None: the script does something else.
"""

import re
from typing import NamedTuple

from paddock.resources_servers.pivot.semantic.intents.line_ranges import WHOLE, LineRange
from paddock.shell import take


class ScriptLines(NamedTuple):
    """The lines that a script prints, in that order."""

    ranges: tuple[LineRange, ...]
    numbered: bool = False
    """True: with their numbers."""


_NUMBER = r"[0-9]{1,9}"
_SED_COMMAND = re.compile(rf"(?:({_NUMBER}|\$)(?:\s*,\s*(\+?{_NUMBER}|\$))?)?\s*(p|q|!d|d)")
_SED_NUMBERS = re.compile(r"\{\s*+=\s*+;\s*+p\s*+;?\s*+\}")


def sed_lines(script: str, *, quiet: bool) -> ScriptLines | None:
    """Read `A,Bp`, several of them, `Nq`, `A,B!d`, `1,Nd` and `N,$d`; `quiet`: nothing is printed unless told."""
    take(len(script))
    text, numbers = _SED_NUMBERS.subn("p", script)
    commands = [part.strip() for part in re.split(r"[;\n]", text) if part.strip()]
    quits = commands.pop() if commands and commands[-1].endswith("q") else None
    if not quiet and commands:
        found = _one_deletion(commands)
    else:
        printed = [_sed_range(command, "p") for command in commands] if quiet else [WHOLE]
        found = [lines for lines in printed if lines is not None] if None not in printed else []
    if quits is not None:
        at = _sed_range(quits, "q")
        if at is None or at.first != at.last or any(lines.tail is not None for lines in found):
            return None
        cut = [lines.cut(LineRange(1, at.first - lines.first + 1)) for lines in found]
        found = [lines for lines in cut if lines is not None]
    return ScriptLines(tuple(found), numbered=numbers > 0) if found and (commands or quits) else None


def _one_deletion(commands: list[str]) -> list[LineRange]:
    if len(commands) != 1:
        return []
    kept = _sed_range(commands[0], "!d")
    if kept is not None:
        return [kept]
    gone = _sed_range(commands[0], "d")
    if gone is None or gone.tail is not None or (gone.first == 1) == (gone.last is None):
        return []
    return [LineRange(gone.last + 1) if gone.last is not None else LineRange(1, gone.first - 1)]


def _sed_range(command: str, action: str) -> LineRange | None:
    found = _SED_COMMAND.fullmatch(command)
    if found is None or found[3] != action:
        return None
    first, last = found[1], found[2]
    if first is None:
        return WHOLE if action == "p" else None
    if first == "$":
        return LineRange(1, None, 1) if last is None else None
    start = int(first)
    if start == 0:
        return None
    if last is None or last == "$":
        return LineRange(start, start if last is None else None)
    return LineRange(start, start + int(last[1:]) if last[0] == "+" else max(int(last), start))


_AWK = re.compile(
    rf"(?:NR(?P<start_op>>=|>|==)(?P<start>{_NUMBER}))?(?P<both>&&)?(?:NR(?P<end_op><=|<)(?P<end>{_NUMBER}))?"
    rf"(?:,NR==(?P<until>{_NUMBER}))?(?P<block>\{{[^{{}}\n]*\}})?"
)
_AWK_PLAIN = frozenset({"", "{print}", "{print$0}", "{print;}", "{print$0;}"})
_AWK_NUMBERED = re.compile(
    r'\{(?:print\(?F?NR,?(?:"[^"\\]*(?:\\t)?")?,?\$0\)?|printf\(?"[^"%]*%-?\d*d[^"%]*%s\\n",F?NR,\$0\)?);?\}'
)
_AWK_OTHER_NAME = re.compile(r"printF?NR|print[ \t]+f")
"""Words that come to look like a `print` where blanks are dropped."""


def awk_lines(script: str) -> ScriptLines | None:
    """Read `NR>=A && NR<=B`, `NR==A`, `NR==A,NR==B` with nothing or a `print` of the line behind it."""
    # Blanks only set words apart here, or are in the text behind a number.
    program = re.sub(r"[ \t]+", "", script)
    found = _AWK.fullmatch(program)
    if found is None or not program or _AWK_OTHER_NAME.search(script):
        return None
    block = found["block"] or ""
    numbered = _AWK_NUMBERED.fullmatch(block) is not None
    lines = _awk_range(found) if numbered or block in _AWK_PLAIN else None
    return ScriptLines((lines,), numbered=numbered) if lines is not None else None


def _awk_range(found: re.Match[str]) -> LineRange | None:
    start, end, until = (int(found[name]) if found[name] else None for name in ("start", "end", "until"))
    if (found["both"] is not None) != (start is not None and end is not None):
        return None
    if found["start_op"] == "==":
        if not start or end is not None or (until is not None and until < start):
            return None
        return LineRange(start, start if until is None else until)
    first = max(start + (found["start_op"] == ">"), 1) if start is not None else 1
    last = end - (found["end_op"] == "<") if end is not None else None
    return LineRange(first, last) if until is None and (last is None or last >= first) else None
