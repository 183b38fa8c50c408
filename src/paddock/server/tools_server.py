"""A resources server whose tools are its methods, over a state of each rollout.

Session `/seed_session` opens a state; calls of tools and the verdict name it; it is ended by `DELETE`, by the server's
        end, and where nothing was asked of it for `session_idle_s`. Every state that was opened is closed, once.
Law     a verdict without a session is given over a state of its own, in which the response's calls that were run are
        run again: so stored rollouts can be judged anew, which needs tools that do the same thing each time. A session
        that is not there any more is an InfraError (`session_lost`), never a verdict over an empty state.
Errors  what a tool raises but ToolMistake is a BugError, so the rollout has no reward. A state that can't be closed is
        logged: nobody waits for it.
"""

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import Field

from paddock.errors import BugError, InfraError, VerifierError, boundary
from paddock.http import (
    CALL_TOOL,
    END_SESSION,
    VERIFY_SESSION,
    Call,
    Route,
    SessionCall,
    SessionCallResult,
    VerifyRequest,
)
from paddock.server.base import Handler, ResourcesServer, ServerConfig, TaskT
from paddock.server.environment_tools import EnvironmentTool, call_tool, tools_of
from paddock.server.session_calls import SessionCalls
from paddock.types import JsonObject, Row, Session, Verdict
from paddock.types.responses import ToolCall, calls, is_cut, item_type, output_items


class ToolsServerConfig(ServerConfig):
    """Fields of every server with tools."""

    session_idle_s: float = Field(default=3600.0, gt=0)
    """Seconds without a call after which a session is ended: its agent has gone."""


_RESULTS = ("function_call_output", "custom_tool_call_output")
_log = logging.getLogger("paddock.server")
ToolsConfigT = TypeVar("ToolsConfigT", bound=ToolsServerConfig)
StateT = TypeVar("StateT")


class _OpenSession:
    """One session: its state, and the calls that were made in it."""

    def __init__(self, state: Any) -> None:
        self.state = state
        self.calls = SessionCalls()


class ToolsServer(ResourcesServer[ToolsConfigT, TaskT], Generic[ToolsConfigT, TaskT, StateT]):
    """Base of environments with tools: methods marked by `paddock.server.tool`, `open_state`, `judge_state`."""

    TOOLS: ClassVar[Mapping[str, EnvironmentTool]] = {}
    """By name; filled from the marked methods."""
    config_type: ClassVar[type[ServerConfig]] = ToolsServerConfig

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.TOOLS = tools_of(cls)

    def __init__(self, config: ToolsConfigT, **keywords: Any) -> None:
        super().__init__(config, **keywords)
        self._sessions: dict[str, _OpenSession] = {}
        self._reaper: asyncio.Task[None] | None = None

    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        own: dict[Route[Any, Any], Handler] = {
            CALL_TOOL: self._call_tool,
            VERIFY_SESSION: self._verify_session,
            END_SESSION: self._end_session,
        }
        return {**super().handlers(), **own}

    async def open_state(self, task: TaskT, row: Row) -> StateT:
        """Make the state of one rollout."""
        raise NotImplementedError

    async def close_state(self, state: StateT) -> None:
        """Release what a state holds."""

    def visible(self, task: TaskT, row: Row) -> JsonObject:
        """Return the task's fields that the agent may read, such as what it tells a simulated user; the policy gets
        none of them."""
        return {}

    async def judge_state(self, state: StateT, task: TaskT, row: Row, response: JsonObject) -> Verdict:
        """Judge what the rollout has made of its state, and its response, which holds all calls and their results."""
        raise NotImplementedError

    def tool_names(self) -> frozenset[str]:
        return frozenset(self.TOOLS)

    async def seed_session(self, task: TaskT, row: Row) -> Session:
        if self._reaper is None:
            self._reaper = asyncio.create_task(self._reap())
        name = f"session_{secrets.token_hex(16)}"
        self._sessions[name] = _OpenSession(await self.open_state(task, row))
        tools = [tool.definition for tool in self.TOOLS.values()]
        return Session(session_id=name, tools=tools, visible=self.visible(task, row))

    async def verify(self, task: TaskT, row: Row, response: JsonObject) -> Verdict:
        state = await self.open_state(task, row)
        try:
            for call in _run_calls(row, response):
                result = await call_tool(self, self.TOOLS, state, call.name, call.arguments)
                if result.done:
                    break
            return await self.judge_state(state, task, row, response)
        finally:
            await self.close_state(state)

    async def stop(self) -> None:
        if self._reaper is not None:
            self._reaper.cancel()
            await asyncio.gather(self._reaper, return_exceptions=True)
        for name in list(self._sessions):
            await self._end(name)

    def _session(self, call: Call) -> _OpenSession:
        session = self._sessions.get(call.path["session"])
        if session is None:
            raise InfraError(
                f"{self.name}: the session is not here: the server was started again, or nothing was asked of it for "
                f"{self.config.session_idle_s:g} s",
                kind="session_lost",
                retryable=False,
            )
        session.calls.used = time.monotonic()
        return session

    async def _call_tool(self, request: SessionCall, call: Call) -> SessionCallResult:
        session = self._session(call)

        async def run() -> SessionCallResult:
            with boundary(BugError, f"{self.name}: {request.name}", stage="tools"):
                return await call_tool(self, self.TOOLS, session.state, request.name, request.arguments)

        return await session.calls.answer(request.call_id, run)

    async def _verify_session(self, request: VerifyRequest, call: Call) -> Verdict:
        task = self.read_task(request.row)
        session = self._session(call)
        with boundary(VerifierError, f"{self.name}: verify", stage="verify"):
            return await self.judge_state(session.state, task, request.row, request.response)

    async def _end_session(self, _body: JsonObject, call: Call) -> JsonObject:
        await self._end(call.path["session"])
        return {}

    async def _end(self, name: str) -> None:
        session = self._sessions.pop(name, None)
        if session is None:
            return
        await session.calls.end()
        try:
            await self.close_state(session.state)
        except Exception:  # noqa: BLE001 - a plugin's, of a session that nobody asks about any more
            _log.exception("%s: close_state", self.name)

    async def _reap(self) -> None:
        idle_s = self.config.session_idle_s
        while True:
            await asyncio.sleep(min(idle_s / 2, 60.0))
            for name in [name for name, session in self._sessions.items() if session.calls.is_idle(idle_s)]:
                await self._end(name)


def _run_calls(row: Row, response: JsonObject) -> Iterator[ToolCall]:
    """The calls of a response that its agent ran: those of tools that the row shows, with a result. Where no call has
    one, the calls themselves are the answer, if that was not cut."""
    shown = row.responses_create_params.get("tools")
    names = {tool.get("name") for tool in shown if isinstance(tool, dict)} if isinstance(shown, list) else set()
    answered = _answered_calls(response)
    given = calls(response) if answered is None else answered
    return (call for call in given if not names or call.name in names)


def _answered_calls(response: JsonObject) -> list[ToolCall] | None:
    """The calls that have a result, in their order; None: there is no result, and the response was not cut. A model may
    give several calls one id: a result belongs to the first of them that has none yet."""
    results = [item.get("call_id") for item in output_items(response) if item_type(item) in _RESULTS]
    if not results and not is_cut(response):
        return None
    left = Counter(results)
    answered = []
    for call in calls(response):
        if left[call.call_id] > 0:
            left[call.call_id] -= 1
            answered.append(call)
    return answered
