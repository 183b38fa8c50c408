"""One episode of an OpenEnv server: its WebSocket, from `reset` to `close`.

Wire    `/ws`: `{"type": reset|step|close, "data"}`, answered by `{"type": "observation", "data": {observation, reward,
        done}}` or `{"type": "error", "data": {code, message}}`. Its HTTP `/reset` and `/step` keep no episode.
Errors  InvalidAction for an action that the environment's schema does not take; InfraError for a connection that is
        lost (`connection`), an answer that does not come (`timeout`), is none (`reply_unreadable`) or too long
        (`reply_too_large`), an environment that is full (`environment_full`) or fails (`environment_error`).
"""

import asyncio
import math
from contextlib import suppress
from typing import Any, Self

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.frames import CloseCode

from paddock.errors import InfraError
from paddock.types import JsonObject


class InvalidAction(Exception):  # noqa: N818 - the model's mistake, which it is shown
    """The environment does not take this action; its text says why."""


class OpenEnvEpisode:
    """An episode that has begun."""

    def __init__(self, connection: ClientConnection, timeout_s: float) -> None:
        self.observation: JsonObject = {}
        """The last one, with `reward` and `done`."""
        self.rewards: list[float] = []
        """Of steps that had one."""
        self.steps = 0
        self._connection = connection
        self._timeout_s = timeout_s
        self._turn = asyncio.Lock()
        """Calls of one answer may run side by side; a question and its answer are one."""

    @classmethod
    async def begin(cls, url: str, reset: JsonObject, timeout_s: float, max_reply_bytes: int) -> Self:
        """Connect and reset."""
        try:
            connection = await connect(f"{url}/ws", max_size=max_reply_bytes, open_timeout=timeout_s, proxy=None)
        except (OSError, WebSocketException, TimeoutError) as error:
            raise InfraError(f"OpenEnv server at {url}: {error}", kind="connection") from error
        episode = cls(connection, timeout_s)
        try:
            episode.observation = await episode._ask("reset", reset)
        except BaseException:
            await connection.close()
            raise
        return episode

    @property
    def done(self) -> bool:
        return self.observation.get("done") is True

    async def step(self, action: JsonObject) -> JsonObject | None:
        """Take an action; the observation that follows. None: the episode was over before its turn came."""
        async with self._turn:
            if self.done:
                return None
            self.observation = observation = await self._ask("step", action)
        self.steps += 1
        reward = observation.get("reward")
        if reward is not None:
            if not isinstance(reward, int | float) or not math.isfinite(reward):
                raise InfraError(f"a step's reward is no finite number: {reward!r}"[:300], kind="reply_unreadable")
            self.rewards.append(float(reward))
        return observation

    async def close(self) -> None:
        """End the episode; the server drops its environment with the connection."""
        await self._connection.close()

    async def _ask(self, kind: str, data: JsonObject) -> JsonObject:
        try:
            async with asyncio.timeout(self._timeout_s):
                with suppress(ConnectionClosed):  # what the server said before it closed is still there to be read
                    await self._connection.send(orjson.dumps({"type": kind, "data": data}).decode())
                answer: Any = orjson.loads(await self._connection.recv())
        except TimeoutError as error:
            raise InfraError(f"{kind}: no answer within {self._timeout_s:g} s", kind="timeout") from error
        except (OSError, WebSocketException) as error:
            if isinstance(error, ConnectionClosed) and error.sent and error.sent.code == CloseCode.MESSAGE_TOO_BIG:
                raise InfraError(f"{kind}: the answer is too long: {error}", kind="reply_too_large") from error
            raise InfraError(f"{kind}: the connection is lost: {error}", kind="connection") from error
        except orjson.JSONDecodeError as error:
            raise InfraError(f"{kind}: an answer that is no JSON", kind="reply_unreadable") from error
        given = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(given, dict):
            raise InfraError(f"{kind}: an answer without data", kind="reply_unreadable")
        if answer.get("type") == "observation":
            return given
        _raise_error(kind, given)
        raise InfraError(f"{kind}: an answer of type {answer.get('type')!r}", kind="reply_unreadable")


def _raise_error(kind: str, data: JsonObject) -> None:
    code, message = data.get("code"), str(data.get("message"))[:300]
    if code == "VALIDATION_ERROR" and kind == "step":
        details = [f"{'.'.join(map(str, item.get('loc', ())))}: {item.get('msg')}" for item in data.get("errors") or []]
        raise InvalidAction("; ".join(details) or message)
    if code == "CAPACITY_REACHED":
        raise InfraError(f"{kind}: {message} (max_concurrent_envs)", kind="environment_full")
    if code is not None:
        raise InfraError(f"{kind}: {code}: {message}", kind="environment_error")
