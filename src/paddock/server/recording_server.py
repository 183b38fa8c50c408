"""The base of model servers that record: a call in any dialect is joined, replayed or made, recorded, then answered.

Law     within a rollout nothing is sampled twice. A request that is being answered is joined by whoever asks the same;
        one that was answered is answered from the record while nothing has continued that answer. An answer is recorded
        when it is whole and somebody reads it, before its end is sent; what can't be recorded is not sent.
        A call outside of a rollout works, is not shared, and is not recorded.
Errors  those of the engine and of the turn store; `frozen` (409) after the rollout's turns were read; after the
        rollout's last turn or its time `context_length_exceeded`, which ends every client. A stream that breaks ends
        with the dialect's error.
"""

import asyncio
import logging
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

from pydantic import Field, ValidationError

from paddock.config import RenamedKeys
from paddock.errors import BugError, InfraError, PaddockError, RequestError, describe
from paddock.http import Call, EventStream, ModelReply, Peer, rollout_of
from paddock.server.base import ModelServer, ServerConfig
from paddock.server.dialects import (
    Answer,
    Conversation,
    Dialect,
    TokenCounts,
    Writer,
    body_of,
    conversation,
    make_writer,
    whole_reply,
)
from paddock.server.exchange import AnswerReader, Batch, Exchange
from paddock.tokens import (
    FrozenError,
    Placement,
    PrefixMatch,
    TurnStore,
    TurnStoreSettings,
    place,
    request_hash,
    root_of,
)
from paddock.types import (
    Engine,
    JsonObject,
    RolloutSettings,
    Turn,
    TurnRecord,
    TurnSummaries,
    TurnSummary,
    TurnSummaryQuery,
)
from paddock.types.responses import copy_json, new_id

OVERFLOW = "context_length_exceeded"
MAX_NAMES = 1000
"""Different names of dropped things that are counted; clients choose them."""
NO_MATCH = PrefixMatch(None, [], "")
NO_SETTINGS = RolloutSettings()
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class PendingCall:
    """One request while it is answered. `sample` notes here what it learns for the turn."""

    dialect: Dialect
    request: JsonObject
    call: Call
    conversation: Conversation
    secret: str | None = None
    """Secret of its rollout; None: it is in none, and is not recorded."""
    hash: str = ""
    turn_id: str = field(default_factory=lambda: new_id("turn"))
    """Id of the turn that its answer will be."""
    match: PrefixMatch = NO_MATCH
    root: bytes = b""
    """Digest of what a rollout's request has besides the history (`RecordingServer.root`)."""
    settings: RolloutSettings = NO_SETTINGS
    placement: Placement | None = None
    """Where the prompt stands in the record; None: found by the answer's ids, else by the history's match."""
    splice_broken: bool = False
    """The prompt does not continue the ids that the engine was sent; `placement` is a branch of its own."""
    sampling: JsonObject = field(default_factory=dict)
    """The sampling parameters that the engine is given."""
    overridden: list[str] = field(default_factory=list)
    """Names of those that the config or the row set over the client's."""

    @property
    def handle(self) -> str | None:
        """Opaque name of the answer, for clients to give back; None outside of a rollout."""
        return None if self.secret is None else self.turn_id


class RecordingConfig(RenamedKeys, ServerConfig):
    """Fields of every model server that records."""

    OLD_NAMES: ClassVar[Mapping[str, str]] = {"beat_interval_s": "keepalive_interval_s"}

    turn_store: TurnStoreSettings = TurnStoreSettings()
    """Where the turns of rollouts are kept, how long, and in how much space."""
    orphan_grace_s: float = Field(default=60.0, ge=0)
    """Seconds that sampling goes on, and its answer is kept, when no client reads it any more; 0: it ends at once."""
    keepalive_interval_s: float = Field(default=15.0, gt=0)
    """Seconds without an event after which a stream sends its client a keepalive."""


RecordingConfigT = TypeVar("RecordingConfigT", bound=RecordingConfig)


@dataclass(slots=True)
class _RunningCall:
    pending: PendingCall
    exchange: Exchange
    recorded: bool = False
    over: bool = False
    """It was given up, or its rollout is over: it is not recorded any more."""


