"""How near an action that is not the expert's comes to it: rungs of a ladder, for partial credit and for a judge.

Kind     both are for the same kind of thing (`intents`): a view, a listing, a search, a change of files, a run of
         tests. Of other programs, they run the same; of tools that no table knows, they have the same name.
Target   moreover of the same: the file that is viewed or changed, the directory that is listed, the text or the names
         that are searched for, the tests that run, the program with its first word that is no option.
Content  moreover they show or do the same, but otherwise: a search shows names in place of lines, say.
Several  of calls for several things the kinds must agree one by one; the lowest rung counts.
None     words (a message, last words, a thought, a plan) have no rungs, nor have calls that can't be read; nor, where
         the expert only looks, what is not known only to look.
Undecided  two commands, changes or patterns of the same target that are not known to be the same, nor to differ: what a
         judge may be asked.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from paddock.resources_servers.pivot.semantic.intents import Intent, intents_of
from paddock.resources_servers.pivot.semantic.intents.file_changes import FILE_CHANGES
from paddock.resources_servers.pivot.semantic.intents.file_searches import FILE_SEARCHES
from paddock.resources_servers.pivot.semantic.intents.kinds import IntentKind, Surroundings
from paddock.resources_servers.pivot.semantic.intents.listings import LISTINGS
from paddock.resources_servers.pivot.semantic.intents.programs import PROGRAMS
from paddock.resources_servers.pivot.semantic.intents.searches import TEXT_SEARCHES
from paddock.resources_servers.pivot.semantic.intents.test_runs import TEST_RUNS
from paddock.resources_servers.pivot.semantic.intents.views import VIEWS
from paddock.resources_servers.pivot.semantic.match_results import Reason
from paddock.resources_servers.pivot.semantic.surplus import only_looks
from paddock.shell import parse, simple_commands, take
from paddock.tools import Action, OtherCall, ShellCommand

Rung = Literal["kind", "target", "content"]
RUNGS: tuple[Rung, ...] = get_args(Rung)

_TABLE: Mapping[IntentKind, Mapping[Reason, Rung]] = {
    VIEWS: {"lines_differ": "target", "arguments_differ": "content"},
    LISTINGS: {"scope_differs": "target", "pattern_differs": "target", "lines_differ": "target"},
    TEXT_SEARCHES: {"scope_differs": "target", "arguments_differ": "content"},
    FILE_SEARCHES: {"scope_differs": "target", "arguments_differ": "target"},
    FILE_CHANGES: {"edit_differs": "target"},
    TEST_RUNS: {"arguments_differ": "target"},
}
"""The rung by the reason why two of a kind differ; others are of the rung `kind`."""


class Nearness(NamedTuple):
    """How near an action comes."""

    rung: Rung | None
    """The highest rung that it reaches; None: none."""
    undecided: bool = False


_STEPS_PER_PAIR = 5

_FAR = Nearness(None)
_SAME = Nearness("content")


def nearness(expected: Action, actual: Action, reason: Reason, surroundings: Surroundings) -> Nearness:
    """Say how near an action comes to the expert's, from which it differs for `reason`."""
    take(_STEPS_PER_PAIR)
    if only_looks(expected, surroundings.options) and not only_looks(actual, surroundings.options):
        return _FAR
    cwd = surroundings.options.cwd
    wanted, given = intents_of(expected, cwd), intents_of(actual, cwd)
    if wanted and given:
        if [intent.kind for intent in wanted] != [intent.kind for intent in given]:
            return _FAR
        pairs = [_nearness_of(own, other, surroundings) for own, other in zip(wanted, given, strict=True)]
        # A limit may cut what is shown, which then is not the right content, whatever else is the same.
        return _lowest([*pairs, Nearness("target")] if reason == "limit_differs" else pairs)
    match expected, actual:
        case ShellCommand(), ShellCommand():
            same = bool(_programs(expected.command) & _programs(actual.command))
            return Nearness("kind", undecided=True) if same else _FAR
        case OtherCall(), OtherCall():
            return Nearness("kind") if expected.name == actual.name else _FAR
        case _:
            return _FAR


def _nearness_of(expected: Intent, actual: Intent, surroundings: Surroundings) -> Nearness:
    kind = expected.kind
    result = kind.compare(expected.record, actual.record, surroundings)
    if result.same:
        return _SAME
    if kind is PROGRAMS:
        return _nearness_of_programs(expected.record.command, actual.record.command)
    same_place = kind is TEXT_SEARCHES and expected.record.where == actual.record.where
    undecided = result.reason == "edit_differs" or (result.reason == "pattern_differs" and same_place)
    return Nearness(_TABLE[kind].get(result.reason, "kind"), undecided)


def _nearness_of_programs(expected: str, actual: str) -> Nearness:
    (own, first), (other, second) = _program(expected), _program(actual)
    if own != other:
        return _FAR
    return Nearness("target", undecided=True) if first == second else Nearness("kind")


def _lowest(pairs: list[Nearness]) -> Nearness:
    if any(pair.rung is None for pair in pairs):
        return _FAR
    rung = min((pair.rung for pair in pairs if pair.rung is not None), key=RUNGS.index)
    return Nearness(rung, all(pair.undecided or pair is _SAME for pair in pairs))


def _program(command: str) -> tuple[str | None, str | None]:
    """Return the first program of a script, and its first word that is neither an option nor a program's text."""
    first = next((node for node in simple_commands(parse(command)) if node.words), None)
    if first is None:
        return None, None
    name, *words = (word.text for word in first.words)
    return name, next((word for word in words if word and word[0] != "-" and len(word.split()) == 1), None)


def _programs(command: str) -> frozenset[str]:
    nodes = simple_commands(parse(command))
    return frozenset(text for node in nodes if node.words and (text := node.words[0].text))
