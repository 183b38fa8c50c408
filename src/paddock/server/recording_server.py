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
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, TypeVar

from pydantic import Field, ValidationError

from paddock.config import RenamedKeys
from paddock.errors import BugError, InfraError, PaddockError, RequestError, describe
from paddock.http import Call, EventStream, ModelReply, Peer, rollout_of
from paddock.server.base import Figure, ModelServer, ServerConfig
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
    RolloutTurns,
    TurnStore,
    TurnStoreSettings,
    place,
    request_hash,
    root_of,
)
from paddock.tracing import chat_span, is_on, note_chat
from paddock.types import (
    Engine,
    JsonObject,
    RolloutSettings,
    Turn,
    TurnRecord,
    TurnSummaries,
    TurnSummary,
    TurnSummaryQuery,
    Usage,
)
from paddock.types.responses import new_id

TOKEN_KINDS = ("input", "output", "cached", "reasoning")
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
    rollout: RolloutTurns | None = None
    """What is recorded of the rollout; None: it is in none."""
    turn_id: str = field(default_factory=partial(new_id, "turn"))
    """Id of the turn that its answer will be: in a rollout the handle of the answer, too."""
    match: PrefixMatch = NO_MATCH
    settings: RolloutSettings = NO_SETTINGS
    placement: Placement | None = None
    """Where the prompt stands in the record; None: found by the answer's ids, else by the history's match."""
    splice_broken: bool = False
    """The prompt does not continue the ids that the engine was sent; `placement` is a branch of its own."""
    sampling: JsonObject = field(default_factory=dict)
    """The sampling parameters that the engine is given."""
    overridden: list[str] = field(default_factory=list)
    """Names of those that the config or the row set over the client's."""
    recorded: bool = False
    over: bool = False
    """It was given up, or its rollout is over: it is not recorded any more."""
    exchange: Exchange = field(init=False)


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


