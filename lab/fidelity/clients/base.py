"""Clients that speak a dialect as a program does: what they offer, and how they send their history back.

Law     these are models of programs, made of measurements of them; they are not the programs. What tools print is the
        scenario's; only how the history is worded, kept and rewritten is the program's.
Class   a program is a class with its `NAME` and its `TOOLS`, derived from its dialect's (`speaking`).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import orjson

from paddock.conformance.harnesses.face import Face
from paddock.lab.fidelity.bench import Stage
from paddock.lab.fidelity.scenarios import Turn
from paddock.lab.fidelity.workspace import printed
from paddock.server.dialects import Dialect
from paddock.types import JsonObject

GO_ON = "Please go on."
OMITTED = "[Earlier steps are not shown.]"
_KEPT_STEPS = 2


def function(name: str, required: str, *optional: str) -> JsonObject:
    """A tool of text arguments, in Responses form."""
    properties = {argument: {"type": "string"} for argument in (required, *optional)}
    parameters = {"type": "object", "properties": properties, "required": [required]}
    return {"type": "function", "name": name, "description": f"The tool {name}.", "parameters": parameters}


class Heard(NamedTuple):
    """A call, as the client got it."""

    call_id: str
    name: str
    raw: str
    """Arguments, or a custom tool's text."""
    custom: bool = False

    @property
    def arguments(self) -> JsonObject | None:
        """None: they are no JSON object."""
        try:
            found = orjson.loads(self.raw or "{}")
        except orjson.JSONDecodeError:
            return None
        return found if isinstance(found, dict) else None


class Result(NamedTuple):
    """What a call gave."""

    call: Heard
    text: str
    failed: bool = False


class Client(ABC):
    """Of one run."""

    NAME: ClassVar[str]
    DIALECT: ClassVar[Dialect]
    TOOLS: ClassVar[Sequence[JsonObject]] = (function("bash", "command"),)
    """In Responses form."""
    CUT_ENDS: ClassVar[bool] = False
    """A cut answer ends the program."""

    def __init__(self) -> None:
        self.fixed = self.first()
        """What the conversation starts with."""
        self.steps: list[list[JsonObject]] = []
        """Then: what is kept of an answer, and what follows it."""

    @property
    def face(self) -> Face:
        return Face(list(self.TOOLS))

    @property
    def history(self) -> list[JsonObject]:
        return [*self.fixed, *(item for step in self.steps for item in step)]

    async def play(self, stage: Stage) -> None:
        """To the end of the stage's scenario, or until the program would end."""
        while True:
            turn = stage.next_turn
            if turn is not None and turn.beside == "forget":
                await self.forget(stage)
            reply = await stage.ask(self.DIALECT, self.body(), self.face, self.aside())
            calls = self.heard(reply)
            self.steps.append(self.kept(reply, calls))
            if turn is None or (turn.cut and self.CUT_ENDS):
                return
            told = self.told([self._result(stage, call) for call in calls]) if calls else self.user(GO_ON)
            self.steps[-1] += told  # only now: telling may have split the answer
            await self.answered(stage, turn, calls)

    def _result(self, stage: Stage, call: Heard) -> Result:
        names = [tool["name"] for tool in self.TOOLS]
        if call.name not in names:
            return Result(call, f"unsupported call: {call.name}", failed=True)
        if not call.custom and call.arguments is None:
            return Result(call, f"failed to parse function arguments: {call.raw!r}", failed=True)
        return Result(call, printed(stage.scenario, call.raw))

    async def answered(self, stage: Stage, turn: Turn, calls: Sequence[Heard]) -> None:
        """What else it does after a turn."""
        return

    async def forget(self, stage: Stage) -> None:
        """Drops all but its first step and the last ones."""
        self.steps[1:-_KEPT_STEPS] = [self.user(OMITTED)]

    @abstractmethod
    def first(self) -> list[JsonObject]:
        """What stands before the first answer."""

    @abstractmethod
    def body(self) -> JsonObject:
        """The next request."""

    @abstractmethod
    def aside(self) -> JsonObject:
        """A request without tools, for a title."""

    @abstractmethod
    def heard(self, reply: JsonObject) -> list[Heard]:
        """The calls of an answer."""

    @abstractmethod
    def kept(self, reply: JsonObject, calls: Sequence[Heard]) -> list[JsonObject]:
        """What of an answer it sends back, and how."""

    @abstractmethod
    def told(self, results: Sequence[Result]) -> list[JsonObject]:
        """Results of the calls."""

    @abstractmethod
    def user(self, text: str) -> list[JsonObject]:
        """What it says as the user."""


def respelled(raw: str) -> str:
    """Arguments that were parsed and written again: `{"a":1}`, each key once, no escapes; as they are if no JSON."""
    try:
        return orjson.dumps(orjson.loads(raw)).decode()
    except orjson.JSONDecodeError:
        return raw


class ClientSubject(NamedTuple):
    """A client, made anew for each run."""

    cls: type[Client]

    @property
    def name(self) -> str:
        return f"client:{self.cls.NAME}"

    @property
    def dialect(self) -> Dialect:
        return self.cls.DIALECT

    async def play(self, stage: Stage) -> None:
        await self.cls().play(stage)