class RecordingServer(ModelServer[RecordingConfigT]):
    """Records the calls of an engine; a plugin says how that is asked (`sample`)."""

    def __init__(self, config: RecordingConfigT, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self.dropped: Counter[str] = Counter()
        """How often a key of clients' requests was not passed on, by name."""
        self.given_up = 0
        """Answers that were begun and that no client got."""
        self._store: TurnStore | None = None
        self._running: dict[str, dict[str, _RunningCall]] = {}
        """Calls that run, by secret and request key."""

    @property
    @abstractmethod
    def engine_kind(self) -> Engine: ...

    @property
    @abstractmethod
    def model_name(self) -> str:
        """The model's name in replies."""

    @abstractmethod
    def sample(self, pending: PendingCall) -> AsyncGenerator[Batch, None]:
        """Ask the engine for an answer, in batches of parts; the answer is the last part of the last batch."""

    def root(self, conversation: Conversation) -> bytes:
        """Digest of what has to be the same, besides the history, for a turn to be continued."""
        return root_of(conversation.tools, conversation.arguments)

    async def start(self) -> None:
        self._store = self.config.turn_store.open(self.name, self.engine_kind)

    async def stop(self) -> None:
        for secret in list(self._running):
            self._end_calls(secret, InfraError(f"{self.name} stops", kind="stopping", stage="model"))
        if self._store is not None:
            self._store.close()

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        return await self._reply("responses", body, call)

    async def chat(self, body: JsonObject, call: Call) -> ModelReply:
        return await self._reply("chat", body, call)

    async def messages(self, body: JsonObject, call: Call) -> ModelReply:
        return await self._reply("messages", body, call)

    async def turns(self, secret: str) -> TurnRecord:
        self._end_calls(secret)
        return self.store.freeze(secret)

    async def transcript(self, secret: str, query: TurnSummaryQuery) -> TurnSummaries:
        turns = self.store.turns(secret)[query.skip :]
        return TurnSummaries(turns=[_summary(turn) for turn in turns])

    async def forget(self, secret: str) -> None:
        self._end_calls(secret)
        self.store.forget(secret)

    async def set(self, secret: str, settings: RolloutSettings) -> None:
        self.store.set(secret, settings)

    @property
    def store(self) -> TurnStore:
        if self._store is None:
            raise BugError(f"{self.name} was not started", kind="not_started")
        return self._store

    def drop(self, key: str) -> None:
        """Count something of a request that is not passed on."""
        if key not in self.dropped:
            if len(self.dropped) >= MAX_NAMES:
                key = "(others)"
            _log.info("%s: `%s` of requests is not passed on; counted from now on", self.name, key[:80])
        self.dropped[key] += 1

    async def _reply(self, dialect: Dialect, request: JsonObject, call: Call) -> ModelReply:
        secret = rollout_of(call)
        request_key = "" if secret is None else request_hash(request)
        running = None if secret is None else self._running.get(secret, {}).get(request_key)
        if secret is not None and running is None:
            turn = self.store.index(secret).answer_to(request_key)
            if turn is not None:
                return whole_reply(dialect, _answer_of(turn), request, model=self.model_name)
        running = running or self._begin(
            PendingCall(dialect, request, call, conversation(dialect, request), secret, request_key)
        )
        reader = running.exchange.add_reader()
        try:
            await asyncio.sleep(0)  # the engine is asked before its answer is waited for
            if request.get("stream") is True:
                writer = make_writer(dialect, request, model=self.model_name, handle=running.pending.handle)
                # An engine that is slow to begin is no reason to keep a client without an answer's head.
                has_first = await reader.wait_for_first(self.config.keepalive_interval_s)
                return EventStream(self._events(writer, running, reader, has_first=has_first))
            answer = await reader.whole()
            self._record(running, answer)
        except BaseException:
            reader.close()
            raise
        reader.close()
        named_answer = replace(answer, handle=running.pending.handle)
        return body_of(dialect, named_answer, request, model=self.model_name)

    def _begin(self, pending: PendingCall) -> _RunningCall:
        secret = pending.secret
        if secret is not None:
            index = self.store.index(secret)
            pending.root = self.root(pending.conversation)
            pending.settings = self.store.settings(secret)
            pending.match = index.match(pending.conversation.items, root=pending.root)
            self._require_within_limits(pending, len(index.by_id))
        grace_s = 0.0 if secret is None else self.config.orphan_grace_s
        running: _RunningCall
        exchange = Exchange(self.sample(pending), grace_s=grace_s, on_end=lambda: self._forget_call(running))
        running = _RunningCall(pending, exchange)
        if secret is not None:
            self._running.setdefault(secret, {})[pending.hash] = running
        return running

    def _require_within_limits(self, pending: PendingCall, recorded: int) -> None:
        limit, ends_at = pending.settings.max_turns, pending.settings.ends_at
        if ends_at is not None and time.time() >= ends_at:
            raise RequestError("this rollout's time is over", kind=OVERFLOW, stage="model")
        made = recorded + len(self._running.get(pending.secret or "", ()))
        if limit is not None and made >= limit:
            raise RequestError(f"this rollout has made its {limit} model calls", kind=OVERFLOW, stage="model")
        most = pending.settings.max_tokens
        if most is not None and sampled_tokens(self.store.turns(pending.secret or "")) >= most:
            raise RequestError(f"this rollout has sampled its {most} tokens", kind=OVERFLOW, stage="model")

    async def _events(
        self, writer: Writer, running: _RunningCall, reader: AnswerReader, *, has_first: bool
    ) -> AsyncGenerator[bytes, None]:
        """The events of a stream. The writer's start goes with the first batch, unless that has not come."""
        unsent, sent_at = writer.start(), time.monotonic()
        try:
            if not has_first:
                yield unsent
                unsent = b""
            while (batch := await reader.batch(self.config.keepalive_interval_s)) is not None:
                if batch and isinstance(batch[-1], Answer):
                    self._record(running, batch[-1])
                events = unsent + b"".join(map(writer.write, batch))
                # What a batch says may be held back: then the client gets a keepalive, too.
                if not events and time.monotonic() - sent_at >= self.config.keepalive_interval_s:
                    events = writer.keepalive()
                if events:
                    unsent, sent_at = b"", time.monotonic()
                    yield events
        except PaddockError as error:
            yield unsent + writer.fail(error.message, error.kind)
        finally:
            reader.close()

    def _record(self, running: _RunningCall, answer: Answer) -> None:
        """Record the answer, once, for the first client that reads it."""
        pending = running.pending
        if pending.secret is None or running.recorded:
            return
        if running.over:
            raise InfraError("the answer came after its rollout's end", kind="given_up", stage="model")
        self.store.append(pending.secret, self._turn(pending, answer), pending.match.digest)
        running.recorded = True
        running.exchange.close()

    def _turn(self, pending: PendingCall, answer: Answer) -> Turn:
        tokens = answer.tokens
        placement = pending.placement
        if placement is None:
            by_ids = place(self.store.turns(pending.secret or ""), tokens.prompt_ids) if tokens else None
            placement = by_ids or Placement(pending.match.turn, [])
        try:
            return Turn(
                id=pending.turn_id,
                parent=placement.parent,
                prompt_ids=placement.prompt_ids if tokens else None,
                sampled_ids=tokens.sampled_ids if tokens else None,
                log_probs=tokens.log_probs if tokens else None,
                weight_version=answer.weight_version,
                weight_spans=list(answer.weight_spans),
                finish_reason=answer.finish_reason,
                request_hash=pending.hash,
                output=copy_json(answer.output),
                usage=answer.counts.usage() if answer.counts else None,
                sampling=copy_json(pending.sampling),
                overridden=pending.overridden,
                splice_broken=pending.splice_broken,
            )
        except ValidationError as error:
            raise InfraError(
                f"{self.name}: unreadable answer: {describe(error)}", kind="upstream_unreadable", stage="model"
            ) from error

    def _forget_call(self, running: _RunningCall) -> None:
        """Forget a call that no client can join any more."""
        running.over = True
        pending = running.pending
        calls = self._running.get(pending.secret or "", {})
        if calls.get(pending.hash) is running:
            del calls[pending.hash]
            if not calls:
                del self._running[pending.secret or ""]
        if pending.secret is not None and not running.recorded and running.exchange.error is None:
            self.given_up += 1
            _log.warning("%s: an answer was given up: nobody came back for it", self.name)

    def _end_calls(self, secret: str, error: PaddockError | None = None) -> None:
        """End the running calls of a rollout with `error`; None: the rollout is over."""
        over = FrozenError("this rollout is over: it takes no more calls", kind="frozen", stage="model")
        for running in list(self._running.get(secret, {}).values()):
            running.exchange.close(error or over)


def sampled_tokens(turns: Iterable[Turn]) -> int:
    """As the engine counted them; 0 for a turn that it did not count."""
    return sum(turn.usage.output_tokens for turn in turns if turn.usage)


def _summary(turn: Turn) -> TurnSummary:
    return TurnSummary(
        id=turn.id,
        parent=turn.parent,
        finish_reason=turn.finish_reason,
        output=copy_json(turn.output),
        sampled_tokens=turn.usage.output_tokens if turn.usage else None,
    )


def _answer_of(turn: Turn) -> Answer:
    counts = None if turn.usage is None else TokenCounts(turn.usage.input_tokens, turn.usage.output_tokens)
    return Answer(
        copy_json(turn.output),
        turn.finish_reason,
        counts,
        weight_version=turn.weight_version,
        handle=turn.id,
    )
