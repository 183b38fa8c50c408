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
from paddock.server.endpoint_trial import UpstreamEndpoint
from paddock.server.exchange import Batch
from paddock.server.recording_server import OVERFLOW, PendingCall, RecordingServer
from paddock.server.upstream_exchange import WholeAnswer, json_headers
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
        self._client: EndpointClient | None = None

    @classmethod
    def endpoint(cls, config: OpenAIConfig) -> UpstreamEndpoint:
        headers = json_headers(config.key, config.default_headers)
        return UpstreamEndpoint(config.urls, headers, config.model, config.upstream_api)

    @property
    def engine_kind(self) -> Engine:
        return self.config.engine

    @property
    def model_name(self) -> str:
        return self.config.model

    async def start(self) -> None:
        await super().start()
        self._client = EndpointClient(self.config)

    async def stop(self) -> None:
        await super().stop()
        if self._client is not None:
            await self._client.close()

    async def sample(self, pending: PendingCall) -> AsyncGenerator[Batch, None]:
        sent = self._splice(pending)
        call_body = endpoint_request(
            self.config,
            pending.conversation.request,
            pending.settings.sampling,
            self.drop,
            sent.messages if sent else None,
        )
        pending.sampling, pending.overridden = call_body.sampling
        if not call_body.stream:
            answer = await self._whole(call_body.body, pending, sent)
            yield [*(ItemClosed(nth, item) for nth, item in enumerate(answer.output)), answer]
            return
        conversation = pending.conversation
        stream = await self._endpoint.stream(
            call_body.body, lambda: self._reader(conversation), pending.call, pending.secret
        )
        try:
            async for batch in stream.batches():
                if batch and isinstance(batch[-1], Answer):
                    batch = [*batch[:-1], self._check(batch[-1], stream.headers)]
                yield batch
        finally:
            await stream.aclose()

    async def _whole(self, body: bytes, pending: PendingCall, sent: Splice | None) -> Answer:
        conversation = pending.conversation
        try:
            answer = await self._endpoint.whole(
                body, lambda whole: self._read(whole, conversation), pending.call, pending.secret
            )
        except UpstreamError as error:
            if sent is None or error.kind != "upstream_status":
                raise
            await self._require_room(body, pending)
            pair = " and ".join(f"{name} {pending.sampling[name]}" for name in ON_POLICY)
            raise UpstreamError(f"{error.message} (asked with {pair}: its trainer's?)", kind=error.kind) from error
        if sent is not None and sent.turn is not None:
            self._set_placement(pending, sent, answer)
        return answer

    def _splice(self, pending: PendingCall) -> Splice | None:
        if self.config.token_protocol != "nemo_rl":
            return None
        index = pending.rollout.index if pending.rollout else None
        return splice(pending.conversation, pending.match, index, self.config.reasoning_fields)

    async def _require_room(self, body: bytes, pending: PendingCall) -> None:
        """NeMo-RL's chat server does not say so where a prompt leaves no room only as it is spliced: it fails."""
        try:
            whole = await self._endpoint.tokenize(tokenize_body(body), pending.call, pending.secret)
        except UpstreamError:
            return
        length = read_prompt_length(whole.content)
        if length is not None and length.tokens >= length.limit:
            raise RefusedError(
                f"the prompt has {length.tokens} tokens, and the model takes {length.limit}, its answer included",
                kind=OVERFLOW,
                stage="model",
            )

    def _set_placement(self, pending: PendingCall, sent: Splice, answer: Answer) -> None:
        assert answer.tokens is not None  # `_check`
        placement = sent.placement(answer.tokens.prompt_ids)
        if placement is None:
            self.broken_splices += 1
            _log.warning("%s: a broken splice: a prompt does not begin with the ids that were sent", self.name)
            pending.splice_broken = True
        pending.placement = placement or Placement(None, [*answer.tokens.prompt_ids])

    @property
    def _endpoint(self) -> EndpointClient:
        if self._client is None:
            raise BugError(f"{self.name} was not started", kind="not_started")
        return self._client

    def _reader(self, conversation: Conversation) -> Reader:
        in_chat = self.config.upstream_api == "chat"
        return ChatReader(conversation.custom, conversation.namespaces) if in_chat else ResponsesReader()

    def _read(self, whole: WholeAnswer, conversation: Conversation) -> Answer:
        try:
            body = orjson.loads(whole.content)
        except orjson.JSONDecodeError as error:
            raise UnreadableError(f"no JSON: {error}") from error
        in_chat = self.config.upstream_api == "chat"
        if has_routed_experts(body):
            self.drop("routed_experts of answers")
        answer = read_completion(body, conversation.custom, conversation.namespaces) if in_chat else read_response(body)
        return self._check(answer, whole.headers)

    def _check(self, answer: Answer, headers: Mapping[str, str]) -> Answer:
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
        return answer.with_weight_version(answer.weight_version or headers.get(WEIGHT_VERSION))
