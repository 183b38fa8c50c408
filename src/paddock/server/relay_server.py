"""The base of resources servers that judge nothing themselves: each call is passed on to another server's URL.

Law     rows, verdicts and errors are the other server's own.
Session one of ours keeps sessions by id: their calls are passed on. One of NeMo-Gym's keeps them in a cookie: there is
        a session here that holds it (`gym_session`, `gym_steps`), until it is ended or idle for too long. Its
        verdict is asked for once: a server that failed in the middle may have dropped the state, and would judge none
        the next time.
Errors  what the other server raised, by owner; InfraError where it can't be reached or gives no verdict of its form.
"""

import secrets
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Generic, NamedTuple, TypeVar

import httpx
import orjson
from pydantic import BaseModel, ConfigDict, Field

from paddock.errors import BugError, InfraError, PaddockError, RequestError, RowError, VerifierError
from paddock.http import (
    AGGREGATE,
    CALL_TOOL,
    END_SESSION,
    RESET,
    SEED,
    STEP,
    VERIFY,
    VERIFY_SESSION,
    Call,
    HttpPeer,
    Peer,
    Route,
    SessionCall,
    SessionCallResult,
    SessionStep,
    SessionStepResult,
    VerifyRequest,
)
from paddock.http.client import DEFAULT_RETRY, RetryPolicy
from paddock.http.transport import make_client
from paddock.server.base import Handler, ResourcesServer, ServerConfig
from paddock.server.gym_session import GymSession, post, tool_names
from paddock.server.gym_steps import SteppedSession
from paddock.server.nemo_gym.calls import GYM_CALL, GymCall, GymCallReply
from paddock.types import JsonObject, Row, Session, Verdict
from paddock.types.responses import message_item

PASSED = "passed_"
"""What is put before the id of a session that the other server keeps by id; any other session is held here."""
ONCE = RetryPolicy(attempts=1)


class ForwardingConfig(ServerConfig):
    """Fields of every block whose server passes calls on."""

    needs: tuple[str, ...] = ()
    """What has to run beside it, such as a judge; printed by `paddock train --dry-run`, read by nobody else."""
    session_idle_s: float = Field(default=3600.0, gt=0)
    """Seconds without a call after which the cookie of a session is forgotten: its agent has gone."""
    max_reply_mib: int = Field(default=64, ge=1)
    """MiB of one answer of the other server; a longer one is read no further, and its rollout gets no reward."""


class ForwardedTask(BaseModel):
    """A task is the other server's business."""

    model_config = ConfigDict(frozen=True, extra="allow")

    good_turns: list[str] = []
    """Texts that a policy may answer with, turn by turn, to be paid in full; empty: none is known."""


class Destination(NamedTuple):
    """Where calls go."""

    url: str
    token: str | None


ForwardingConfigT = TypeVar("ForwardingConfigT", bound=ForwardingConfig)
RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")


