"""A model server as a judge: one question put to it until its answer can be read, or it has failed.

Request `POST /v1/responses`; from the second try of a question on, `metadata.try` says which, so that no cache gives an
        unusable answer again.
Errors  of the class that the caller names: `judge_unusable` where answers could not be read, `judge_down` where there
        was none in `timeout_s` or the judge failed, `judge_refused` (not retryable) where it will not take the request.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from paddock.errors import BugError, InfraError, PaddockError, VerifierError, boundary
from paddock.http import PLAIN_RESPONSES, Call, ModelReply, Peer
from paddock.server.base import Reference
from paddock.types import JsonObject
from paddock.types.responses import messages

AnswerT = TypeVar("AnswerT")


class ModelJudgeOptions(BaseModel):
    """Who is asked, with which parameters, how often and for how long."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model_server: Reference
    """The judge: any model server, `{type: models_servers, name: ...}`."""
    responses_create_params: JsonObject = {"temperature": 0.0}
    """Parameters of each request, besides `input` and `max_output_tokens`."""
    max_output_tokens: int = Field(default=2048, ge=16)
    """Tokens of one answer."""
    max_unusable: int = Field(default=2, ge=0)
    """Answers to one question that can't be read, after which it is asked again; one more is a failure."""
    timeout_s: float = Field(default=120.0, gt=0)
    """Seconds for both orders together, from when it is their turn."""
    max_concurrency: int = Field(default=16, ge=1)
    """Pairs that are asked for at once; further ones wait."""

    @field_validator("model_server")
    @classmethod
    def _is_a_model(cls, value: Reference) -> Reference:
        if value.type != "models_servers":
            raise ValueError("needs a model server, {type: models_servers, name: ...}")
        return value

    @field_validator("responses_create_params")
    @classmethod
    def _leaves_ours(cls, value: JsonObject) -> JsonObject:
        own = sorted({"input", "instructions", "max_output_tokens", "tools"} & value.keys())
        if own:
            raise ValueError(f"{', '.join(own)}: set by the judge's own options and prompt")
        return value


class JudgeAnswer(NamedTuple, Generic[AnswerT]):
    """What the judge answered to one question."""

    answer: AnswerT
    """As the caller's reader read it."""
    calls: int
    """Requests that were answered, unusable answers too."""


class ModelJudge:
    """The judge of one server."""

    def __init__(
        self, options: ModelJudgeOptions, peers: Mapping[str, Peer], error: type[InfraError] | type[VerifierError]
    ) -> None:
        """`error`: the class of what is raised where the judge fails."""
        self._options = options
        self._peers = peers
        self._error = error
        self._turns = asyncio.Semaphore(options.max_concurrency)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a place among `max_concurrency`; what is asked inside has `timeout_s` in all."""
        async with self._turns:
            try:
                async with asyncio.timeout(self._options.timeout_s):
                    yield
            except TimeoutError as error:
                raise self._error(
                    f"the judge gave no answer in {self._options.timeout_s:g} s", kind="judge_down", stage="verify"
                ) from error

    async def ask(self, text: str, read: Callable[[Any], AnswerT | None]) -> JudgeAnswer[AnswerT]:
        """Ask one question. `read`: the answer of a response, None where it is unusable."""
        options = self._options
        last = ""
        for attempt in range(options.max_unusable + 1):
            body = {
                **options.responses_create_params,
                "max_output_tokens": options.max_output_tokens,
                "input": [{"role": "user", "content": text}],
            }
            if attempt:
                body["metadata"] = {**(body.get("metadata") or {}), "try": str(attempt)}
            reply = await self._call(body)
            answer = read(reply)
            if answer is not None:
                return JudgeAnswer(answer, attempt + 1)
            last = "\n".join(messages(reply))[:200]
        raise self._error(
            f"the judge gave no usable answer in {options.max_unusable + 1} tries; the last: {last!r}",
            kind="judge_unusable",
            stage="verify",
        )

    async def _call(self, body: JsonObject) -> ModelReply:
        peer = self._peers[self._options.model_server.name]
        try:
            with boundary(BugError, f"{peer.name}: judge"):
                return await peer.call(PLAIN_RESPONSES, body, Call().within(self._options.timeout_s))
        except PaddockError as error:
            kind = "judge_down" if error.retryable else "judge_refused"
            raise self._error(
                f"the judge failed: {error.message}", kind=kind, stage="verify", retryable=error.retryable
            ) from error
