"""Both sides of a comparison, read: the expert's calls and the policy's as actions, and what is known beside them.

Joined  views of one file that go on where another's end are one call (`joined_views`).
Place   looked for in the history only where it may decide.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from paddock.resources_servers.pivot.semantic.calls import ParsedCall, RowTools, parse_actual_calls
from paddock.resources_servers.pivot.semantic.history import FileHistory
from paddock.resources_servers.pivot.semantic.intents import changed_texts
from paddock.resources_servers.pivot.semantic.intents.kinds import Surroundings
from paddock.resources_servers.pivot.semantic.intents.views import printed_file
from paddock.resources_servers.pivot.semantic.joined_views import join_views
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.place import Places, depends_on_place
from paddock.resources_servers.pivot.task import ExpectedAction, expected_calls
from paddock.shell import StepBudget
from paddock.tools import Edit, ShellCommand, same_json
from paddock.types import JsonObject

MAX_HISTORY_STEPS = 12_000
"""Steps (`paddock.shell.memo`) in which the history is read for one comparison: 6,000 nodes of commands, or 2 million
characters of what tools printed. What is beyond is not known: edits are compared by themselves then."""


class Sides(NamedTuple):
    """The calls of both sides, and their surroundings; the options there have the place where tools run."""

    ours: list[ParsedCall]
    """The expert's."""
    theirs: list[ParsedCall]
    surroundings: Surroundings


def read_sides(
    expected: ExpectedAction,
    response: object,
    params: JsonObject,
    options: SemanticOptions,
    row_task: Mapping[str, Any],
) -> Sides:
    tools = RowTools(params)
    ours = tools.expected(expected_calls(expected))
    theirs = parse_actual_calls(response, tools)
    history_budget = StepBudget(MAX_HISTORY_STEPS)
    places = Places(params, options, row_task, history_budget)
    if not _are_one_action(ours, theirs) and any(depends_on_place(call.action) for call in (*ours, *theirs)):
        options = options.model_copy(update={"cwd": places.last}) if places.last != options.cwd else options
    ours, theirs = join_views(ours, options), join_views(theirs, options)
    history = FileHistory(params, tools.schema, printed_file, changed_texts, places, history_budget)
    return Sides(ours, theirs, Surroundings(history, options))


def _are_one_action(ours: Sequence[ParsedCall], theirs: Sequence[ParsedCall]) -> bool:
    """Say whether one call came that asks for what the expert's does, word for word: wherever it runs, it does too."""
    if len(ours) != 1 or len(theirs) != 1:
        return False
    own, other = ours[0].action, theirs[0].action
    if not isinstance(own, ShellCommand | Edit) or not isinstance(other, ShellCommand | Edit):
        return False
    return own == other and same_json(own.rest, other.rest)
