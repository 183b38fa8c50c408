"""Pairs of the expert's calls and the policy's: as many as possible, in the order that matters.

Order   calls of one response run at once, so their order is free, except where one depends on another: a command that
        is not known only to read, or input for a program, keeps its place among commands, inputs, edits and looks; an
        edit keeps its place among edits and reads of the same file, searches, listings and commands. Of two such pairs
        whose order is turned round one does not count.
"""

from collections.abc import Sequence
from itertools import combinations

from paddock.edits import paths_of
from paddock.resources_servers.pivot.assignment import maximum_matching
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.paths import resolve, resolve_edits
from paddock.shell import effects
from paddock.tools import Action, Edit, ListFolder, ReadFile, Search, ShellCommand, Stdin


def pair_up(
    same: Sequence[Sequence[bool]], expected: Sequence[Action | None], options: SemanticOptions
) -> dict[int, int]:
    """Pair expected index with actual index, each used once. `same[i][j]`: expected i does what actual j does.

    `same` is (expected, actual).
    """
    if len(same) == 1:
        return next(({0: j} for j, fits in enumerate(same[0]) if fits), {})
    owner = maximum_matching([[j for j, fits in enumerate(row) if fits] for row in same])
    partner = {i: j for j, i in owner.items()}
    _untwist(partner, same)
    for i in _out_of_order(partner, expected, options):
        del partner[i]
    return partner


def _out_of_order(partner: dict[int, int], expected: Sequence[Action | None], options: SemanticOptions) -> list[int]:
    """Return few expected calls, not the fewest, to leave out so that no two dependent ones are turned round."""
    actions = {i: action for i in sorted(partner) if (action := expected[i]) is not None and _touches(action)}
    changing = {i: _changes(action, options) for i, action in actions.items()} if len(actions) > 1 else {}
    conflicts: dict[int, set[int]] = {i: set() for i in changing}
    for i, k in combinations(changing, 2):
        if partner[i] > partner[k] and (changing[i] or changing[k]) and _depend(actions[i], actions[k], options):
            conflicts[i].add(k)
            conflicts[k].add(i)
    left_out: list[int] = []
    while any(conflicts.values()):
        worst = max(conflicts, key=lambda i: (len(conflicts[i]), i))
        for other in conflicts.pop(worst):
            conflicts[other].discard(worst)
        left_out.append(worst)
    return left_out


def _untwist(partner: dict[int, int], same: Sequence[Sequence[bool]]) -> None:
    """Swap partners where both orders fit, so that calls that are alike are paired in order."""
    order = sorted(partner)
    for position, i in enumerate(order):
        for k in order[position + 1 :]:
            if partner[i] > partner[k] and same[i][partner[k]] and same[k][partner[i]]:
                partner[i], partner[k] = partner[k], partner[i]


def _depend(first: Action, second: Action, options: SemanticOptions) -> bool:
    """Say whether two calls, of which one changes something, are about the same thing."""
    if isinstance(first, Edit | ReadFile) and isinstance(second, Edit | ReadFile):
        return bool(files_of(first, options) & files_of(second, options))
    return True


def _changes(action: Action, options: SemanticOptions) -> bool:
    if isinstance(action, ShellCommand):
        return not effects(action.command, cwd=options.cwd).reads_only
    return isinstance(action, Edit | Stdin)


def _touches(action: Action) -> bool:
    return isinstance(action, ShellCommand | Stdin | Edit | ReadFile | Search | ListFolder)


def files_of(action: Edit | ReadFile, options: SemanticOptions) -> set[str]:
    """Return the resolved paths of the files that are read, edited or moved to."""
    if isinstance(action, ReadFile):
        return {resolve(action.path, options.cwd)}
    return {path for edit in resolve_edits(action, options.cwd) for path in paths_of(edit)}
