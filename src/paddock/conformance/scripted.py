"""Scripted servers: a whole set that answers and fails on cue, for suites and tests of what surrounds them.

`ScriptedEnvironment` grades the text of the answer; a row's `grade` says how grading goes. `ScriptedModel` answers one
text and fails by count or by share; each rollout's calls are recorded as turns in memory, up to `max_rollouts`.
Both are named in a config as `paddock.conformance.scripted:ScriptedModel`.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from paddock.errors import InfraError, LeakError, RequestError, VerifierError
from paddock.http import Call, ModelReply
from paddock.server import ModelServer, ResourcesServer, ServerConfig
from paddock.types import JsonObject, RolloutSettings, Row, Session, Turn, TurnRecord, Usage, Verdict
from paddock.types.responses import TURN_ID, make_response, message_item, messages, new_id

Grade = Literal["ok", "raise", "verifier", "infra", "leak", "hang"]
HANG_S = 3600.0


class EnvironmentConfig(ServerConfig):
    seed: Literal["ok", "raise", "infra", "hang"] = "ok"
    """How seeding goes, for every row."""
    grade: Grade = "ok"
    """How grading goes, where the row does not say."""


class EnvironmentTask(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    answer: str
    """The text that is right."""
    grade: Grade | None = None


class ScriptedEnvironment(ResourcesServer[EnvironmentConfig, EnvironmentTask]):
    config_type = EnvironmentConfig
    task_type = EnvironmentTask

    async def seed_session(self, task: EnvironmentTask, row: Row) -> Session:
        if self.config.seed == "hang":
            await asyncio.sleep(HANG_S)
        if self.config.seed == "infra":
            raise InfraError("scripted: the world did not open", kind="scripted")
        if self.config.seed == "raise":
            raise RuntimeError("scripted: seeding broke")
        return Session(visible={"topic": "scripted"})

    async def verify(self, task: EnvironmentTask, row: Row, response: JsonObject) -> Verdict:
        grade = task.grade or self.config.grade
        if grade == "hang":
            await asyncio.sleep(HANG_S)
        if grade == "raise":
            raise RuntimeError("scripted: grading broke")
        if grade == "verifier":
            raise VerifierError("scripted: no usable judgement", kind="scripted")
        if grade == "infra":
            raise InfraError("scripted: the grader's machine died", kind="scripted")
        if grade == "leak":
            raise LeakError("scripted: the canary was read", kind="scripted")
        right = messages(response) == [task.answer]
        return Verdict(reward=float(right), reason="right" if right else "wrong", metrics={"right": float(right)})

    def oracle(self, task: EnvironmentTask, row: Row) -> Sequence[Sequence[JsonObject]]:
        return [[message_item(task.answer)]]


class ModelConfig(ServerConfig):
    model: str = "scripted"
    """Its name in answers."""
    answer: str = "yes"
    """The text of every answer."""
    cut: bool = False
    """Every answer says that a token budget cut it."""
    fail: Literal["infra", "refuse", "raise", "error_reply"] = "infra"
    """How a call fails that fails."""
    fail_first: int = Field(default=0, ge=0)
    """The first so many calls fail."""
    fail_share: float = Field(default=0.0, ge=0, le=1)
    """Share of rollouts whose calls fail, drawn by the rollout's secret."""
    delay_s: float = Field(default=0.0, ge=0)
    """Seconds before each answer."""
    max_rollouts: int = Field(default=4096, ge=1)
    """Rollouts whose turns are kept; the oldest is forgotten first."""


class ScriptedModel(ModelServer[ModelConfig]):
    config_type = ModelConfig

    def __init__(self, *args: object, **named: object) -> None:
        super().__init__(*args, **named)  # type: ignore[arg-type]
        self.n_calls = 0
        self._turns_of: OrderedDict[str, list[Turn]] = OrderedDict()

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        secret = call.path.get("secret") or call.bearer or ""
        self.n_calls += 1
        number = self.n_calls
        await asyncio.sleep(self.config.delay_s)
        share = int.from_bytes(hashlib.sha256(secret.encode()).digest()[:4], "big") / 2**32
        if number <= self.config.fail_first or share < self.config.fail_share:
            return self._fail(body)
        usage = Usage(input_tokens=10, output_tokens=2)
        item = message_item(self.config.answer)
        reason: Literal["max_output_tokens"] | None = "max_output_tokens" if self.config.cut else None
        turn_id = self._record(secret, item, usage)
        reply = make_response([item], body, model=self.config.model, usage=usage, incomplete_reason=reason)
        return {**reply, TURN_ID: turn_id}

    async def turns(self, secret: str) -> TurnRecord:
        return TurnRecord(engine="text", turns=self._turns_of.get(secret, []))

    async def forget(self, secret: str) -> None:
        self._turns_of.pop(secret, None)

    async def set(self, secret: str, settings: RolloutSettings) -> None:
        """Its answers depend on nothing."""

    @property
    def n_remembered(self) -> int:
        """Rollouts whose turns are held."""
        return len(self._turns_of)

    def _fail(self, body: JsonObject) -> JsonObject:
        if self.config.fail == "error_reply":
            return {
                **make_response([], body, model=self.config.model),
                "status": "failed",
                "error": {"code": "server_error"},
            }
        if self.config.fail == "refuse":
            raise RequestError("scripted: the model refused the request", kind="upstream_refused")
        if self.config.fail == "raise":
            raise RuntimeError("scripted: the model broke")
        raise InfraError("scripted: upstream answered 500", kind="upstream_status")

    def _record(self, secret: str, item: JsonObject, usage: Usage) -> str:
        turns = self._turns_of.setdefault(secret, [])
        parent = turns[-1].id if turns else None
        turn = Turn(
            id=new_id("turn"),
            parent=parent,
            prompt_ids=None,
            sampled_ids=None,
            log_probs=None,
            weight_version=None,
            finish_reason="length" if self.config.cut else "stop",
            request_hash=hashlib.sha256(str(len(turns)).encode()).hexdigest(),
            output=[item],
            usage=usage,
        )
        turns.append(turn)
        while len(self._turns_of) > self.config.max_rollouts:
            self._turns_of.popitem(last=False)
        return turn.id
