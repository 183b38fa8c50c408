"""Commands that do nothing but print a file, or a range of its lines.

Source  `cat F`, `cat -n F`, `nl -ba F`, `head F`, `head -N F`, `head -n N F`, `sed -n A,Bp F`, each alone or after
        `cd D &&`.
Errors  None: the command is something else.
"""

import re
from typing import NamedTuple

from paddock.resources_servers.pivot.semantic.paths import resolve
from paddock.tools import ShellCommand, plain_command

_RANGE = re.compile(r"(\d+)(?:,(\d+|\$))?p")


class FileView(NamedTuple):
    """The lines of a file that a command prints."""

    path: str
    """Resolved."""
    first_line: int = 1
    whole: bool = False
    """True: all of the file is shown."""
    numbered: bool = False
    """True: each line has its number in front."""


def file_view_of(command: ShellCommand, cwd: str | None) -> FileView | None:
    """Return what of which file a command shows; None: it does something else."""
    plain = plain_command(command.command)
    if plain is None or plain.command.redirects:
        return None
    texts = [word.text for word in plain.command.words]
    program, *flags = [text for text in texts if text is not None]
    if len(flags) + 1 != len(texts) or not flags or flags[-1].startswith("-"):
        return None
    where = resolve(command.workdir, cwd) if command.workdir else cwd
    if plain.folder is not None:
        where = resolve(plain.folder, where)
    path = flags.pop()
    shown = _range_of(program, flags)
    return shown._replace(path=resolve(path, where)) if shown else None


def _range_of(program: str, flags: list[str]) -> FileView | None:
    match program, flags:
        case "cat", []:
            return FileView("", whole=True)
        case ("cat", ["-n"]) | ("nl", ["-ba"] | ["-b", "a"]):
            return FileView("", whole=True, numbered=True)
        case "head", []:
            return FileView("")
        case "head", ["-n", count] if count.isdigit():
            return FileView("")
        case "head", [flag] if flag[:1] == "-" and flag[1:].removeprefix("n").isdigit():
            return FileView("")
        case "sed", ["-n", script]:
            lines = _RANGE.fullmatch(script)
            return FileView("", int(lines[1])) if lines and int(lines[1]) else None
    return None
