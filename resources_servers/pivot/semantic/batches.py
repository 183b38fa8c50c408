"""Pairing the expert's calls with the policy's: as many as possible, in the order that matters.

Order   calls of one response run at once, so their order is free, except where one depends on another: a command that
        is not known only to read, or input for a program, keeps its place among commands, inputs, edits and looks; an
        edit keeps its place among edits and reads of the same file, searches, listings and commands. Of two such pairs
        whose order is turned round one does not count.
Harm    a call that no expected call matches is destructive when its command, or the command in its arguments, is so by
        `paddock.shell.effects`, or when it deletes a file.
"""

import shlex
from collections.abc import Iterator, Sequence
from itertools import combinations

from paddock.edits import Delete
from paddock.resources_servers.pivot.matching import maximum_matching
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.paths import resolve
from paddock.shell import effects
from paddock.tools import Action, Edit, List, Other, Read, Search, Shell, Stdin
from paddock.types import Json

_COMMAND_ARGUMENTS = ("command", "cmd", "script")
_MAX_DEPTH = 4


def pair_up(
    same: Sequence[Sequence[bool]], expected: Sequence[Action | None], options: SemanticOptions
) -> dict[int, int]:
    """Expected index to actual index, each used once. `same[i][j]`: expected i does what actual j does."""
    owner = maximum_matching([[j for j, fits in enumerate(row) if fits] for row in same])
    partner = {i: j for j, i in owner.items()}
    _untwist(partner, same)
    for i in _out_of_order(partner, expected, options):
        del partner[i]
    return partner


def _out_of_order(partner: dict[int, int], expected: Sequence[Action | None], options: SemanticOptions) -> list[int]:
    """Expected calls to leave out so that no two that depend on each other are turned round; few, not the fewest."""
    actions = {i: action for i in sorted(partner) if (action := expected[i]) is not None and _touches(action)}
    changing = {i: _changes(action, options) for i, action in actions.items()} if len(actions) > 1 else {}
    turned: dict[int, set[int]] = {i: set() for i in changing}
    for i, k in combinations(changing, 2):
        if partner[i] > partner[k] and (changing[i] or changing[k]) and _depend(actions[i], actions[k], options):
            turned[i].add(k)
            turned[k].add(i)
    left_out: list[int] = []
    while any(turned.values()):
        worst = max(turned, key=lambda i: (len(turned[i]), i))
        for other in turned.pop(worst):
            turned[other].discard(worst)
        left_out.append(worst)
    return left_out


def _untwist(partner: dict[int, int], same: Sequence[Sequence[bool]]) -> None:
    """Swaps partners where both orders fit, so that calls that are alike are paired in order."""
    order = sorted(partner)
    for position, i in enumerate(order):
        for k in order[position + 1 :]:
            if partner[i] > partner[k] and same[i][partner[k]] and same[k][partner[i]]:
                partner[i], partner[k] = partner[k], partner[i]


def _depend(first: Action, second: Action, options: SemanticOptions) -> bool:
    """Whether two calls, of which one changes something, are about the same thing."""
    if isinstance(first, Edit | Read) and isinstance(second, Edit | Read):
        return bool(_files(first, options) & _files(second, options))
    return True


def _changes(action: Action, options: SemanticOptions) -> bool:
    if isinstance(action, Shell):
        return not effects(action.command, cwd=options.cwd).reads_only
    return isinstance(action, Edit | Stdin)


def _touches(action: Action) -> bool:
    return isinstance(action, Shell | Stdin | Edit | Read | Search | List)


def _files(action: Edit | Read, options: SemanticOptions) -> set[str]:
    if isinstance(action, Read):
        return {resolve(action.path, options.cwd)}
    return {resolve(edit.path, options.cwd) for edit in action.edits}


def is_destructive(action: Action | None, options: SemanticOptions) -> bool:
    """Whether a call that nobody asked for would destroy something."""
    match action:
        case Shell():
            where = resolve(action.workdir, options.cwd) if action.workdir else options.cwd
            return effects(action.command, cwd=where).destructive
        case Stdin():
            return effects(action.text, cwd=options.cwd).destructive
        case Edit():
            return any(isinstance(edit, Delete) for edit in action.edits)
        case Other():
            return any(effects(text, cwd=options.cwd).destructive for text in _commands_in(action.arguments))
        case _:
            return False


def _commands_in(value: Json, depth: int = 0) -> Iterator[str]:
    """What looks like a command line, or like its words, in the arguments of a tool of which nothing is known."""
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
