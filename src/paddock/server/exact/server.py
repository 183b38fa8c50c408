"""The base of exact model servers: a request becomes ids, and ids become an answer.

Law     a prompt is the recorded ids of the turn that the request continues, then what is new since that turn's end,
        newly tokenised; a request that continues none is tokenised whole. What was sampled is never tokenised again.
        What the engine was given and what it sampled is what is recorded.
Stops   what a client reads ends before the first stop text that it asked for, whatever else was sampled: an engine
        stops once a stop text is there, but the last id may bring characters beyond it. The ids stay as they were
        sampled; the text is cut. The first stop is the one that is complete first, of two that end together the longer:
        so it is the same one however the text comes. What may be the beginning of one is held back until more is known.
Errors  those of the engine, the template and the record; `context_length_exceeded` before the engine is asked, where
        its limit is known; RequestError of `require_renderable`.
"""

from abc import abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple, TypeVar

from pydantic import Field

from paddock.errors import BugError, InfraError, RequestError
from paddock.server.dialects import Answer, Part, TokenCounts, Tokens
from paddock.server.dialects.canonical import chat_messages, shown_names
from paddock.server.dialects.chat_items import ChatItems
from paddock.server.dialects.conversation import Conversation, require_renderable
from paddock.server.dialects.items import CALLS
from paddock.server.dialects.sampling import merge_sampling
from paddock.server.exact.engine import Chunk, Parser, ParserFactory, TokenEngine
from paddock.server.exchange import Batch
from paddock.server.fields import Block
from paddock.server.recording_server import OVERFLOW, PendingCall, RecordingConfig, RecordingServer
from paddock.tokens import Decoder, Placement, Prompter, Vocabulary, root_of
from paddock.types import Engine, FinishReason, JsonObject
from paddock.types.responses import item_type

REASONING_FIELDS = ("reasoning_content",)
"""Under which templates find reasoning."""


class ExactConfig(RecordingConfig):
    """Fields of every exact model server."""

    sampling_overrides: Block = Field(default={})
    """Sampling parameters that are always as said here, whatever a row or a client says; null: the engine's own."""
    chat_template_kwargs: Block = Field(default={})
    """Arguments of the chat template, over the client's."""
    max_tokens_per_turn: int | None = Field(default=None, ge=1)
    """Tokens of an answer where nobody says how many; None: as many as there is room for."""


ExactConfigT = TypeVar("ExactConfigT", bound=ExactConfig)


class Equipment(NamedTuple):
    """What samples, and what makes ids of messages and messages of ids."""

    engine: TokenEngine
    vocabulary: Vocabulary
    prompter: Prompter
    parsers: ParserFactory


class ExactServer(RecordingServer[ExactConfigT]):
    """A plugin says what it stands on (`equip`)."""

    _equipment: Equipment | None = None

    @abstractmethod
    async def equip(self) -> Equipment:
        """Make what the server stands on; its engine is started and stopped by this base."""

    @property
    def engine_kind(self) -> Engine:
        return "exact"

    async def start(self) -> None:
        await super().start()
        self._equipment = await self.equip()
        await self._equipment.engine.start()

    async def stop(self) -> None:
        try:
            await super().stop()
        finally:
            if self._equipment is not None:
                await self._equipment.engine.stop()

    @property
    def equipment(self) -> Equipment:
        if self._equipment is None:
            raise BugError(f"{self.name} was not started", kind="not_started")
        return self._equipment

    def root(self, told: Conversation) -> bytes:
        """With the server's arguments too: a record that was made with others is not continued."""
        return root_of(told.tools, {**told.arguments, **self.config.chat_template_kwargs})

    async def sample(self, pending: PendingCall) -> AsyncGenerator[Batch, None]:
        engine, vocabulary, _, parsers = self.equipment
        prompt = self._prompt(pending)
        told = pending.conversation
        stream = pending.request.get("stream") is True
        items = ChatItems(told.custom, told.namespaces)
        stopper = StopTextFilter(stop_texts(pending.sampling.get("stop")))
        answer = _AnswerBuilder(parsers(told.tools, prompt), items, vocabulary.decoder(), stopper, stream=stream)
        chunks = engine.generate(prompt, pending.sampling, pending.call, rollout=pending.secret, stream=stream)
        async with aclosing(chunks):
            async for chunk in chunks:
                if parts := answer.take(chunk):
                    yield parts
        yield answer.end(prompt, pending.handle, self.model_name)

    def _prompt(self, pending: PendingCall) -> list[int]:
        """The ids that the engine is given; notes what is to be recorded of them, and how they are to be sampled."""
        told = pending.conversation
        require_renderable(pending.request, told)
        for key in told.dropped:
            self.drop(key)
        sampling = merge_sampling(told.params, pending.settings.sampling, self.config.sampling_overrides)
        pending.sampling, pending.overridden = sampling
        if self.config.max_tokens_per_turn is not None:
            pending.sampling.setdefault("max_tokens", self.config.max_tokens_per_turn)
        prompt = self._before(pending)
        new = self._new(pending, prompt)
        pending.placed = Placement(pending.matched.turn, new)
        prompt += new
        limit = self.equipment.engine.max_tokens
        if limit is not None and len(prompt) >= limit:
            raise RequestError(
                f"the prompt has {len(prompt)} tokens, and the model takes {limit}, its answer included",
                kind=OVERFLOW,
                stage="model",
            )
        return prompt

    def _before(self, pending: PendingCall) -> list[int]:
        if pending.secret is None or pending.matched.turn is None:
            return []
        return self.store.index(pending.secret).full_ids(pending.matched.turn)

    def _new(self, pending: PendingCall, before: Sequence[int]) -> list[int]:
        told = pending.conversation
        arguments = {**told.arguments, **self.config.chat_template_kwargs}
        prompter = self.equipment.prompter
        if pending.secret is None or pending.matched.turn is None:
            return prompter.whole(_messages(told.items), told.tools, arguments)
        said = self.store.index(pending.secret).by_id[pending.matched.turn].output
        names = tool_names(said, told)
        return prompter.after(before, _messages(pending.matched.environment), told.tools, arguments, names=names)


