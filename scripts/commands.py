"""Writes docs/commands.md: every command with its arguments, from the parsers that read them.

Usage   python scripts/commands.py [--check]: with --check nothing is written, and a page that is not as the parsers
        say, or an argument without a meaning, exits 1.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from paddock.cli import COMMANDS, command_parser

PAGE = Path(__file__).resolve().parent.parent / "docs" / "commands.md"
HEAD = """\
# Commands

Every command with its arguments, from the parsers that read them. This page is made by `python scripts/commands.py`.
`paddock COMMAND --help` says the same in a terminal, with examples. `paddock completion bash` (or `zsh`, `fish`) prints
a script that completes all of it in a shell; `paddock completion --help` says where it goes.
"""


def main(*words: str) -> int:
    missing = [where for name in COMMANDS for where in _unexplained(command_parser(name))]
    for where in missing:
        print(f"{where}: no help")
    text = "\n".join([HEAD, *(line for name in COMMANDS for line in _command(command_parser(name), 2))])
    if "--check" in words:
        stale = not PAGE.is_file() or PAGE.read_text() != text
        if stale:
            print(f"{PAGE.name} is not as the parsers say: python scripts/commands.py")
        return int(stale or bool(missing))
    PAGE.write_text(text)
    print("commands: ok")
    return int(bool(missing))


def _command(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    yield f"{'#' * level} `{parser.prog}`\n"
    if parser.description:
        yield f"{parser.description}\n"
    rows = [action for action in parser._actions if not _is_help(action) and not _subparsers(action)]
    if rows:
        yield from ("| argument | |", "|---|---|")
        yield from (f"| {_names(action)} | {_meaning(action)} |" for action in rows)
        yield ""
    for action in parser._actions:
        for inner in _subparsers(action):
            yield from _command(inner, level + 1)


def _unexplained(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        for inner in _subparsers(action):
            yield from _unexplained(inner)
        if not _subparsers(action) and not action.help:
            yield f"{parser.prog} {_names(action)}"


def _subparsers(action: argparse.Action) -> list[argparse.ArgumentParser]:
    if not isinstance(action, argparse._SubParsersAction):
        return []
    return list(dict.fromkeys(action.choices.values()))


def _is_help(action: argparse.Action) -> bool:
    return isinstance(action, argparse._HelpAction)


def _names(action: argparse.Action) -> str:
    metavar = action.metavar or (",".join(map(str, action.choices)) if action.choices else action.dest.upper())
    value = (" ".join(metavar) if isinstance(metavar, tuple) else metavar).replace("|", "\\|")
    if not action.option_strings:
        return f"`{value}`"
    takes = "" if action.nargs == 0 else f" {value}"
    return ", ".join(f"`{name}{takes}`" for name in action.option_strings)


def _meaning(action: argparse.Action) -> str:
    text = (action.help or "") % {**vars(action), "prog": "paddock"}
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
