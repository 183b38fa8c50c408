"""What calls are for, whatever they are made with: a look at files, a search, a change of files, a run of tests.

Law     two calls are the same when they are for the same things: each thing of the expert's is met by one of the
        policy's and none is left over. Looks may come in any order; what changes files keeps its place.
Shapes  `intents_of` reads an action as a row of records of the kinds in `kinds`; `compare_intents` compares two rows.
Errors  none: an action with a part that no kind can read has no intents, and nothing is said of it.
"""

from typing import Any, NamedTuple

from paddock.resources_servers.pivot.assignment import maximum_matching
from paddock.resources_servers.pivot.semantic.intents.bare_commands import BareCommand, bare_commands
from paddock.resources_servers.pivot.semantic.intents.kinds import KINDS, IntentKind, Surroundings
from paddock.resources_servers.pivot.semantic.match_results import SAME, MatchResult, describe, differ
from paddock.resources_servers.pivot.semantic.paths import resolve
from paddock.tools import Action, ShellCommand

__all__ = ["Intent", "Surroundings", "compare_intents", "intents_of"]


class Intent(NamedTuple):
    """One thing that a call is for."""

    kind: IntentKind
    record: Any
    """Of the class `kind.record`."""


def intents_of(action: Action, cwd: str | None) -> tuple[Intent, ...]:
    """Return what an action is for, in order; empty: not all of it is known. `cwd`: where its tool runs, if known."""
    if isinstance(action, ShellCommand):
        directory = resolve(action.workdir, cwd) if action.workdir else cwd
        commands = bare_commands(action.command, directory)
        found = [_of_command(command) for command in commands or ()]
        return tuple(intent for intent in found if intent is not None) if None not in found else ()
    for kind in KINDS:
        record = kind.of_action(action, cwd)
        if record is not None:
            return (Intent(kind, record),)
    return ()


def _of_command(command: BareCommand) -> Intent | None:
    for kind in KINDS:
        record = kind.of_command(command)
        if record is not None:
            return Intent(kind, record)
    return None


def compare_intents(expected: Action, actual: Action, surroundings: Surroundings) -> MatchResult | None:
    """Compare what two actions are for; None: of one of them it is not known."""
    cwd = surroundings.options.cwd
    wanted = intents_of(expected, cwd)
    given = intents_of(actual, cwd) if wanted else ()
    if not wanted or not given:
        return None
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


def _compare(expected: Intent, actual: Intent, surroundings: Surroundings) -> MatchResult:
    if expected.kind is not actual.kind:
        return differ("kind_differs", f"expected {expected.record!r:.100}, came {actual.record!r:.100}")
    return expected.kind.compare(expected.record, actual.record, surroundings)
