"""The loop of a native harness: ask, act, report, until it is finished or a limit is met.

Law     the model gets back its own items, untouched; so every answer continues the one before, token by token. What
        ended the run is in its `Exit`; what was done until then stays in the workspace.
Limits  `max_turns` model calls, `max_tokens` sampled tokens (as the engine counts them), `time_s` of wall clock, the
        model's context; none cuts a step in two but `time_s`, whose unfinished call is cancelled.
Errors  those of the model and the workspace, as they are.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel

from paddock.config import validate
from paddock.config.problems import suggestion
from paddock.errors import ConfigError
from paddock.harness.context import make_context
from paddock.harness.contract import (
    ContextExceeded,
    Exit,
    ExitReason,
    Model,
    OnStep,
    Prompts,
    RunLimits,
    Step,
    Task,
    Workspace,
)
from paddock.harness.native.history import ContextPolicy, FullContext, History
from paddock.harness.native.profile import ToolProfile, load_profile
from paddock.harness.native.settings import NativeSettings
from paddock.harness.native.tool_calls import ToolCaller, tool_calls_of, with_call_ids
from paddock.harness.native.toolbox import Toolbox
from paddock.types import JsonObject
from paddock.types.responses import is_cut, messages, turn_id_of, usage_of


class NativeHarness:
    """Base of native harnesses; `profiles/` and `prompts/` lie beside the class's file."""

    KIND: ClassVar[Literal["harnesses"]] = "harnesses"
    config_type: ClassVar[type[NativeSettings]] = NativeSettings
    TOOLBOX: ClassVar[type[Toolbox]]
    OPTIONS: ClassVar[type[BaseModel] | None] = None
    """The type of a profile's options; None: any values, under the names that the profile has."""
    CONCURRENT: ClassVar[bool] = True
    """Whether calls of one step run side by side."""
    CUT_ENDS: ClassVar[bool] = True
    """Whether an answer that was cut at its limit ends the run, as `output_limit`."""

    def __init__(self, settings: NativeSettings) -> None:
        self.settings = settings
        profile = load_profile(self.folder(), settings.profile)
        self.profile: ToolProfile = profile.model_copy(update={"options": self._merged(profile)})

    def _merged(self, profile: ToolProfile) -> JsonObject:
        """Return the profile's options with the changes of the settings. Raises ConfigError."""
        changed = self.settings.options
        if self.OPTIONS is not None:
            return validate(self.OPTIONS, {**profile.options, **changed}, "options").model_dump()
        unknown = next((name for name in changed if name not in profile.options), None)
        if unknown is not None:
            hint = suggestion(unknown, profile.options)
            raise ConfigError(f"options.{unknown}: the profile has no such option{hint}", kind="unknown_key")
        return {**profile.options, **changed}

    @classmethod
    def folder(cls) -> Path:
        file = sys.modules[cls.__module__].__file__
        assert file is not None
        return Path(file).parent

    @property
    def prompts(self) -> Prompts:
        """The profile's templates."""
        folder = self.folder() / "prompts"
        system = (folder / self.profile.system).read_text() if self.profile.system else None
        return Prompts(system=system, user=(folder / self.profile.user).read_text())

    @property
    def own_tools(self) -> Sequence[str]:
        return self.profile.tool_names

    def without_call(self, text: str) -> str | None:
        """Return a user message in reply to an answer without calls; None: the answer ends the run."""
        return None

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        run = _NativeRun(self, task, workspace, model, limits)
        try:
            async with asyncio.timeout(limits.time_s) as clock:
                return await run.steps(report)
        except TimeoutError:
            if not clock.expired():
                raise
            return run.exit("time_limit", detail=f"{limits.time_s:g} s")
        finally:
            await run.toolbox.close()


class _NativeRun:
    """One run of a harness."""

    def __init__(
        self, harness: NativeHarness, task: Task, workspace: Workspace, model: Model, limits: RunLimits
    ) -> None:
        self.toolbox = harness.TOOLBOX(workspace, limits, harness.profile)
        self._harness = harness
        self._model = model
        self._limits = limits
        shown = {name: task.tool_names.get(name, name) for name in harness.own_tools}
        self.toolbox.shown = shown
        self._caller = ToolCaller(self.toolbox, shown, concurrent=harness.CONCURRENT)
        self._history = History(_first(task))
        self._body: JsonObject = {
            **task.params,
            "model": model.name,
            "tools": [_renamed(tool, shown) for tool in harness.profile.tools],
            "tool_choice": "auto",
            "parallel_tool_calls": harness.profile.parallel_tool_calls,
        }
        settings = harness.settings
        self._context: ContextPolicy = make_context(settings.context, self._body) if settings.context else FullContext()
        self._turns = 0
        self._tokens = 0
        self._final: str | None = None

    def exit(self, ended: ExitReason, *, detail: str | None = None, final: str | None = None) -> Exit:
        return Exit(
            ended=ended,
            turns=self._turns,
            final=final or self._final,
            detail=detail,
            malformed=dict(self._caller.malformed),
        )

    async def steps(self, report: OnStep) -> Exit:
        while (limit := self._limit()) is None:
            self._notice()
            try:
                response = await self._ask()
            except ContextExceeded as error:
                return self.exit("context_limit", detail=str(error) or None)
            exit_ = await self._act(response, report)
            if exit_ is not None:
                return exit_
        return limit

    def _limit(self) -> Exit | None:
        turns, tokens = self._limits.max_turns, self._limits.max_tokens
        if turns is not None and self._turns >= turns:
            return self.exit("turn_limit")
        if tokens is not None and self._tokens >= tokens:
            return self.exit("token_limit", detail=f"{self._tokens} of {tokens} tokens")
        return None

    def _notice(self) -> None:
        notice = self._harness.settings.last_turn_notice
        if notice is not None and self._turns and self._turns + 1 == self._limits.max_turns:
            self._history.note(notice)

    async def _ask(self) -> JsonObject:
        response = await self._model.respond({**self._body, "input": self._context.fit(self._history)})
        usage = usage_of(response)
        self._context.record_usage(usage)
        self._tokens += usage.output_tokens
        self._turns += 1
        return response

    async def _act(self, response: JsonObject, report: OnStep) -> Exit | None:
        """Run the answer's calls and report the step; return the exit, or None where the run goes on."""
        turn_id = turn_id_of(response)
        output = with_call_ids(response)
        texts = messages(output)
        self._final = texts[-1] if texts else self._final
        cut = is_cut(response)
        calls = tool_calls_of(output)
        if cut and self._harness.CUT_ENDS:
            self._caller.malformed["cut"] += bool(calls)
            report(Step(turn=self._turns, output=output, turn_id=turn_id))
            return self.exit("output_limit")
        results = await self._caller.answer(calls, cut=cut)
        self._history.add([*output, *results.items])
        report(Step(turn=self._turns, output=[*output, *results.items], turn_id=turn_id))
        if results.done:
            return self.exit("finished", final=results.final)
        if not calls:
            reply = self._harness.without_call(texts[-1] if texts else "")
            if reply is None:
                return self.exit("output_limit" if cut else "finished")
            self._history.note(reply)
        return None


def _first(task: Task) -> list[JsonObject]:
    system: list[JsonObject] = [{"role": "system", "content": task.system}] if task.system is not None else []
    return [*system, {"role": "user", "content": task.prompt}]


def _renamed(tool: JsonObject, shown: Mapping[str, str]) -> JsonObject:
    name = str(tool["name"])
    return tool if shown[name] == name else {**tool, "name": shown[name]}
