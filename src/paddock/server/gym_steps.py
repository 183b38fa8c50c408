"""An episode at a resources server of NeMo-Gym's that is stepped: a cookie, `POST /reset`, `POST /step`.

Source  nemo-gym 0.4.0: `resources_servers/gymnasium/base.py`; `gymnasium_agent/app.py` for what the model reads next.
Law     the reward is the sum of the steps' rewards. An answer that the server refuses (400) is no step: the model sees
        the refusal as the user's message, where NeMo-Gym's agent gives the rollout up, which a policy could choose. A
        step that fails otherwise, or whose reply has another form, is an error, never a reward. Once ended, an episode
        is stepped no further.
"""

from collections.abc import Sequence
from http import HTTPStatus

import orjson
from pydantic import BaseModel, Field, JsonValue, ValidationError

from paddock.errors import InfraError, PaddockError, RequestError, describe
from paddock.http import Call, HttpPeer, SessionStep, SessionStepResult
from paddock.server.gym_session import post
from paddock.server.session_calls import SessionCalls
from paddock.types import JsonObject, Row, Verdict
from paddock.types.responses import user_message

STEPS = "steps"
"""Name of the metric of a verdict that counts them."""


class _ToolOutput(BaseModel):
    call_id: str
    output: str


class _StepInfo(BaseModel, extra="allow"):
    tool_outputs: list[_ToolOutput] = []


class _StepReply(BaseModel):
    observation: str | None = None
    reward: float = Field(default=0.0, allow_inf_nan=False)
    terminated: bool = False
    truncated: bool = False
    info: dict[str, JsonValue] = {}


class SteppedSession:
    """`peer` sends and updates `cookies`, which `/reset` has set."""

    def __init__(self, peer: HttpPeer, cookies: dict[str, str], row: Row) -> None:
        self.peer = peer
        self.calls = SessionCalls()
        self._cookies = cookies
        self._row = row
        self._n_steps = 0
        self._reward = 0.0
        self._last = _StepReply()
        self.failure: PaddockError | None = None
        """Of a step that was not taken, or in doubt: there is no verdict after it."""

    async def step(self, request: SessionStep, call: Call) -> SessionStepResult:
        """Take a step. Raises InfraError; RequestError after the episode's end."""
        if self._last.terminated or self._last.truncated:
            raise RequestError(f"{self.peer.name}: the episode has ended", kind="episode_ended")
        what = f"{self.peer.name}: step {self._n_steps + 1}"
        body = orjson.dumps({**self._row.to_wire(), "response": request.response})
        reply = await post(self.peer, self._cookies, "/step", body, call, what=what)
        if reply.status_code == HTTPStatus.BAD_REQUEST:
            return SessionStepResult(items=[user_message(reply.text)], refused=True)
        if reply.status_code != HTTPStatus.OK:
            raise InfraError(f"{what}: {reply.status_code}: {reply.text[:300]}", kind="step_failed", stage="tools")
        try:
            self._last = _StepReply.model_validate_json(reply.text)
            outputs = _StepInfo.model_validate(self._last.info).tool_outputs
        except ValidationError as error:
            raise InfraError(f"{what}: {describe(error)}", kind="reply_unreadable", stage="tools") from error
        self._n_steps += 1
        self._reward += self._last.reward
        done = self._last.terminated or self._last.truncated
        return SessionStepResult(
            items=[] if done else _next_items(self._last, outputs), done=done, truncated=self._last.truncated
        )

    def verdict(self) -> Verdict:
        """Return what the steps so far have come to. Raises what a step has failed with."""
        if self.failure is not None:
            raise self.failure
        last = self._last
        truncated = last.truncated or not last.terminated
        return Verdict(
            reward=self._reward,
            reason="terminated" if last.terminated else "truncated" if last.truncated else "unfinished",
            metrics={STEPS: self._n_steps},
            extras={"terminated": last.terminated, "truncated": truncated, "info": last.info},
        )

    async def end(self) -> None:
        """Cancel what runs, and wait for it."""
        await self.calls.end()


def _next_items(reply: _StepReply, outputs: Sequence[_ToolOutput]) -> list[JsonObject]:
    results = [{"type": "function_call_output", "call_id": one.call_id, "output": one.output} for one in outputs]
    return [*results, *([user_message(reply.observation)] if reply.observation else [])]
