"""Judges responses by running them: parses both sides, runs what is not known yet, compares.

Cost    one sandbox for a response that is new, one for a step's expert that is new; equal actions from the same step
        are run once (`max_cached_results`).
Chance  where the response does something else and `semantic` finds it the same, the expert's action runs once more: if
        that, too, comes out otherwise (a database with times in it), execution cannot tell. So it does where only what
        was shown beside a change of files differs: a line that does not come twice is not asked for, nor then are the
        digits of times.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from paddock.errors import RowError
from paddock.resources_servers.pivot import semantic
from paddock.resources_servers.pivot.executed.commands import Commands, read_commands
from paddock.resources_servers.pivot.executed.comparison import (
    ExecutedResult,
    compare_runs,
    tells_something,
    without_chance,
)
from paddock.resources_servers.pivot.executed.options import ExecutedOptions
from paddock.resources_servers.pivot.executed.runs import ActionRun, TooLargeError, is_runnable, run_actions
from paddock.resources_servers.pivot.executed.step import StepSnapshot, read_snapshot
from paddock.resources_servers.pivot.semantic import SemanticOptions
from paddock.resources_servers.pivot.semantic.calls import RowTools, parse_actual_calls
from paddock.resources_servers.pivot.task import ActionComparison, ExpectedAction, expected_calls
from paddock.sandbox import Provider
from paddock.tools import Action
from paddock.types import JsonObject

_TOO_MUCH = ("too_many_calls", "too_long")
"""Reasons of `semantic` for which nothing is run."""


class ExecutedComparator:
    """Runs actions on one provider of sandboxes."""

    def __init__(self, provider: Provider, options: ExecutedOptions) -> None:
        self._provider = provider
        self._options = options
        self._turns = asyncio.Semaphore(options.max_concurrent_sandboxes)
        self._results: OrderedDict[tuple[StepSnapshot, str, int], ActionRun] = OrderedDict()

    async def compare(
        self,
        expected: ExpectedAction,
        response: JsonObject,
        task: Mapping[str, Any],
        params: JsonObject,
        fallback: SemanticOptions,
    ) -> ActionComparison:
        """Compare a response with the expert's action from the row's step. `task`: the row's own keys.

        `fallback` are the options of `semantic` for what execution cannot tell.
        """
        step = read_snapshot(task)
        tools = RowTools(params)
        wanted = [call.action for call in tools.expected(expected_calls(expected))]
        given = [call.action for call in parse_actual_calls(response, tools)]
        by_text = semantic.compare(expected, response, params, fallback, task)
        if by_text.reason in _TOO_MUCH or not wanted or not given or not all(map(is_runnable, [*wanted, *given])):
            return _by_text(by_text)
        try:
            own = await self._run(step, wanted)
            if own.problem:
                raise RowError(f"expected_action: does not run from its snapshot: {own.problem}", kind="expected_fails")
            if not tells_something(own):
                return _by_text(by_text)
            result = await self._compare(step, wanted, own, given, same_text=by_text.reward == 1.0)
            if result is None:
                return _by_text(by_text)
        except TooLargeError:
            return _by_text(by_text)
        reward = float(result.same)
        reason, detail = result.reason, result.detail
        if result.same and len(given) > len(wanted) and not own.files:
            # Of looks each further one may be a guess.
            reward, reason, detail = len(wanted) / len(given), "surplus_calls", f"{len(given) - len(wanted)} calls more"
        metrics = {**by_text.metrics, "semantic_agrees": float((by_text.reward == 1.0) == (reward == 1.0))}
        return ActionComparison(reward, reason, detail, metrics, {"judged_by": "executed"})

    async def _compare(
        self,
        step: StepSnapshot,
        wanted: Sequence[Action | None],
        own: ActionRun,
        given: Sequence[Action | None],
        *,
        same_text: bool,
    ) -> ExecutedResult | None:
        """Run the policy's actions and compare; None: execution cannot tell.

        What reads texts that a policy made long runs beside the loop.
        """
        commands = await asyncio.to_thread(read_commands, wanted, given, step.workdir)
        commands = commands._replace(runs_tests=same_text or commands.runs_tests)
        theirs = await self._run(step, given)
        result = await asyncio.to_thread(compare_runs, own, theirs, commands, self._options)
        shows_else = bool(own.files) and result.reason == "output_differs"
        if result.same or not (same_text or shows_else):
            return result
        again = await self._run(step, wanted, attempt=2)
        if shows_else and again.files == own.files:
            stable = await asyncio.to_thread(without_chance, own, again, theirs)
            return await asyncio.to_thread(compare_runs, *stable, commands, self._options)
        own_commands = Commands(commands.expected, commands.expected, runs_tests=True)
        once_more = await asyncio.to_thread(compare_runs, own, again, own_commands, self._options)
        return result if once_more.same else None

    async def _run(self, step: StepSnapshot, actions: Sequence[Action | None], attempt: int = 1) -> ActionRun:
        runnable = _runnable(actions)
        key = (step, repr(runnable), attempt)
        result = self._results.get(key)
        if result is None:
            async with self._turns:
                result = _from_workdir(await run_actions(self._provider, step, runnable, self._options), step)
            self._results[key] = result
        self._results.move_to_end(key)
        while len(self._results) > self._options.max_cached_results:
            self._results.popitem(last=False)
        return result


def _from_workdir(run: ActionRun, step: StepSnapshot) -> ActionRun:
    """Write paths below the step's directory as they are seen from there."""
    return replace(run, shown=run.shown.replace(f"{step.workdir}/", "")) if step.workdir != "/" else run


def _runnable(actions: Sequence[Action | None]) -> list[Action]:
    return [action for action in actions if action is not None]


def _by_text(comparison: ActionComparison) -> ActionComparison:
    return comparison._replace(extras={**comparison.extras, "judged_by": "semantic"})
