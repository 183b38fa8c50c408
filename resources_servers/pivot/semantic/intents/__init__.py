"""What calls are for, whatever they are made with: a look at files, a search, a change of files, a run of tests.

Law     two calls are the same when they are for the same things: each thing of the expert's is met by one of the
        policy's and none is left over. Looks may come in any order; what changes files keeps its place.
Limits  a bound of the policy's call on time or output that may cut what the expert's shows is not the same.
Shapes  `intents_of` reads an action as a row of records of the kinds in `KINDS`; `compare_intents` compares two rows.
Errors  none: an action with a part that no kind can read has no intents, and nothing is said of it.
"""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from paddock.edits import KnownText
from paddock.resources_servers.pivot.assignment import maximum_matching
from paddock.resources_servers.pivot.semantic.commands import tighter
from paddock.resources_servers.pivot.semantic.intents.bare_commands import BareCommand, bare_commands
from paddock.resources_servers.pivot.semantic.intents.file_changes import (
    FILE_CHANGES,
    changed,
    only_writes,
    runs_unknown_script,
    written_by,
)
from paddock.resources_servers.pivot.semantic.intents.file_searches import FILE_SEARCHES
from paddock.resources_servers.pivot.semantic.intents.kinds import IntentKind, Surroundings
from paddock.resources_servers.pivot.semantic.intents.listings import LISTINGS
from paddock.resources_servers.pivot.semantic.intents.programs import PROGRAMS, may_write
from paddock.resources_servers.pivot.semantic.intents.searches import TEXT_SEARCHES
from paddock.resources_servers.pivot.semantic.intents.test_runs import TEST_RUNS
from paddock.resources_servers.pivot.semantic.intents.views import VIEWS
from paddock.resources_servers.pivot.semantic.match_results import SAME, MatchResult, describe, differ
from paddock.resources_servers.pivot.semantic.outputs import plain_output
from paddock.resources_servers.pivot.semantic.paths import resolve
from paddock.shell import once, take
from paddock.tools import Action, ShellCommand, same_json

__all__ = ["Intent", "Surroundings", "changed_texts", "compare_intents", "intents_of"]

KINDS: tuple[IntentKind, ...] = (
    VIEWS,
    LISTINGS,
    TEXT_SEARCHES,
    FILE_SEARCHES,
    FILE_CHANGES,
    TEST_RUNS,
    PROGRAMS,
)
"""In the order in which they are asked; the first that can read a call has it."""

_MAX_INTENTS = 16
"""Things that one call may be for; what is for more is compared by its text."""
_STEPS_PER_PAIR = 4


class Intent(NamedTuple):
    """One thing that a call is for."""

    kind: IntentKind
    record: Any
    """Of the class `kind.record`."""


def intents_of(action: Action, cwd: str | None) -> tuple[Intent, ...]:
    """Return what an action is for, in order; empty: not all of it is known. `cwd`: where its tool runs, if known."""
    if isinstance(action, ShellCommand):
        directory = resolve(action.workdir, cwd) if action.workdir else cwd
        return once(("intents", action.command, directory), lambda: _of_script(action.command, directory))
    return next((_intents(kind, record) for kind in KINDS if (record := kind.of_action(action, cwd)) is not None), ())


_SHELL_FAILURE = re.compile(r"^(?:/(?:usr/)?bin/)?(?:ba|da|z)?sh: ", re.MULTILINE)
_FAILURE = re.compile(r"No such file|[Pp]ermission denied|Traceback|Error\b|[Cc]annot|can't|\bfailed\b")


def changed_texts(
    command: ShellCommand, output: str, cwd: str | None, path: str, texts: Sequence[KnownText]
) -> list[KnownText] | None:
    """Return what the texts known of a file become by a command; None: it may change it in other ways, or failed.

    Programs that run behind the changes are taken to leave the file as it is, unless they are known to change files or
    are given its name;
    how they end does not matter where the changes before them are texts given whole.
    """
    intents = intents_of(command, cwd)
    if not intents or (any(intent.kind is FILE_CHANGES for intent in intents) and _failed(intents, output)):
        return None
    known: list[KnownText] | None = list(texts)
    for intent in intents:
        if intent.kind is FILE_CHANGES and known is not None:
            known = changed(intent.record, path, known)
        elif intent.kind is PROGRAMS and may_write(intent.record, path):
            return []
    return known


