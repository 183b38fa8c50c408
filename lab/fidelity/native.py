"""A native harness, run for real: its own loop and toolbox, over a workspace without a sandbox.

Law     to forget, it gets a context budget that its history outgrows before the scenario's turn for that.
Errors  ConfigError for a harness that asks no model, or asks from inside a sandbox.
"""

from typing import Any, NamedTuple, NoReturn

from paddock.conformance.behaviours import NotApplicable
from paddock.conformance.harnesses.tools import ShownTools
from paddock.errors import ConfigError
from paddock.harness import Exit, Harness, RequestFilter, RunLimits, Task, harness_class, needs_of
from paddock.harness.contract import ModelEndpoint
from paddock.harness.factory import check_settings
from paddock.lab.fidelity.bench import MODEL, ScenarioRun
from paddock.lab.fidelity.scenarios import PROMPT, SYSTEM
from paddock.lab.fidelity.workspace import ScriptedWorkspace, command_output
from paddock.server.dialects import Dialect
from paddock.server.dialects.canonical import chat_messages
from paddock.server.dialects.conversation import conversation
from paddock.testing.native import ModelWithoutPrograms
from paddock.types import JsonObject
from paddock.types.responses import output_items

LIMITS = RunLimits(max_turns=100, time_s=60.0)
_BUDGET_STEPS = 4
"""Steps that fit into the budget of a run that forgets, beside system and problem."""


class NativeSubject(NamedTuple):
    """A harness plugin."""

    spec: str
    dialect: Dialect = "responses"

    @property
    def name(self) -> str:
        return f"harness:{self.spec}"

    async def play(self, run: ScenarioRun) -> None:
        context = await self._context(run) if run.scenario.forgets else {}
        exit_ = await _run_harness(self._harness(context), run, _RunModel(run, self.spec))
        if exit_.ended not in ("finished", "output_limit"):
            run.problem = f"it ended as {exit_.ended}" + (f": {exit_.detail}" if exit_.detail else "")

    def _harness(self, block: JsonObject) -> Harness:
        cls = harness_class(self.spec)
        if needs_of(cls) != "model":
            raise ConfigError(f"harness {self.spec} asks no model: there are no tokens", kind="subject_invalid")
        settings = check_settings(cls, block, self.name)
        harness: Harness = cls() if settings is None else cls(settings)
        return harness

    async def _context(self, run: ScenarioRun) -> JsonObject:
        """Settings with a budget that makes it forget."""
        config_type: Any = getattr(harness_class(self.spec), "config_type", None)
        if config_type is None or "context" not in config_type.model_fields:
            raise NotApplicable("it has no context budget")
        try:
            await _run_harness(self._harness({}), run, _FirstModel())
        except _FirstRequest as request:
            first_request = conversation("responses", request.body)
            messages = chat_messages(first_request.items)
            prompt = run.language.prompter.whole(messages, first_request.tools, first_request.arguments)
        else:
            raise NotApplicable("it made no request")
        step_ids = run.language.policy_vocabulary.encode(command_output(run.scenario, "notes-0.txt"))
        return {"context": {"max_tokens": len(prompt) + 2 * _BUDGET_STEPS * len(step_ids)}}


class _FirstRequest(Exception):  # noqa: N818 - no error
    """A first request."""

    def __init__(self, body: JsonObject) -> None:
        super().__init__("the first request")
        self.body = body


class _FirstModel(ModelWithoutPrograms):
    """Raises the first request as `_FirstRequest`."""

    name = MODEL

    async def respond(self, body: JsonObject) -> JsonObject:
        raise _FirstRequest(body)

    async def endpoint(self, request_filter: RequestFilter | None = None, *, outside: bool = False) -> ModelEndpoint:
        raise NotApplicable("its program asks from inside a sandbox")


class _RunModel(ModelWithoutPrograms):
    """The run, as the model that a harness calls."""

    name = MODEL

    def __init__(self, run: ScenarioRun, spec: str) -> None:
        self._run = run
        self._spec = spec

    async def respond(self, body: JsonObject) -> JsonObject:
        toolset = ShownTools(output_items(body.get("tools")))
        side_request = {"model": MODEL, "input": [{"role": "user", "content": f"A title for this: {PROMPT}"}]}
        return await self._run.ask("responses", body, toolset, side_request)

    async def endpoint(self, request_filter: RequestFilter | None = None, *, outside: bool = False) -> NoReturn:
        raise ConfigError(
            f"harness {self._spec} is no native one: its program asks from inside a sandbox", kind="subject_invalid"
        )


async def _run_harness(harness: Harness, run: ScenarioRun, model: _RunModel | _FirstModel) -> Exit:
    names = {name: name for name in getattr(harness, "own_tools", ())}
    task = Task(prompt=PROMPT, system=SYSTEM, tool_names=names, visible={"problem_statement": PROMPT})
    return await harness.run(task, ScriptedWorkspace(run.scenario), model, LIMITS, lambda _step: None)
