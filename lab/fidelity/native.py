"""A native harness, run for real: its own loop and toolbox, over a workspace without a sandbox.

Law     to forget, it gets a context budget that its history outgrows before the scenario's turn for that.
Errors  ConfigError for a harness that asks no model, or asks from inside a sandbox.
"""

from typing import Any, NamedTuple, NoReturn

from paddock.conformance.behaviours import NotApplicable
from paddock.conformance.harnesses.face import Face
from paddock.errors import ConfigError
from paddock.harness import Exit, Harness, RequestFilter, RunLimits, Task, harness_class, needs_of
from paddock.harness.contract import ModelEndpoint
from paddock.harness.factory import check_settings
from paddock.lab.fidelity.bench import MODEL, Stage
from paddock.lab.fidelity.scenarios import PROMPT, SYSTEM
from paddock.lab.fidelity.workspace import ScriptedWorkspace, printed
from paddock.server.dialects import Dialect
from paddock.server.dialects.canonical import chat_messages
from paddock.server.dialects.conversation import conversation
from paddock.testing.native import NoProgramAsks
from paddock.types import JsonObject
from paddock.types.responses import output_items

LIMITS = RunLimits(max_turns=100, time_s=60.0)
_KEPT_STEPS = 4
"""That fit into the budget of a run that forgets, beside system and problem."""


class NativeSubject(NamedTuple):
    """A harness plugin."""

    spec: str
    dialect: Dialect = "responses"

    @property
    def name(self) -> str:
        return f"harness:{self.spec}"

    async def play(self, stage: Stage) -> None:
        context = await self._context(stage) if stage.scenario.forgets else {}
        left = await _live(self._harness(context), stage, _StageModel(stage, self.spec))
        if left.ended not in ("finished", "output_limit"):
            stage.problem = f"it ended as {left.ended}" + (f": {left.detail}" if left.detail else "")

    def _harness(self, block: JsonObject) -> Harness:
        cls = harness_class(self.spec)
        if needs_of(cls) != "model":
            raise ConfigError(f"harness {self.spec} asks no model: there are no tokens", kind="subject_invalid")
        settings = check_settings(cls, block, self.name)
        harness: Harness = cls() if settings is None else cls(settings)
        return harness

    async def _context(self, stage: Stage) -> JsonObject:
        """Settings with a budget that makes it forget."""
        config_type: Any = getattr(harness_class(self.spec), "config_type", None)
        if config_type is None or "context" not in config_type.model_fields:
            raise NotApplicable("it has no context budget")
        try:
            await _live(self._harness({}), stage, _FirstModel())
        except _Asked as asked:
            told = conversation("responses", asked.body)
            first = stage.language.prompter.whole(chat_messages(told.items), told.tools, told.arguments)
        else:
            raise NotApplicable("it made no request")
        step = stage.language.policy_vocabulary.encode(printed(stage.scenario, "notes-0.txt"))
        return {"context": {"max_tokens": len(first) + 2 * _KEPT_STEPS * len(step)}}


class _Asked(Exception):  # noqa: N818 - no error
    """A first request."""

    def __init__(self, body: JsonObject) -> None:
        super().__init__("asked")
        self.body = body


class _FirstModel(NoProgramAsks):
    """Looks at the first request."""

    name = MODEL

    async def respond(self, body: JsonObject) -> JsonObject:
        raise _Asked(body)

    async def endpoint(self, screen: RequestFilter | None = None, *, outside: bool = False) -> ModelEndpoint:
        raise NotApplicable("its program asks from inside a sandbox")


class _StageModel(NoProgramAsks):
    """The stage as a harness sees it."""

    name = MODEL

    def __init__(self, stage: Stage, spec: str) -> None:
        self._stage = stage
        self._spec = spec

    async def respond(self, body: JsonObject) -> JsonObject:
        face = Face(output_items(body.get("tools")))
        aside = {"model": MODEL, "input": [{"role": "user", "content": f"A title for this: {PROMPT}"}]}
        return await self._stage.ask("responses", body, face, aside)

    async def endpoint(self, screen: RequestFilter | None = None, *, outside: bool = False) -> NoReturn:
        raise ConfigError(
            f"harness {self._spec} is no native one: its program asks from inside a sandbox", kind="subject_invalid"
        )


async def _live(harness: Harness, stage: Stage, model: _StageModel | _FirstModel) -> Exit:
    names = {name: name for name in getattr(harness, "own_tools", ())}
    task = Task(prompt=PROMPT, system=SYSTEM, tool_names=names, visible={"problem_statement": PROMPT})
    return await harness.run(task, ScriptedWorkspace(stage.scenario), model, LIMITS, lambda _step: None)