class StopTextFilter:
    """Of one answer."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.found: str | None = None
        """The stop text that ended it; None: none yet."""
        self._texts = [text for text in texts if text]
        self._held = ""

    def feed(self, text: str, *, finished: bool) -> str:
        """Of all text so far, what may be told now."""
        if not self._texts or self.found is not None:
            return "" if self.found is not None else text
        held = self._held + text
        places = [(place + len(stop), place, stop) for stop in self._texts if (place := held.find(stop)) >= 0]
        if places:
            _, place, self.found = min(places)
            return held[:place]
        kept = 0 if finished else max(_overlap(held, stop) for stop in self._texts)
        self._held = held[len(held) - kept :]
        return held[: len(held) - kept]


class _AnswerBuilder:
    """An answer while it is sampled."""

    def __init__(
        self, parser: Parser, items: ChatItems, decoder: Decoder, stopper: StopTextFilter, *, stream: bool
    ) -> None:
        self._parser = parser
        self._items = items
        self._decoder = decoder
        self._stopper = stopper
        self._stream = stream
        self._ids: list[int] = []
        self._log_probs: list[float] = []
        self._last: Chunk | None = None

    def take(self, chunk: Chunk) -> list[Part]:
        """Parts to tell at once; none unless the client streams."""
        if self._last is not None and self._last.finish_reason is not None:
            raise InfraError("the engine went on after the end of its answer", kind="upstream_unreadable")
        if len(chunk.ids) != len(chunk.log_probs):
            raise InfraError(
                f"{len(chunk.ids)} ids, but {len(chunk.log_probs)} log-probs", kind="upstream_unreadable", stage="model"
            )
        self._ids += chunk.ids
        self._log_probs += chunk.log_probs
        self._last = chunk
        if not self._stream:
            return []
        finished = chunk.finish_reason is not None
        text = self._decoder.feed(chunk.ids) + (self._decoder.end() if finished else "")
        text = self._stopper.feed(text, finished=finished)
        delta = self._parser.feed(text, chunk.ids, finished=finished) if text or chunk.ids or finished else None
        return list(self._items.delta(delta)) if delta else []

    def end(self, prompt: list[int], handle: str | None, model: str) -> Batch:
        """The parts that are left, and the answer."""
        last = self._last
        if last is None or last.finish_reason is None:
            raise InfraError("the engine's answer ended without a reason", kind="upstream_unreadable", stage="model")
        parts: list[Part] = []
        if not self._stream:
            text = self._stopper.feed(self._decoder.whole(self._ids), finished=True)
            parts += self._items.delta(self._parser.whole(text, self._ids))
        parts += self._items.end()
        output = self._items.output
        answer = Answer(
            output,
            _finish_reason(last.finish_reason, output),
            TokenCounts(len(prompt), len(self._ids), last.cached_tokens),
            model=model,
            tokens=Tokens(prompt, self._ids, self._log_probs),
            weight_version=last.versions[-1].version if last.versions else None,
            weight_spans=tuple(last.versions) if len(last.versions) > 1 else (),
            handle=handle,
            stop_sequence=self._stopper.found,
        )
        return [*parts, answer]


def _finish_reason(said: FinishReason, output: Sequence[JsonObject]) -> FinishReason:
    called = any(item_type(item) in CALLS for item in output)
    return "tool_calls" if said == "stop" and called else said


def _messages(items: Sequence[JsonObject]) -> list[JsonObject]:
    return chat_messages(items, reasoning_fields=REASONING_FIELDS)


def tool_names(said: Sequence[JsonObject], told: Conversation) -> dict[str, str]:
    """Of the tools that an answer calls, as a conversation shows them, by id of the call."""
    shown = shown_names(told.namespaces)
    return {
        item["call_id"]: shown.get((str(item.get("namespace", "")), item["name"])) or item["name"]
        for item in said
        if item_type(item) in CALLS
    }


def stop_texts(given: Any) -> list[str]:
    """Of a request's `stop`."""
    texts = given if isinstance(given, list) else [given]
    return [text for text in texts if isinstance(text, str)]


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((size for size in range(longest, 0, -1) if stop.startswith(text[-size:])), 0)