def _failed(intents: Sequence[Intent], output: str) -> bool:
    first = intents[0]
    if len(intents) > 1 and first.kind is FILE_CHANGES and only_writes(first.record):
        return _SHELL_FAILURE.search(output) is not None
    return plain_output(output) is None or _FAILURE.search(output) is not None


def _of_script(command_line: str, directory: str | None) -> tuple[Intent, ...]:
    commands = bare_commands(command_line, directory) or ()
    read = [_of_command(command, KINDS) for command in commands]
    written = {
        path for found in read for intent in found if intent.kind is FILE_CHANGES for path in written_by(intent.record)
    }
    intents: list[Intent] = []
    for command, found in zip(commands, read, strict=True):
        if len(found) == 1 and found[0].kind is FILE_CHANGES and runs_unknown_script(found[0].record, written):
            found = _of_command(command, (TEST_RUNS, PROGRAMS))
        if not found:
            return ()
        intents.extend(found)
    return _joined(intents)


def _of_command(command: BareCommand, kinds: Sequence[IntentKind]) -> tuple[Intent, ...]:
    for kind in kinds:
        record = kind.of_command(command)
        if record is not None:
            return _intents(kind, record)
    return ()


def _intents(kind: IntentKind, record: Any) -> tuple[Intent, ...]:
    return tuple(Intent(kind, one) for one in (record if isinstance(record, list) else [record]))


def _joined(intents: Sequence[Intent]) -> tuple[Intent, ...]:
    """Join records of a kind that stand in a row; where nothing changes files, the order of kinds is free."""
    if not any(intent.kind.changes for intent in intents):
        intents = sorted(intents, key=lambda intent: KINDS.index(intent.kind))
    found: list[Intent] = []
    for kind, group in groupby(intents, lambda intent: intent.kind):
        records = [intent.record for intent in group]
        found.extend(Intent(kind, record) for record in (kind.join(records) if kind.join else records))
    return tuple(found)


def compare_intents(expected: Action, actual: Action, surroundings: Surroundings) -> MatchResult | None:
    """Compare what two actions are for; None: of one of them it is not known."""
    if _shell_arguments_differ(expected, actual):
        return None
    cwd = surroundings.options.cwd
    wanted = intents_of(expected, cwd)
    given = intents_of(actual, cwd) if wanted else ()
    if not wanted or not given:
        return None
    if max(len(wanted), len(given)) > _MAX_INTENTS:
        return None
    take(_STEPS_PER_PAIR * len(wanted) * len(given))
    if len(wanted) != len(given):
        return differ("command_differs", f"expected {describe(expected)}, came {describe(actual)}")
    if any(intent.kind.changes for intent in (*wanted, *given)):
        results = [_compare(own, other, surroundings) for own, other in zip(wanted, given, strict=True)]
        return next((result for result in results if not result.same), SAME)
    table = [[_compare(own, other, surroundings) for other in given] for own in wanted]
    owner = maximum_matching([[j for j, result in enumerate(row) if result.same] for row in table])
    if len(owner) == len(wanted):
        return SAME
    return next(row[0] for i, row in enumerate(table) if i not in owner.values())


def _shell_arguments_differ(expected: Action, actual: Action) -> bool:
    """Say whether of calls of a shell one sets what the other does not, beside its command and directory."""
    own, other = (action if isinstance(action, ShellCommand) else ShellCommand("") for action in (expected, actual))
    return bool(tighter(own.limits, other.limits)) or not same_json(own.rest, other.rest)


def _compare(expected: Intent, actual: Intent, surroundings: Surroundings) -> MatchResult:
    if expected.kind is not actual.kind:
        return differ("kind_differs", f"expected {expected.record!r:.100}, came {actual.record!r:.100}")
    return expected.kind.compare(expected.record, actual.record, surroundings)
