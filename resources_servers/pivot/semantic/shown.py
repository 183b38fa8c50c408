"""Commands that do nothing but print a file, or a range of its lines.

Source  `cat F`, `cat -n F`, `nl -ba F`, `head F`, `head -N F`, `head -n N F`, `sed -n A,Bp F`, each alone or after
        `cd D &&`.
Errors  None: the command is something else.
"""

import re
from typing import NamedTuple

from paddock.resources_servers.pivot.semantic.paths import resolve
from paddock.shell import Simple, parse
from paddock.shell.syntax import AndOr
from paddock.tools import Shell

_RANGE = re.compile(r"(\d+)(?:,(\d+|\$))?p")


class Shown(NamedTuple):
    path: str
    """Resolved."""
    first_line: int = 1
    whole: bool = False
    """True: all of the file is shown."""
    numbered: bool = False
    """True: each line has its number in front."""


def shown_range(command: Shell, cwd: str | None) -> Shown | None:
    """What of which file a command shows."""
    argv, folder = _argv(command.command)
    if not argv:
        return None
    where = resolve(command.workdir, cwd) if command.workdir else cwd
    if folder is not None:
        where = resolve(folder, where)
    *flags, path = argv[1:] if len(argv) > 1 else [""]
    if not path or path.startswith("-"):
        return None
    shown = _range_of(argv[0], flags)
    return shown._replace(path=resolve(path, where)) if shown else None


def _range_of(program: str, flags: list[str]) -> Shown | None:
    match program, flags:
        case "cat", []:
            return Shown("", whole=True)
        case ("cat", ["-n"]) | ("nl", ["-ba"] | ["-b", "a"]):
            return Shown("", whole=True, numbered=True)
        case "head", []:
            return Shown("")
        case "head", ["-n", count] if count.isdigit():
            return Shown("")
        case "head", [flag] if flag[:1] == "-" and flag[1:].removeprefix("n").isdigit():
            return Shown("")
        case "sed", ["-n", script]:
            found = _RANGE.fullmatch(script)
            return Shown("", int(found[1])) if found and int(found[1]) else None
    return None


def _argv(command: str) -> tuple[list[str], str | None]:
    """The words of the one simple command, and the directory of a `cd` before it; no words when there is more."""
    script = parse(command)
    if script.error is not None or len(script.statements) != 1:
        return [], None
    node = script.statements[0].node
    folder = None
    if isinstance(node, AndOr) and len(node.rest) == 1 and node.rest[0][0] == "&&":
        entered = _words(node.first)
        if len(entered) != 2 or entered[0] != "cd":
            return [], None
        folder, node = entered[1], node.rest[0][1]
    return _words(node), folder


def _words(node: object) -> list[str]:
    if not isinstance(node, Simple) or node.assigns or node.redirects:
        return []
    texts = [word.text for word in node.words]
    return [text for text in texts if text is not None] if None not in texts else []