class ForwardingServer(ResourcesServer[ForwardingConfigT, ForwardedTask], Generic[ForwardingConfigT]):
    """A subclass says where calls go."""

    task_type = ForwardedTask

    def __init__(self, config: ForwardingConfigT, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self._client: httpx.AsyncClient | None = None
        self._sessions: dict[str, GymSession | SteppedSession] = {}
        self._epoch = 0

    def destination(self) -> Destination:
        """Where calls go now. Raises InfraError where that is nowhere."""
        raise NotImplementedError

    async def start(self) -> None:
        self._client = make_client()

    async def stop(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        return {
            SEED: self._pass_row,
            CALL_TOOL: self._pass_tool_call,
            RESET: self._reset,
            STEP: self._pass_step,
            VERIFY: self._pass_response,
            VERIFY_SESSION: self._pass_session_response,
            END_SESSION: self._end_session,
            AGGREGATE: self._aggregate,
            GYM_CALL: self._pass_gym_call,
        }

    async def verify(self, task: ForwardedTask, row: Row, response: JsonObject) -> Verdict:
        raise BugError(f"{self.name}: judges at another server, not here: verify it there", kind="external")

    def oracle(self, task: ForwardedTask, row: Row) -> Sequence[Sequence[JsonObject]]:
        if not task.good_turns:
            raise RowError("good_turns: the row has none, and the other server tells none", kind="no_oracle")
        return [[message_item(text)] for text in task.good_turns]

    async def judge(self, peer: HttpPeer, request: VerifyRequest, call: Call) -> Verdict:
        """Have the other server judge a response."""
        return await peer.call(VERIFY, request, call)

    async def take_step(self, session: SteppedSession, request: SessionStep, call: Call) -> SessionStepResult:
        """Have the other server take a step."""
        return await session.step(request, call)

    async def pass_gym_call(self, request: GymCall, call: Call) -> GymCallReply:
        """Have the other server answer a request of NeMo-Gym's own agent. Raises InfraError, or for a verdict
        VerifierError, where it fails."""
        is_verdict = request.path == "/verify"
        cookies, epoch = dict(request.cookies), self._epoch
        peer = self._peer_with(None)
        what = f"{self.name}: {request.path}"
        try:
            reply = await post(peer, cookies, request.path, orjson.dumps(request.body), call, what=what)
        except InfraError as error:
            if is_verdict and error.kind != "connection":
                raise VerifierError(error.message, kind="verify_failed", stage="verify") from error
            raise
        text = f"{what}: {reply.status_code}: {reply.text[:300]}"
        if is_verdict and reply.status_code >= HTTPStatus.BAD_REQUEST:  # no verdict, whatever the agent makes of it
            raise VerifierError(text, kind="verify_failed", stage="verify")
        if reply.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise InfraError(text, kind="tool_failed", stage="tools")
        return GymCallReply(status=reply.status_code, body=reply.text, cookies=cookies, epoch=epoch)

    def forget_sessions(self) -> None:
        """Note that the other server has lost what it kept: whoever still asks for it gets an error."""
        self._sessions.clear()
        self._epoch += 1

    async def _pass_row(self, row: Row, call: Call) -> Session:
        tools = row.responses_create_params.get("tools")
        cookies: dict[str, str] = {}
        peer = self._peer_with(cookies)
        session = await peer.call(SEED, row, call)
        if session.session_id is not None:
            return _passed(session)
        if not cookies:
            return session
        shown = tools if isinstance(tools, list) else []
        name = self._hold(GymSession(self._peer_with(cookies, ONCE), cookies, tool_names(shown)))
        return session.model_copy(update={"session_id": name, "tools": shown})

    async def _reset(self, row: Row, call: Call) -> Session:
        cookies: dict[str, str] = {}
        session = await self._peer_with(cookies).call(RESET, row, call)
        if session.session_id is not None:
            return _passed(session)
        name = self._hold(SteppedSession(self._peer_with(cookies, ONCE), cookies, row))
        return session.model_copy(update={"session_id": name, "tools": row.responses_create_params.get("tools") or []})

    def _hold(self, session: GymSession | SteppedSession) -> str:
        """Hold a session, and forget those whose agents have gone; return its id."""
        for name in [name for name, one in self._sessions.items() if one.calls.is_idle(self.config.session_idle_s)]:
            del self._sessions[name]
        name = f"gym_session_{secrets.token_hex(16)}"
        self._sessions[name] = session
        return name

    async def _pass_tool_call(self, request: SessionCall, call: Call) -> SessionCallResult:
        session = self._gym_session(call)
        if session is None:
            return await self._pass(CALL_TOOL, request, call)
        if isinstance(session, SteppedSession):
            raise RequestError(f"{self.name}: the session is stepped by whole answers, not by calls", kind="stepped")
        return await session.calls.answer(request.call_id, lambda: session.run(request, call))

    async def _pass_step(self, request: SessionStep, call: Call) -> SessionStepResult:
        session = self._gym_session(call)
        if session is None:
            return await self._pass(STEP, request, call)
        if isinstance(session, GymSession):
            raise RequestError(f"{self.name}: the session takes calls of tools, not steps", kind="not_stepped")
        return await session.calls.answer(request.call_id, lambda: self._take_step(session, request, call))

    async def _take_step(self, session: SteppedSession, request: SessionStep, call: Call) -> SessionStepResult:
        try:
            return await self.take_step(session, request, call)
        except RequestError:
            raise  # the caller's mistake: nothing was asked of the other server
        except PaddockError as error:
            session.failure = error
            raise

    async def _pass_response(self, request: VerifyRequest, call: Call) -> Verdict:
        return await self.judge(self._peer_with(None), request, call)

    async def _pass_session_response(self, request: VerifyRequest, call: Call) -> Verdict:
        session = self._gym_session(call)
        if session is None:
            return await self._pass(VERIFY_SESSION, request, call)
        if isinstance(session, SteppedSession):
            return session.verdict()
        return await session.judged(lambda: self.judge(session.peer, request, call))

    async def _pass_gym_call(self, request: GymCall, call: Call) -> GymCallReply:
        if request.epoch is not None and request.epoch != self._epoch:
            raise InfraError(f"{self.name}: the session is not here any more", kind="session_lost", retryable=False)
        return await self.pass_gym_call(request, call)

    async def _end_session(self, body: JsonObject, call: Call) -> JsonObject:
        name = call.path["session"]
        if name.startswith(PASSED):
            return await self._pass(END_SESSION, body, call)
        session = self._sessions.pop(name, None)
        if session is not None:
            await session.end()
        return {}

    async def _pass(self, route: Route[RequestT, ReplyT], request: RequestT, call: Call) -> ReplyT:
        session = call.path["session"].removeprefix(PASSED)
        return await self._peer_with(None).call(route, request, call, session=session)

    def _gym_session(self, call: Call) -> GymSession | SteppedSession | None:
        """The session that a call names; None: it is one of the other server's own. InfraError where it is not here."""
        name = call.path["session"]
        if name.startswith(PASSED):
            return None
        session = self._sessions.get(name)
        if session is None:
            raise InfraError(f"{self.name}: the session is not here any more", kind="session_lost", retryable=False)
        session.calls.used = time.monotonic()
        return session

    def _peer_with(self, cookies: dict[str, str] | None, retry: RetryPolicy = DEFAULT_RETRY) -> HttpPeer:
        if self._client is None:
            raise BugError(f"{self.name}: was not started", kind="not_started")
        url, token = self.destination()
        return HttpPeer(
            self.name,
            self._client,
            url,
            retry=retry,
            token=token,
            cookies=cookies,
            max_reply_bytes=self.config.max_reply_mib << 20,
        )


def _passed(session: Session) -> Session:
    return session.model_copy(update={"session_id": f"{PASSED}{session.session_id}"})
