"""Clients that speak a dialect as a program does: what they offer, and how they send their history back.

Law     these are models of programs, made of measurements of them; they are not the programs. What tools print is the
        scenario's; only how the history is worded, kept and rewritten is the program's.
Class   a program is a class with its `NAME` and its `TOOLS`, derived from its dialect's (`dialects`).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import orjson

from paddock.conformance.harnesses.tools import ShownTools
from paddock.lab.fidelity.bench import ScenarioRun
from paddock.lab.fidelity.scenarios import PolicyTurn
from paddock.lab.fidelity.workspace import command_output
from paddock.server.dialects import Dialect
from paddock.types import JsonObject

GO_ON = "Please go on."
OMITTED = "[Earlier steps are not shown.]"
_LAST_STEPS = 2


def function(name: str, required: str, *optional: str) -> JsonObject:
    """A tool of text arguments, in Responses form."""
    properties = {argument: {"type": "string"} for argument in (required, *optional)}
    parameters = {"type": "object", "properties": properties, "required": [required]}
    return {"type": "function", "name": name, "description": f"The tool {name}.", "parameters": parameters}


class ClientCall(NamedTuple):
    """A call of a tool, as the client got it."""

    call_id: str
    name: str
    raw: str
    """Arguments, or a custom tool's text."""
    custom: bool = False

    @property
    def arguments(self) -> JsonObject | None:
        """None: they are no JSON object."""
        try:
            parsed = orjson.loads(self.raw or "{}")
        except orjson.JSONDecodeError:
            return None
        return parsed if isinstance(parsed, dict) else None


class CallResult(NamedTuple):
    """What a call of a tool gave."""

    call: ClientCall
    text: str
    failed: bool = False


class SimulatedClient(ABC):
    """A program's side of one run."""

    NAME: ClassVar[str]
    DIALECT: ClassVar[Dialect]
    TOOLS: ClassVar[Sequence[JsonObject]] = (function("bash", "command"),)
    """In Responses form."""
    CUT_ENDS: ClassVar[bool] = False
    """A cut answer ends the program."""

    def __init__(self) -> None:
        self.opening = self.opening_items()
        """What the conversation starts with."""
        self.steps: list[list[JsonObject]] = []
        """Then: what is kept of an answer, and what follows it."""

    @property
    def toolset(self) -> ShownTools:
        return ShownTools(list(self.TOOLS))

    @property
    def history(self) -> list[JsonObject]:
        return [*self.opening, *(item for step in self.steps for item in step)]

    async def play(self, run: ScenarioRun) -> None:
        """Play the run's scenario to its end, or until the program would end."""
        while True:
            turn = run.next_turn
            if turn is not None and turn.beside == "forget":
                await self.forget(run)
            reply = await run.ask(self.DIALECT, self.request_body(), self.toolset, self.side_request())
            calls = self.calls_of(reply)
            self.steps.append(self.answer_items(reply, calls))
            if turn is None or (turn.cut and self.CUT_ENDS):
                return
            items = self.result_items([self._result(run, call) for call in calls]) if calls else self.user_items(GO_ON)
            self.steps[-1] += items  # only here: `result_items` may have split the answer
            await self.after_turn(run, turn, calls)

    def _result(self, run: ScenarioRun, call: ClientCall) -> CallResult:
        names = [tool["name"] for tool in self.TOOLS]
        if call.name not in names:
            return CallResult(call, f"unsupported call: {call.name}", failed=True)
        if not call.custom and call.arguments is None:
            return CallResult(call, f"failed to parse function arguments: {call.raw!r}", failed=True)
        return CallResult(call, command_output(run.scenario, call.raw))

    async def after_turn(self, run: ScenarioRun, turn: PolicyTurn, calls: Sequence[ClientCall]) -> None:
        """What else it does after a turn."""
        return

    async def forget(self, run: ScenarioRun) -> None:
        """Drops all but its first step and the last ones."""
        self.steps[1:-_LAST_STEPS] = [self.user_items(OMITTED)]

    @abstractmethod
    def opening_items(self) -> list[JsonObject]:
        """What stands before the first answer."""

    @abstractmethod
    def request_body(self) -> JsonObject:
        """The next request."""

    @abstractmethod
    def side_request(self) -> JsonObject:
        """A request without tools, for a title."""

    @abstractmethod
    def calls_of(self, reply: JsonObject) -> list[ClientCall]:
        """The calls of an answer."""

    @abstractmethod
    def answer_items(self, reply: JsonObject, calls: Sequence[ClientCall]) -> list[JsonObject]:
        """What of an answer it sends back, and how."""

    @abstractmethod
    def result_items(self, results: Sequence[CallResult]) -> list[JsonObject]:
        """Results of the calls."""

    @abstractmethod
    def user_items(self, text: str) -> list[JsonObject]:
        """What it says as the user."""


def respell(raw: str) -> str:
    """Arguments parsed and written again: `{"a":1}`, each key once, no escapes; unchanged where they are no JSON."""
    try:
        return orjson.dumps(orjson.loads(raw)).decode()
    except orjson.JSONDecodeError:
        return raw


def repair_json(raw: str) -> str:
    """JSON as a lenient reader takes it: what is open is closed."""
    for end in ("", "}", '"}'):
        try:
            return orjson.dumps(orjson.loads(raw + end)).decode()
        except orjson.JSONDecodeError:
            continue
    return "{}"


def chat_call(call: ClientCall, arguments: str) -> JsonObject:
    """A call in the form of Chat Completions."""
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


class ClientSubject(NamedTuple):
    """A simulated client, made anew for each run."""

    cls: type[SimulatedClient]

    @property
    def name(self) -> str:
        return f"client:{self.cls.NAME}"

    @property
    def dialect(self) -> Dialect:
        return self.cls.DIALECT

    async def play(self, run: ScenarioRun) -> None:
        await self.cls().play(run)
