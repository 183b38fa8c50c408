"""The steps of a trajectory that may become rows, and why the others do not.

Step    the calls of one answer, and the items before it as its history. Each call must be paired with a result, or be
        the trajectory's last.
Left out  by the first reason that holds: `unreadable` (an argument or tool that no table reads), `says_only` (a
        thought, a plan, a question, an end), `refused` (the tool refused the edit), `looked_before` (a look that was
        taken before, with nothing changed since), `undone` (a later step takes the change back or writes over it),
        `duplicate` (another trajectory of the same task has the same step after the same result), `too_long`.
Errors  none: a trajectory that can't be used has a problem in place of candidates.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Literal, NamedTuple

import orjson

from paddock.edits import Edit as FileEdit
from paddock.edits import Replace, Undo, Write
from paddock.resources_servers.pivot.mining.trajectory import Trajectory
from paddock.resources_servers.pivot.semantic.calls import RowTools
from paddock.resources_servers.pivot.semantic.paths import resolve
from paddock.resources_servers.pivot.task import ExpectedCall
from paddock.shell import effects, simple_commands
from paddock.shell import parse as parse_command
from paddock.tools import (
    Action,
    Ask,
    Edit,
    Finish,
    ListFolder,
    OtherCall,
    ReadFile,
    Search,
    ShellCommand,
    Stdin,
    Think,
    UpdatePlan,
)
from paddock.types import JsonObject
from paddock.types.responses import content_text

LeftOut = Literal[
    "unreadable",
    "says_only",
    "refused",
    "looked_before",
    "undone",
    "duplicate",
    "too_long",
    "contaminated",
    "not_replayed",
]
REFUSALS = (
    "no replacement was performed",
    "no match found",
    "string to replace not found",
    "old_str` did not appear",
    "oldstring not found",
    "invalid `path` parameter",
    "patch failed",
    "your proposed edit has introduced new syntax error",
)
"""What tools say, in lower case, of an edit that they refused."""
_RESTORING = ("git checkout", "git restore", "git stash", "git reset", "git revert")


@dataclass(frozen=True, slots=True)
class PivotCandidate:
    """A step that may become a row."""

    trajectory: Trajectory
    step: int
    """The number of the step in its trajectory, from 0."""
    at: int
    """How many items of the trajectory are its history."""
    calls: tuple[JsonObject, ...]
    kind: str
    """The class of its first action in lower case, as `shellcommand` or `edit`."""

    @property
    def uuid(self) -> str:
        return f"{self.trajectory.name}:{self.step}"


class TrajectoryStep(NamedTuple):
    """An answer's calls with the action that each asks for, and their results."""

    at: int
    calls: tuple[JsonObject, ...]
    actions: tuple[Action | None, ...]
    results: tuple[str, ...]


@dataclass(slots=True)
class Candidates:
    """What was found in all trajectories so far."""

    max_history_chars: int
    rows: list[PivotCandidate] = field(default_factory=list)
    left_out: Counter[LeftOut] = field(default_factory=Counter)
    problems: list[tuple[str, str]] = field(default_factory=list)
    """The name of each trajectory that was not used, and why."""
    _seen: set[bytes] = field(default_factory=set)
    _names: set[str] = field(default_factory=set)

    def add(self, trajectory: Trajectory) -> None:
        """Find the candidates of one more trajectory.

        One whose name another has, such as another agent's of the same instance, gets a number behind it: rewards are
        told apart by names.
        """
        names = chain([trajectory.name], (f"{trajectory.name}#{number}" for number in count(2)))
        trajectory = replace(trajectory, name=next(name for name in names if name not in self._names))
        self._names.add(trajectory.name)
        tools = RowTools({"tools": trajectory.tools})
        steps = list(steps_of(trajectory, tools))
        unpaired = next((step for step in steps if _lacks_results(step, is_last=step is steps[-1])), None)
        if unpaired is not None:
            self.problems.append((trajectory.name, f"a call before item {unpaired.at + 1} has no result"))
            return
        for number, step in enumerate(steps):
            reason = self._why_not(trajectory, steps, number)
            if reason is None:
                kind = type(step.actions[0]).__name__.lower()
                self.rows.append(PivotCandidate(trajectory, number, step.at, step.calls, kind))
            else:
                self.left_out[reason] += 1

    def _why_not(self, trajectory: Trajectory, steps: Sequence[TrajectoryStep], number: int) -> LeftOut | None:
        step = steps[number]
        if any(action is None or isinstance(action, OtherCall) for action in step.actions):
            return "unreadable"
        if any(isinstance(action, Think | UpdatePlan | Ask | Finish) for action in step.actions):
            return "says_only"
        if any(mark in result.lower() for result in step.results for mark in REFUSALS):
            return "refused"
        if _looked_before(steps, number):
            return "looked_before"
        if _is_undone(steps, number, trajectory.cwd):
            return "undone"
        if len(orjson.dumps(trajectory.items[: step.at])) > self.max_history_chars:
            return "too_long"
        before = steps[number - 1].results if number else ()
        task = trajectory.instance_id or trajectory.repository or ""
        key = orjson.dumps([task, repr(step.actions), list(before)])
        if key in self._seen:
            return "duplicate"
        self._seen.add(key)
        return None


