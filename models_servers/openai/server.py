"""A recording proxy in front of any OpenAI-compatible endpoint, in every dialect, streaming or not.

Law     that of `paddock.server.recording_server`. With token ids a turn's parent is the turn whose ids its prompt
        continues; without them, the turn that the request continues. Where ids were sent (`splice`), the answer is
        compared with them.
Errors  those of `paddock.server.upstream_failures`, and of the base.
"""

import logging
from collections.abc import AsyncGenerator, Mapping

import orjson

from paddock.errors import BugError, InfraError
from paddock.http import Peer
from paddock.models_servers.openai.client import EndpointClient
from paddock.models_servers.openai.config import OpenAIConfig
from paddock.models_servers.openai.request import ON_POLICY, endpoint_request
from paddock.models_servers.openai.splice import Splice, read_prompt_length, splice, tokenize_body
from paddock.models_servers.openai.streaming import Reader
from paddock.server.dialects import Answer, Conversation, ItemClosed
from paddock.server.dialects.chat_answers import has_routed_experts, read_completion
from paddock.server.dialects.chat_reader import ChatReader
from paddock.server.dialects.failures import UnreadableError
from paddock.server.dialects.responses_answers import ResponsesReader, read_response
from paddock.server.exchange import Batch
from paddock.server.recording_server import OVERFLOW, PendingCall, RecordingServer
from paddock.server.upstream_exchange import WholeAnswer
from paddock.server.upstream_failures import RefusedError, UpstreamError
from paddock.tokens import Placement
from paddock.types import Engine

WEIGHT_VERSION = "x-weight-version"
"""Header of an answer that names the weights which gave it; a field `weight_version` goes before it."""
_log = logging.getLogger(__name__)


class OpenAIServer(RecordingServer[OpenAIConfig]):
    config_type = OpenAIConfig

    def __init__(self, config: OpenAIConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self.broken_splices = 0
        """Answers whose prompt did not go on from the ids that were sent."""
        self._connected: EndpointClient | None = None

    @property
    def engine_kind(self) -> Engine:
        return self.config.engine

    @property
    def model_name(self) -> str:
        return self.config.model

    async def start(self) -> None:
        await super().start()
        self._connected = EndpointClient(self.config)

    async def stop(self) -> None:
        await super().stop()
        if self._connected is not None:
            await self._connected.close()

    async def sample(self, pending: PendingCall) -> AsyncGenerator[Batch, None]:
        spliced = self._splice(pending)
        asked = endpoint_request(
            self.config,
            pending.dialect,
            pending.request,
            pending.settings.sampling,
            self.drop,
            spliced.messages if spliced else None,
        )
        pending.sampling, pending.overridden = asked.sampling
        if not asked.stream:
            answer = await self._whole(asked.body, pending, spliced)
            yield [*(ItemClosed(nth, item) for nth, item in enumerate(answer.output)), answer]
            return
        told = pending.conversation
        stream = await self._upstream.stream(asked.body, lambda: self._reader(told), pending.call, pending.secret)
        try:
            async for batch in stream.batches():
                if batch and isinstance(batch[-1], Answer):
                    batch = [*batch[:-1], self._checked(batch[-1], stream.headers)]
                yield batch
        finally:
            await stream.aclose()

    async def _whole(self, body: bytes, pending: PendingCall, spliced: Splice | None) -> Answer:
        told = pending.conversation
        try:
            answer = await self._upstream.whole(
                body, lambda whole: self._read(whole, told), pending.call, pending.secret
            )
        except UpstreamError as error:
            if spliced is None or error.kind != "upstream_status":
                raise
            await self._require_room(body, pending)
            pair = " and ".join(f"{name} {pending.sampling[name]}" for name in ON_POLICY)
            raise UpstreamError(f"{error.message} (asked with {pair}: its trainer's?)", kind=error.kind) from error
        if spliced is not None and spliced.turn is not None:
            self._place(pending, spliced, answer)
        return answer

    def _splice(self, pending: PendingCall) -> Splice | None:
        if self.config.token_protocol != "nemo_rl":
            return None
        index = None if pending.secret is None else self.store.index(pending.secret)
        return splice(pending.conversation, pending.matched, index, self.config.reasoning_fields)

    async def _require_room(self, body: bytes, pending: PendingCall) -> None:
        """NeMo-RL's chat server does not say so where a prompt leaves no room only as it is spliced: it fails."""
        try:
            whole = await self._upstream.tokenized(tokenize_body(body), pending.call, pending.secret)
        except UpstreamError:
            return
        found = read_prompt_length(whole.content)
        if found is not None and found.tokens >= found.limit:
            raise RefusedError(
                f"the prompt has {found.tokens} tokens, and the model takes {found.limit}, its answer included",
                kind=OVERFLOW,
                stage="model",
            )

    def _place(self, pending: PendingCall, spliced: Splice, answer: Answer) -> None:
        assert answer.tokens is not None  # `_checked`
        placed = spliced.placed(answer.tokens.prompt_ids)
        if placed is None:
            self.broken_splices += 1
            _log.warning("%s: a broken splice: a prompt does not begin with the ids that were sent", self.name)
            pending.splice_broken = True
        pending.placed = placed or Placement(None, [*answer.tokens.prompt_ids])

    @property
    def _upstream(self) -> EndpointClient:
        if self._connected is None:
            raise BugError(f"{self.name} was not started", kind="not_started")
        return self._connected

    def _reader(self, told: Conversation) -> Reader:
        in_chat = self.config.upstream_api == "chat"
        return ChatReader(told.custom, told.namespaces) if in_chat else ResponsesReader()

    def _read(self, whole: WholeAnswer, told: Conversation) -> Answer:
        try:
            body = orjson.loads(whole.content)
        except orjson.JSONDecodeError as error:
            raise UnreadableError(f"no JSON: {error}") from error
        in_chat = self.config.upstream_api == "chat"
        if has_routed_experts(body):
            self.drop("routed_experts of answers")
        answer = read_completion(body, told.custom, told.namespaces) if in_chat else read_response(body)
        return self._checked(answer, whole.headers)

    def _checked(self, answer: Answer, headers: Mapping[str, str]) -> Answer:
        """The answer with its weight version; InfraError when it lacks the ids that the engine is declared to give, or
        is of a model that the config does not accept."""
        accepted = self.config.accepted_models
        if accepted and answer.model not in accepted:
            raise UpstreamError(
                f"{self.name}: the answer is of model `{answer.model}`; `accepted_models` has {', '.join(accepted)}",
                kind="upstream_wrong_model",
            )
        if self.config.engine == "spliced" and answer.tokens is None:
            way = "its answers lack them" if self.config.request_token_ids else "set `request_token_ids: true`"
            raise InfraError(
                f"{self.name}: engine `spliced`, but the endpoint gave no token ids with log-probs: {way}, or declare "
                "`engine: text`",
                kind="token_ids_missing",
                stage="model",
                retryable=False,
            )
        return answer.of_weights(answer.weight_version or headers.get(WEIGHT_VERSION))
