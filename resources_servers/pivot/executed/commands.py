"""What the calls of both sides say: the words that an output may only give back, and whether looks are among them.

Texts   a here-document that `cat` or `tee` writes is no word of a command: what a script in it prints is shown. Only
        its own lines are said (`tee` prints them).
Changes an action only changes files where its programs are known to do just that (git's, `patch`, `black` and others
        among them). What they print is a report of the change, which other means of the same change do not write.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from paddock.resources_servers.pivot.semantic.intents import intents_of
from paddock.resources_servers.pivot.semantic.intents.file_changes import FILE_CHANGES
from paddock.resources_servers.pivot.semantic.intents.test_runs import TEST_RUNS
from paddock.shell import Simple, parse, simple_commands
from paddock.shell.documents import lift
from paddock.shell.memo import memo
from paddock.tools import Action, Edit, ShellCommand

_CHANGERS = re.compile(
    r":|autopep8|black|cd|ch(mod|own)|cp|echo|export|isort|ln|mkdir|mv|patch|printf|rm|rmdir|set|tee|touch|true|truncate|"
    r"unlink"
)
_GIT_CHANGERS = re.compile(r"add|am|apply|checkout|cherry-pick|clean|commit|config|merge|mv|reset|restore|rm|stash")
_IN_PLACE = ("-i", "-pi", "--in-place")
_GIT_LOOKS = ("list", "show")


class CommandTexts(NamedTuple):
    """What one side's commands say."""

    whole: str
    """The text of all its commands, with its blanks as one."""
    spoken: str
    """The same without the texts that `cat` and `tee` write."""
    echoed: str
    """The words of `echo` and `printf`."""
    documents: tuple[str, ...]
    """The lines of the texts that `cat` and `tee` write."""
    only_changes: bool
    """Whether it is known to do nothing but to change files."""

    def holds(self, line: str) -> bool:
        """Whether it says a line, other than in a text that it writes."""
        return is_printed(line, self.spoken)


class Commands(NamedTuple):
    """What both sides asked for, as far as a comparison of their runs needs it."""

    expected: CommandTexts
    actual: CommandTexts
    runs_tests: bool
    """Whether the policy's are known to be runs of tests."""


_MAX_PLACES = 50


def is_printed(line: str, printed: str) -> bool:
    """Whether a text holds a line, and not only inside of a longer word (`test` in `/testbed`).

    Where it stands in `_MAX_PLACES` such words, it is taken for said.
    """
    at = printed.find(line)
    for _ in range(_MAX_PLACES):
        if at < 0 or not (_is_word(printed[at - 1 : at]) or _is_word(printed[at + len(line) : at + len(line) + 1])):
            return at >= 0
        at = printed.find(line, at + 1)
    return True


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def read_commands(wanted: Sequence[Action | None], given: Sequence[Action | None], workdir: str) -> Commands:
    """Read what both sides asked for."""
    with memo():
        return Commands(command_texts(wanted, workdir), command_texts(given, workdir), run_tests(given, workdir))


def command_texts(actions: Sequence[Action | None], workdir: str) -> CommandTexts:
    """Read what the calls of one side say."""
    commands = [action.command for action in actions if isinstance(action, ShellCommand)]
    spoken, documents, echoed = [], [], []
    for command in commands:
        written = list(_documents(command))
        documents += [line for body in written for line in body.splitlines()]
        for body in written:
            command = command.replace(body, "", 1)
        spoken.append(command)
        echoed += [
            word.text or ""
            for one in simple_commands(parse(command))
            if _name(one) in ("echo", "printf")
            for word in one.words[1:]
        ]
    return CommandTexts(
        _joined(commands),
        _joined(spoken),
        _joined(echoed),
        tuple(documents),
        all(_only_changes(action, workdir) for action in actions if action is not None),
    )


def run_tests(actions: Sequence[Action | None], workdir: str) -> bool:
    """Whether actions are known to be runs of tests, beside which they may change files."""
    intents = [intents_of(action, workdir) if action is not None else () for action in actions]
    kinds = [intent.kind for own in intents for intent in own]
    return all(intents) and TEST_RUNS in kinds and all(kind in (TEST_RUNS, FILE_CHANGES) for kind in kinds)


def _documents(command: str) -> list[str]:
    """Return the bodies of the here-documents that `cat` and `tee` write, as they stand in the text."""
    bodies = [document.body for document in lift(command).documents]
    writes = [
        _writes(one) for one in simple_commands(parse(command)) for redirect in one.redirects if redirect.op == "<<"
    ]
    return [body for body, written in zip(bodies, writes, strict=True) if written] if len(bodies) == len(writes) else []


def _writes(command: Simple) -> bool:
    return _name(command) == "tee" or (_name(command) == "cat" and any(">" in one.op for one in command.redirects))


def _only_changes(action: Action, workdir: str) -> bool:
    if not isinstance(action, ShellCommand):
        return isinstance(action, Edit)
    if (intents := intents_of(action, workdir)) and all(intent.kind is FILE_CHANGES for intent in intents):
        return True
    script = parse(action.command)
    return not script.error and all(map(_changes, simple_commands(script)))


def _changes(command: Simple) -> bool:
    words = [word.text or "" for word in command.words]
    match words:
        case ["git", "stash", kind, *_]:
            return kind not in _GIT_LOOKS
        case ["git", kind, *_]:
            return _GIT_CHANGERS.fullmatch(kind) is not None
        case ["sed" | "perl", *options]:
            return any(option.startswith(_IN_PLACE) for option in options)
        case [name, *_]:
            return _CHANGERS.fullmatch(name) is not None or _writes(command)
        case _:
            return True


def _name(command: Simple) -> str:
    return (command.words[0].text or "") if command.words else ""


def _joined(texts: Sequence[str]) -> str:
    return " ".join(" ".join(texts).split())