class RecordingServer(ModelServer[RecordingConfigT]):
    """Records the calls of an engine; a plugin says how that is asked (`sample`)."""

    def __init__(self, config: RecordingConfigT, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self.dropped: Counter[str] = Counter()
        """How often a key of clients' requests was not passed on, by name."""
        self.given_up = 0
        """Answers that were begun and that no client got."""
        self.engine_calls: Counter[str] = Counter(ok=0)
        """Calls of the engine that ended: `ok`, else by the owner of their error."""
        self.tokens: Counter[str] = Counter()
        """Sums of `TokenCounts`, by the names of its fields."""
        self.template_arguments: JsonObject = {}
        """Arguments of the chat template, over the client's."""
        self._store: TurnStore | None = None
        self._running: dict[str, dict[str, PendingCall]] = {}
        """Calls that run, by secret and request key."""

    @property
    @abstractmethod
    def engine_kind(self) -> Engine: ...

    @property
    @abstractmethod
    def model_name(self) -> str:
        """The model's name in replies."""

    @property
    def store_name(self) -> str:
        """Name of its folder of turns, where the config names none."""
        return self.name

    @abstractmethod
    def sample(self, pending: PendingCall) -> AsyncGenerator[Batch, None]:
        """Ask the engine for an answer, in batches of parts; the answer is the last part of the last batch."""

    async def start(self) -> None:
        self._store = self.config.turn_store.open(self.store_name, self.engine_kind)

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
        request_key, rollout, pending = "", None, None
        if secret is not None:
            request_key = request_hash(request)
            pending = self._running.get(secret, {}).get(request_key)
        if secret is not None and pending is None:
            rollout = self.store.open(secret)
            turn = rollout.index.answer_to(request_key)
            if turn is not None:
                return whole_reply(dialect, _answer_of(turn), request, model=self.model_name)
        if pending is None:
            parsed = conversation(dialect, request)
            pending = PendingCall(dialect, request, call, parsed, secret, request_key, rollout)
            self._begin(pending)
        reader = pending.exchange.add_reader()
        handle = None if secret is None else pending.turn_id
        try:
            await asyncio.sleep(0)  # the engine is asked before its answer is waited for
            if request.get("stream") is True:
                writer = make_writer(dialect, request, model=self.model_name, handle=handle)
                # An engine that is slow to begin is no reason to keep a client without an answer's head.
                has_first = await reader.wait_for_first(self.config.keepalive_interval_s)
                return EventStream(self._events(writer, pending, reader, has_first=has_first))
            answer = await reader.whole()
            self._record(pending, answer)
        except BaseException:
            reader.close()
            raise
        reader.close()
        return body_of(dialect, replace(answer, handle=handle), request, model=self.model_name)

    def _begin(self, pending: PendingCall) -> None:
        """Ask the engine; from then on others can join the call."""
        rollout, grace_s = pending.rollout, 0.0
        if rollout is not None:
            parsed, settings = pending.conversation, rollout.settings
            pending.settings = settings
            # A record that was made with other tools, or other arguments, is not continued.
            root = root_of(parsed.tools, {**parsed.arguments, **self.template_arguments})
            pending.match = rollout.index.match(parsed.items, root=root)
            made = len(rollout.turns) + len(self._running.get(pending.secret or "", ()))
            if settings.ends_at is not None and time.time() >= settings.ends_at:
                raise RequestError("this rollout's time is over", kind=OVERFLOW, stage="model")
            if settings.max_turns is not None and made >= settings.max_turns:
                raise RequestError(
                    f"this rollout has made its {settings.max_turns} model calls", kind=OVERFLOW, stage="model"
                )
            most = settings.max_tokens
            if most is not None and sampled_tokens(rollout.turns) >= most:
                raise RequestError(f"this rollout has sampled its {most} tokens", kind=OVERFLOW, stage="model")
            self._running.setdefault(pending.secret or "", {})[pending.hash] = pending
            grace_s = self.config.orphan_grace_s
        batches = self._counted(pending)
        pending.exchange = Exchange(
            self._traced(pending, batches) if is_on() else batches,
            grace_s=grace_s,
            on_end=partial(self._forget_call, pending),
        )

    async def _counted(self, pending: PendingCall) -> AsyncGenerator[Batch, None]:
        """`sample`, counted."""
        try:
            async with aclosing(self.sample(pending)) as batches:
                async for batch in batches:
                    if batch and isinstance(answer := batch[-1], Answer):
                        self.engine_calls["ok"] += 1
                        self.tokens.update(answer.counts._asdict() if answer.counts else ())
                    yield batch
        except PaddockError as error:
            self.engine_calls[error.owner] += 1
            raise

    async def _traced(self, pending: PendingCall, counted: AsyncGenerator[Batch, None]) -> AsyncGenerator[Batch, None]:
        """The batches of a call, in its span."""
        streams = pending.request.get("stream") is True
        with chat_span(self.model_name, dialect=pending.dialect, stream=streams) as span:
            async with aclosing(counted) as batches:
                async for batch in batches:
                    if batch and isinstance(answer := batch[-1], Answer):
                        model, reason, counts = answer.model, answer.finish_reason, answer.counts
                        note_chat(span, response_id=pending.turn_id, model=model, finish_reason=reason, counts=counts)
                    yield batch

    def figures(self) -> Sequence[Figure]:
        calls = [
            Figure("engine_calls", "Calls of the engine that ended.", count, {"result": result})
            for result, count in self.engine_calls.items()
        ]
        tokens = [
            Figure("tokens", "Tokens, as the engine counts them.", self.tokens[f"{kind}_tokens"], {"kind": kind})
            for kind in TOKEN_KINDS
        ]
        return [*calls, *tokens, Figure("answers_given_up", "Answers that no client came for.", self.given_up)]

    async def _events(
        self, writer: Writer, pending: PendingCall, reader: AnswerReader, *, has_first: bool
    ) -> AsyncGenerator[bytes, None]:
        """The events of a stream. The writer's start goes with the first batch, unless that has not come."""
        unsent, sent_at = writer.start(), time.monotonic()
        try:
            if not has_first:
                yield unsent
                unsent = b""
            while (batch := await reader.batch(self.config.keepalive_interval_s)) is not None:
                if batch and isinstance(batch[-1], Answer):
                    self._record(pending, batch[-1])
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

    def _record(self, pending: PendingCall, answer: Answer) -> None:
        """Record the answer, once, for the first client that reads it."""
        if pending.secret is None or pending.recorded:
            return
        if pending.over:
            raise InfraError("the answer came after its rollout's end", kind="given_up", stage="model")
        self.store.append(pending.secret, self._turn(pending, answer), pending.match.digest)
        pending.recorded = True
        pending.exchange.close()

    def _turn(self, pending: PendingCall, answer: Answer) -> Turn:
        tokens, counts = answer.tokens, answer.counts
        placement = pending.placement
        if placement is None:
            by_ids = place(self.store.turns(pending.secret or ""), tokens.prompt_ids) if tokens else None
            placement = by_ids or Placement(pending.match.turn, [])
        try:
            experts = None if tokens is None else tokens.routed_experts
            if tokens is not None and experts is not None:
                first = placement.first_row(len(tokens.prompt_ids))
                experts = experts.part(first, len(tokens.prompt_ids) + len(tokens.sampled_ids) - 1)
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
                output=deepcopy(answer.output),
                usage=Usage(**counts._asdict()) if counts else None,
                sampling=deepcopy(pending.sampling),
                overridden=pending.overridden,
                splice_broken=pending.splice_broken,
                routed_experts=None if experts is None else experts.to_text(),
            )
        except ValueError as error:
            why = describe(error) if isinstance(error, ValidationError) else str(error)
            raise InfraError(
                f"{self.name}: unreadable answer: {why}", kind="upstream_unreadable", stage="model"
            ) from error

    def _forget_call(self, pending: PendingCall) -> None:
        """Forget a call that no client can join any more."""
        pending.over = True
        calls = self._running.get(pending.secret or "", {})
        if calls.get(pending.hash) is pending:
            del calls[pending.hash]
            if not calls:
                del self._running[pending.secret or ""]
        if pending.secret is not None and not pending.recorded and pending.exchange.error is None:
            self.given_up += 1
            _log.warning("%s: an answer was given up: nobody came back for it", self.name)

    def _end_calls(self, secret: str, error: PaddockError | None = None) -> None:
        """End the running calls of a rollout with `error`; None: the rollout is over."""
        for pending in list(self._running.get(secret, {}).values()):
            over = FrozenError("this rollout is over: it takes no more calls", kind="frozen", stage="model")
            pending.exchange.close(error or over)


def sampled_tokens(turns: Iterable[Turn]) -> int:
    """As the engine counted them; 0 for a turn that it did not count."""
    return sum(turn.usage.output_tokens for turn in turns if turn.usage)


def _summary(turn: Turn) -> TurnSummary:
    return TurnSummary(
        id=turn.id,
        parent=turn.parent,
        finish_reason=turn.finish_reason,
        output=deepcopy(turn.output),
        sampled_tokens=turn.usage.output_tokens if turn.usage else None,
    )


def _answer_of(turn: Turn) -> Answer:
    counts = None if turn.usage is None else TokenCounts(**turn.usage.model_dump())
    return Answer(
        deepcopy(turn.output),
        turn.finish_reason,
        counts,
        weight_version=turn.weight_version,
        handle=turn.id,
    )
