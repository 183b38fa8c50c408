"""A recording proxy in front of any OpenAI-compatible endpoint, in both dialects, streaming or not.

Law     nothing is recorded before a whole answer has arrived; within a rollout every answer is recorded before its
        end is sent. A stream that breaks ends with `response.failed` or an error chunk. A call whose API key is no
        rollout's secret works, and is not recorded.
Errors  those of `failures`; `frozen` (409) after the rollout's turns were read.
"""

import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping

import orjson

from paddock.errors import BugError, InfraError, PaddockError
from paddock.http import Call, EventStream, ModelReply, Peer
from paddock.models_servers.openai.asking import Asked, ask
from paddock.models_servers.openai.config import OpenAIConfig
from paddock.models_servers.openai.recording import record
from paddock.models_servers.openai.streaming import Reader, Stream
from paddock.models_servers.openai.upstream import Upstream, Whole
from paddock.server import ModelServer
from paddock.server.dialects import Answer, Dialect, Writer, body_of, make_writer
from paddock.server.dialects.chat_answers import read_completion
from paddock.server.dialects.chat_reader import ChatReader
from paddock.server.dialects.failures import UnreadableError
from paddock.server.dialects.responses_answers import ResponsesReader, read_response
from paddock.tokens import TurnStore, rollout_of
from paddock.types import JsonObject, TurnRecord

WEIGHT_VERSION = "x-weight-version"
"""Header of an answer that names the weights which gave it; a field `weight_version` goes before it."""
MAX_NAMES = 1000
"""Different names of dropped things that are counted; clients choose them."""
_log = logging.getLogger(__name__)


class OpenAIServer(ModelServer[OpenAIConfig]):
    config_type = OpenAIConfig

    def __init__(self, config: OpenAIConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self.dropped: Counter[str] = Counter()
        """What of clients' requests was not passed on, by name."""
        self._opened: TurnStore | None = None
        self._connected: Upstream | None = None

    async def start(self) -> None:
        self._opened = self.config.turn_store.open(self.name, self.config.engine)
        self._connected = Upstream(self.config)

    async def stop(self) -> None:
        if self._connected is not None:
            await self._connected.close()
        if self._opened is not None:
            self._opened.close()

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        return await self._reply("responses", body, call)

    async def chat(self, body: JsonObject, call: Call) -> ModelReply:
        return await self._reply("chat", body, call)

    async def turns(self, secret: str) -> TurnRecord:
        return self._store.freeze(secret)

    async def forget(self, secret: str) -> None:
        self._store.forget(secret)

    @property
    def _store(self) -> TurnStore:
        if self._opened is None:
            raise BugError(f"{self.name} was not started", kind="not_started")
        return self._opened

    @property
    def _upstream(self) -> Upstream:
        if self._connected is None:
            raise BugError(f"{self.name} was not started", kind="not_started")
        return self._connected

    async def _reply(self, dialect: Dialect, request: JsonObject, call: Call) -> ModelReply:
        secret = rollout_of(call)
        if secret is not None:
            self._store.require_open(secret)
        asked = ask(self.config, dialect, request, self._drop)
        if asked.stream:
            stream = await self._upstream.stream(asked.body, lambda: self._reader(asked), call, secret)
            writer = make_writer(dialect, request, model=self.config.model)
            return EventStream(self._events(stream, writer, request, secret))
        answer = await self._upstream.whole(asked.body, lambda whole: self._read(whole, asked), call, secret)
        self._record(secret, request, answer)
        return body_of(dialect, answer, request, model=self.config.model)

    async def _events(
        self, stream: Stream, writer: Writer, request: JsonObject, secret: str | None
    ) -> AsyncIterator[bytes]:
        try:
            yield writer.start()
            async for batch in stream.batches():
                if batch and isinstance(batch[-1], Answer):
                    self._record(secret, request, self._checked(batch[-1], stream.headers))
                if events := b"".join(map(writer.write, batch)):
                    yield events
        except PaddockError as error:
            yield writer.fail(error.message, error.kind)
        finally:
            await stream.aclose()

    def _reader(self, asked: Asked) -> Reader:
        return ChatReader(asked.custom) if self.config.upstream_api == "chat" else ResponsesReader()

    def _read(self, whole: Whole, asked: Asked) -> Answer:
        try:
            body = orjson.loads(whole.content)
        except orjson.JSONDecodeError as error:
            raise UnreadableError(f"no JSON: {error}") from error
        in_chat = self.config.upstream_api == "chat"
        answer = read_completion(body, asked.custom) if in_chat else read_response(body)
        return self._checked(answer, whole.headers)

    def _checked(self, answer: Answer, headers: Mapping[str, str]) -> Answer:
        """The answer with its weight version; InfraError when it lacks the ids that the engine is declared to give."""
        if self.config.engine == "spliced" and answer.tokens is None:
            raise InfraError(
                f"{self.name}: engine `spliced`, but the endpoint gave no token ids with log-probs: set "
                "`request_token_ids: true`, or declare `engine: text`",
                kind="token_ids_missing",
                stage="model",
                retryable=False,
            )
        return answer.of_weights(answer.weight_version or headers.get(WEIGHT_VERSION))

    def _record(self, secret: str | None, request: JsonObject, answer: Answer) -> None:
        if secret is not None:
            record(self._store, secret, request, answer, name=self.name)

    def _drop(self, key: str) -> None:
        if key not in self.dropped:
            if len(self.dropped) >= MAX_NAMES:
                key = "(others)"
            _log.info("%s: `%s` of requests is not passed on; counted from now on", self.name, key[:80])
        self.dropped[key] += 1