def steps_of(trajectory: Trajectory, tools: RowTools) -> Iterator[TrajectoryStep]:
    """Yield the steps of a trajectory in order."""
    items = trajectory.items
    results = {
        item.get("call_id"): content_text(item.get("output"))
        for item in items
        if item.get("type") in ("function_call_output", "custom_tool_call_output")
    }
    at = 0
    while at < len(items):
        if not _is_answer(items[at]):
            at += 1
            continue
        end = at
        while end < len(items) and _is_answer(items[end]):
            end += 1
        calls = tuple(item for item in items[at:end] if item.get("type") == "function_call")
        if calls:
            actions = tuple(_action(tools, call) for call in calls)
            own = tuple(results[call["call_id"]] for call in calls if call.get("call_id") in results)
            yield TrajectoryStep(at, calls, actions, own)
        at = end


def _lacks_results(step: TrajectoryStep, *, is_last: bool) -> bool:
    return len(step.results) < len(step.calls) and not (is_last and not step.results)


def _is_answer(item: JsonObject) -> bool:
    kind = item.get("type")
    return kind in ("function_call", "reasoning", "custom_tool_call") or item.get("role") == "assistant"


def _action(tools: RowTools, call: JsonObject) -> Action | None:
    try:
        expected = ExpectedCall(type="function_call", name=call["name"], arguments=call["arguments"])
    except ValueError:
        return None
    return tools.expected([expected])[0].action


def may_change(action: Action | None) -> bool:
    """Say whether an action may leave other files than it found."""
    if isinstance(action, ShellCommand):
        return not effects(action.command).reads_only
    return not isinstance(action, ReadFile | Search | ListFolder | Think | UpdatePlan | Ask)


def _looked_before(steps: Sequence[TrajectoryStep], number: int) -> bool:
    actions = steps[number].actions
    if any(map(may_change, actions)):
        return False
    for earlier in reversed(steps[:number]):
        if any(map(may_change, earlier.actions)):
            return False
        if earlier.actions == actions:
            return True
    return False


def _is_undone(steps: Sequence[TrajectoryStep], number: int, cwd: str | None) -> bool:
    own = [edit for action in steps[number].actions if isinstance(action, Edit) for edit in action.edits]
    return bool(own) and any(_takes_back(action, own, cwd) for later in steps[number + 1 :] for action in later.actions)


def _takes_back(action: Action | None, edits: Sequence[FileEdit], cwd: str | None) -> bool:
    paths = {resolve(edit.path, cwd) for edit in edits}
    if isinstance(action, ShellCommand | Stdin):
        text = action.command if isinstance(action, ShellCommand) else action.text
        names = [path.rsplit("/", 1)[-1] for path in paths]
        restores = any(mark in text for mark in _RESTORING) or any(
            command.words and command.words[0].text == "rm" for command in simple_commands(parse_command(text))
        )
        return restores and any(name in text for name in names)
    if not isinstance(action, Edit):
        return False
    return any(
        _overwrites(later, edit) for later in action.edits if resolve(later.path, cwd) in paths for edit in edits
    )


def _overwrites(later: FileEdit, edit: FileEdit) -> bool:
    if later.path.rsplit("/", 1)[-1] != edit.path.rsplit("/", 1)[-1]:
        return False
    if isinstance(later, Undo | Write):
        return True
    return isinstance(later, Replace) and isinstance(edit, Replace) and bool(edit.new.strip()) and edit.new in later.old
