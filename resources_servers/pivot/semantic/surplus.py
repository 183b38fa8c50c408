"""The calls of a response that match no expected call: which of them take the reward away.

Destructive  always: a command that is so by `paddock.shell.effects`, alone or in the arguments of a tool of which
             nothing is known, and an edit that deletes a file.
Beyond       where a response makes more calls than the expert: every one that is not known only to look or to note. A
             look is a read, a search, a listing, or a command that only reads and leaves its shell as it was; a note is
             a thought or a plan. A call that cannot be read, or that a provider runs, is not known to be either.
Guess        there, too: a look of the kind of a matched look, which is a second guess at it: a view of a file beside a
             view, whatever tool or command shows them, a search beside a search, or a command of the same programs; and
             one that does again what another did.
In place     where it makes no more: a command that writes, and an edit of a file that a matched edit changes, since the
             file then comes out otherwise. A call that fits an expected one, only not in its order, is neither.
"""

import shlex
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from paddock.edits import Delete
from paddock.resources_servers.pivot.semantic.batches import files_of
from paddock.resources_servers.pivot.semantic.intents import intents_of
from paddock.resources_servers.pivot.semantic.intents.programs import PROGRAMS
from paddock.resources_servers.pivot.semantic.intents.views import VIEWS
from paddock.resources_servers.pivot.semantic.match_results import MatchResult, clip, describe, differ
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.paths import resolve
from paddock.shell import Effects, effects, leaves_shell, parse, simple_commands
from paddock.tools import Action, Edit, ListFolder, OtherCall, ReadFile, Search, ShellCommand, Stdin, Think, UpdatePlan
from paddock.types import Json

_COMMAND_ARGUMENTS = ("command", "cmd", "script")
_MAX_DEPTH = 4


class UnmatchedCall(NamedTuple):
    """A call that is paired with no expected one."""

    name: str
    action: Action | None
    """None: the call could not be read."""
    fits: bool
    """It does what an expected call does, which another call is paired with or whose place it missed."""


def find_veto(
    surplus: Sequence[UnmatchedCall], matched: Sequence[Action], beyond: bool, options: SemanticOptions
) -> MatchResult | None:
    """Say why the unmatched calls leave no reward; None: they only cost their share. `beyond`: more than expected."""
    if not surplus:
        return None
    harm = next((call for call in surplus if is_destructive(call.action, options)), None)
    if harm is not None:
        return _surplus("destructive_surplus", harm, "which is destructive")
    if beyond:
        change = next((call for call in surplus if not only_looks(call.action, options)), None)
        if change is not None:
            return _surplus("changing_surplus", change, "which is not known only to look")
        kinds = {kind for action in matched if only_looks(action, options) for kind in _look_kinds(action, options)}
        guess = next(
            (one for one in surplus if one.fits or not kinds.isdisjoint(_look_kinds(one.action, options))), None
        )
        return _surplus("second_guess", guess, "which is a second guess") if guess else None
    edited = {path for action in matched if isinstance(action, Edit) for path in files_of(action, options)}
    change = next((call for call in surplus if not call.fits and _undoes(call.action, edited, options)), None)
    return _surplus("changing_surplus", change, "which changes what is left behind") if change else None


def _surplus(
    reason: Literal["destructive_surplus", "changing_surplus", "second_guess"], call: UnmatchedCall, why: str
) -> MatchResult:
    what = describe(call.action) if call.action is not None else f"a call of {clip(call.name)} that cannot be read"
    return differ(reason, f"besides what was expected came {what}, {why}")


def _effects(action: ShellCommand, options: SemanticOptions) -> Effects:
    where = resolve(action.workdir, options.cwd) if action.workdir else options.cwd
    return effects(action.command, cwd=where)


def _look_kinds(action: Action | None, options: SemanticOptions) -> set[object]:
    """Name what a look is for, where that is known, and what it is made with. What programs show is no one kind."""
    if action is None:
        return set()
    if isinstance(action, ReadFile):
        return {VIEWS.record}
    kinds: set[object] = {one.kind.record for one in intents_of(action, options.cwd) if one.kind is not PROGRAMS}
    if isinstance(action, ShellCommand):
        return kinds | {tuple(node.words[0].text for node in simple_commands(parse(action.command)) if node.words)}
    return kinds | {type(action)}


def only_looks(action: Action | None, options: SemanticOptions) -> bool:
    """Say whether an action is known only to look or to note."""
    if isinstance(action, ShellCommand):
        return _effects(action, options).reads_only and not leaves_shell(action.command)
    return isinstance(action, ReadFile | Search | ListFolder | Think | UpdatePlan)


def _undoes(action: Action | None, edited: set[str], options: SemanticOptions) -> bool:
    if isinstance(action, ShellCommand):
        return _effects(action, options).writes
    return isinstance(action, Edit) and bool(files_of(action, options) & edited)


def is_destructive(action: Action | None, options: SemanticOptions) -> bool:
    """Say whether a call that was not expected would destroy something."""
    match action:
        case ShellCommand():
            return _effects(action, options).destructive
        case Stdin():
            return effects(action.text, cwd=options.cwd).destructive
        case Edit():
            return any(isinstance(edit, Delete) for edit in action.edits)
        case OtherCall():
            return any(effects(text, cwd=options.cwd).destructive for text in _commands_in(action.arguments))
        case _:
            return False


def _commands_in(value: Json, depth: int = 0) -> Iterator[str]:
    """Yield what looks like a command line, or its words, in the arguments of a tool of which nothing is known."""
    if isinstance(value, list) and depth < _MAX_DEPTH:
        for item in value:
            yield from _commands_in(item, depth + 1)
    if not isinstance(value, dict) or depth >= _MAX_DEPTH:
        return
    for key, item in value.items():
        if key in _COMMAND_ARGUMENTS and isinstance(item, str):
            yield item
        elif key in _COMMAND_ARGUMENTS and isinstance(item, list):
            yield shlex.join(word for word in item if isinstance(word, str))
        else:
            yield from _commands_in(item, depth + 1)
