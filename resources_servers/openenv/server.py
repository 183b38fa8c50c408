"""An OpenEnv environment as tools: `step`, with the environment's own action schema, and `observe`.

Session one WebSocket of the OpenEnv server, from the row's `reset` to the end of the rollout. An action that the
        environment does not take is a text for the model; one after the end of the episode, too.
Reward  the sum of the steps' rewards, or the last one (`reward`). Reasons: `done`, the environment ended the episode;
        `not_done`; `no_step`, which is 0.
Errors  those of `episode`; VerifierError `no_reward` where no step had one.
"""

import asyncio
import math
from typing import Literal

import httpx
import orjson
from pydantic import BaseModel, ConfigDict, Field

from paddock.errors import InfraError, VerifierError
from paddock.http.client import read_reply
from paddock.resources_servers.openenv.episode import InvalidAction, OpenEnvEpisode
from paddock.server import ToolMistake, ToolsServer, ToolsServerConfig, tool
from paddock.types import JsonObject, Row, Session, Verdict


class OpenEnvConfig(ToolsServerConfig):
    base_url: str = Field(pattern=r"^https?://")
    """Where the OpenEnv server is, such as http://127.0.0.1:8000. It has to take as many sessions as rollouts run at
    once: `max_concurrent_envs`."""
    answer_timeout_s: float = Field(default=60.0, gt=0)
    """Seconds that one reset or step may take; then the rollout's outcome is `infra`."""
    max_reply_mib: int = Field(default=64, ge=1)
    """MiB of one answer of the server; a longer one is read no further, and the rollout's outcome is `infra`."""
    reward: Literal["sum", "last"] = "sum"
    """The rollout's reward: the sum of its steps', or that of the last step that had one."""


class OpenEnvTask(BaseModel):
    """The row's own keys."""

    model_config = ConfigDict(frozen=True, extra="allow")

    reset: JsonObject = {}
    """Arguments of the environment's `reset`, such as `seed`."""


class OpenEnvServer(ToolsServer[OpenEnvConfig, OpenEnvTask, OpenEnvEpisode]):
    config_type = OpenEnvConfig
    task_type = OpenEnvTask
    _action: JsonObject | None = None

    @tool
    async def step(self, state: OpenEnvEpisode, action: JsonObject) -> JsonObject:
        """Take an action in the environment. Returns the observation that follows, its reward, and if it is over."""
        try:
            observation = await state.step(action)
        except InvalidAction as error:
            raise ToolMistake(f"step: {error}") from error
        if observation is None:
            raise ToolMistake("The episode is over: no action is taken any more.")
        return observation

    @tool
    async def observe(self, state: OpenEnvEpisode) -> JsonObject:
        """The latest observation, before the first action that of the start."""
        return state.observation

    async def seed_session(self, task: OpenEnvTask, row: Row) -> Session:
        if self._action is None:
            self._action = await self._action_schema()
        session = await super().seed_session(task, row)
        return session.model_copy(update={"tools": [_with_action(shown, self._action) for shown in session.tools]})

    async def open_state(self, task: OpenEnvTask, row: Row) -> OpenEnvEpisode:
        url = "ws" + self.config.base_url.rstrip("/").removeprefix("http")
        return await OpenEnvEpisode.begin(
            url, task.reset, self.config.answer_timeout_s, self.config.max_reply_mib << 20
        )

    async def close_state(self, state: OpenEnvEpisode) -> None:
        await state.close()

    async def judge_state(self, state: OpenEnvEpisode, task: OpenEnvTask, row: Row, response: JsonObject) -> Verdict:
        metrics = {"steps": float(state.steps), "done": float(state.done)}
        if not state.steps:
            return Verdict(reward=0.0, reason="no_step", metrics=metrics)
        if not state.rewards:
            raise VerifierError("no step had a reward", kind="no_reward")
        reward = math.fsum(state.rewards) if self.config.reward == "sum" else state.rewards[-1]
        return Verdict(reward=reward, reason="done" if state.done else "not_done", metrics=metrics)

    async def _action_schema(self) -> JsonObject:
        url = f"{self.config.base_url.rstrip('/')}/schema"
        try:
            async with (
                asyncio.timeout(self.config.answer_timeout_s),
                httpx.AsyncClient(timeout=self.config.answer_timeout_s, trust_env=False) as client,
                client.stream("GET", url) as reply,
            ):
                content = await read_reply(reply.raise_for_status(), self.config.max_reply_mib << 20, url)
            answer = orjson.loads(content)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise InfraError(f"{url}: no answer in time", kind="timeout") from error
        except (httpx.HTTPError, orjson.JSONDecodeError) as error:
            raise InfraError(f"{url}: {type(error).__name__}: {error}", kind="connection") from error
        schema = answer.get("action") if isinstance(answer, dict) else None
        if not isinstance(schema, dict):
            raise InfraError(f"{url}: no schema of actions", kind="reply_unreadable")
        return schema


def _with_action(shown: JsonObject, action: JsonObject) -> JsonObject:
    """A tool's definition, where it is `step` with the environment's schema of its argument."""
    if shown["name"] != "step":
        return shown
    definitions = {"$defs": action["$defs"]} if "$defs" in action else {}
    argument = {key: value for key, value in action.items() if key != "$defs"}
    return {**shown, "parameters": {**shown["parameters"], "properties": {"action": argument}, **definitions}}
