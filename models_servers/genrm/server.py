"""A judge behind vLLM or any OpenAI-compatible chat endpoint, for clients of every dialect.

Request a comparison (`metadata.response_1`, `response_2`, `principle`) is put to the judge as `prompt_form` says, see
        `prompt`; any other request passes as chat. Nothing is recorded: no rollout's calls come here.
Answer  reasoning, in its own field or before `</think>` in the text, is a reasoning item; the message is what the
        judge says after it.
Law     equal requests get the same answer, which the judge is asked for once (`cache_entries`). A failure is an error,
        never an answer.
Errors  those of `paddock.server.upstream_failures` and of `endpoints`; InfraError `judge_timeout` when the caller's
        time is over.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import orjson

from paddock.errors import BugError, InfraError
from paddock.http import PLAIN_CHAT, PLAIN_MESSAGES, PLAIN_RESPONSES, Call, ModelReply, Peer, Route
from paddock.models_servers.genrm.answer_cache import AnswerCache
from paddock.models_servers.genrm.client import JudgeClient
from paddock.models_servers.genrm.config import GenrmModelConfig
from paddock.models_servers.genrm.endpoints import JudgeEndpoints
from paddock.models_servers.genrm.judge_request import judge_request
from paddock.server import Handler, ModelServer
from paddock.server.dialects import Answer, Dialect, reasoning_item, whole_reply
from paddock.server.dialects.chat_answers import read_completion
from paddock.server.dialects.failures import UnreadableError
from paddock.server.endpoint_trial import UpstreamEndpoint
from paddock.server.upstream_exchange import WholeAnswer, json_headers
from paddock.types import JsonObject
from paddock.types.responses import content_text, item_type, message_item

THOUGHT, THOUGHT_END = "<think>", "</think>"
MAX_NAMES = 1000
"""Different names of dropped things that are counted; clients choose them."""


class GenrmModelServer(ModelServer[GenrmModelConfig]):
    SHARED: ClassVar[bool] = True
    COMPARES: ClassVar[bool] = True
    config_type = GenrmModelConfig

    @classmethod
    def endpoint(cls, config: GenrmModelConfig) -> UpstreamEndpoint | None:
        headers = json_headers(config.key, config.default_headers)
        return UpstreamEndpoint(config.urls, headers, config.model, "chat") if config.urls else None

    def __init__(self, config: GenrmModelConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self.dropped: Counter[str] = Counter()
        """How often a key of requests was not passed on, by name."""
        self.answers: AnswerCache[Answer] = AnswerCache(config.cache_entries)
        self.endpoints = JudgeEndpoints(config, name=name)
        self._client: JudgeClient | None = None

    async def start(self) -> None:
        await self.endpoints.start()
        self._client = JudgeClient(self.config, self.endpoints)

    async def stop(self) -> None:
        await self.answers.close()
        if self._client is not None:
            await self._client.close()
        await self.endpoints.stop()

    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        return {PLAIN_RESPONSES: self.responses, PLAIN_CHAT: self.chat, PLAIN_MESSAGES: self.messages}

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        return await self._reply("responses", body, call)

    async def chat(self, body: JsonObject, call: Call) -> ModelReply:
        return await self._reply("chat", body, call)

    async def messages(self, body: JsonObject, call: Call) -> ModelReply:
        return await self._reply("messages", body, call)

    @property
    def client(self) -> JudgeClient:
        if self._client is None:
            raise BugError(f"{self.name} was not started", kind="not_started")
        return self._client

    async def _reply(self, dialect: Dialect, request: JsonObject, call: Call) -> ModelReply:
        judged = judge_request(self.config, dialect, request, self._drop)
        client = self.client
        try:
            async with asyncio.timeout(call.remaining_s) as clock:
                answer = await self.answers.get(judged.key, lambda: client.ask(judged.body, _read))
        except TimeoutError as error:
            if not clock.expired():
                raise
            why = f": {self.endpoints.last_errors}" if self.endpoints.last_errors else ""
            raise InfraError(f"{self.name}: no answer in time{why}", kind="judge_timeout", stage="model") from error
        return whole_reply(dialect, answer, request, model=self.config.model)

    def _drop(self, key: str) -> None:
        is_counted = key in self.dropped or len(self.dropped) < MAX_NAMES
        self.dropped[key if is_counted else "(others)"] += 1


def _read(whole: WholeAnswer) -> Answer:
    try:
        body = orjson.loads(whole.content)
    except orjson.JSONDecodeError as error:
        raise UnreadableError(f"no JSON: {error}") from error
    answer = read_completion(body, frozenset())
    return replace(answer, output=_split_reasoning(answer.output), tokens=None)


def _split_reasoning(output: list[JsonObject]) -> list[JsonObject]:
    """Make reasoning that stands in the text an item of its own; where it has no end, all of the text is reasoning."""
    if not output or item_type(output[0]) != "message":
        return output
    text = content_text(output[0].get("content"))
    thought, end_mark, rest = text.partition(THOUGHT_END)
    has_start = thought.lstrip().startswith(THOUGHT)
    if not (end_mark or has_start):
        return output
    reasoning = thought.strip().removeprefix(THOUGHT).strip()
    return [*([reasoning_item(reasoning)] if reasoning else []), message_item(rest.strip()), *output[1:]]
