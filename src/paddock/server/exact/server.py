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
from paddock.server.dialects.sampling import PARAMETERS, merge_sampling
from paddock.server.exact.engine import Chunk, Parser, ParserFactory, TokenEngine
from paddock.server.exchange import Batch
from paddock.server.fields import Block
from paddock.server.recording_server import OVERFLOW, PendingCall, RecordingConfig, RecordingServer
from paddock.tokens import Decoder, Placement, Prompter, Vocabulary, root_of
from paddock.types import Engine, FinishReason, JsonObject
from paddock.types.responses import item_type

REASONING_FIELDS = ("reasoning_content",)
"""Fields of a message in which chat templates find its reasoning."""


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
    """The engine, and what makes ids of messages and messages of ids."""

    engine: TokenEngine
    vocabulary: Vocabulary
    prompter: Prompter
    parsers: ParserFactory


class ExactServer(RecordingServer[ExactConfigT]):
    """Samples from ids; a plugin gives it engine, vocabulary, prompter and parsers (`equip`)."""

    _equipment: Equipment | None = None

    @abstractmethod
    async def equip(self) -> Equipment:
        """Make the engine and what belongs to it; this base starts and stops the engine."""

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

    def root(self, conversation: Conversation) -> bytes:
        """With the server's arguments too: a record that was made with others is not continued."""
        return root_of(conversation.tools, {**conversation.arguments, **self.config.chat_template_kwargs})

    async def sample(self, pending: PendingCall) -> AsyncGenerator[Batch, None]:
        engine, vocabulary, _, parsers = self.equipment
        prompt = self._prompt(pending)
        conversation = pending.conversation
        stream = pending.request.get("stream") is True
        items = ChatItems(conversation.custom, conversation.namespaces)
        stopper = StopTextFilter(stop_texts(pending.sampling.get("stop")))
        answer = _AnswerBuilder(
            parsers(conversation.tools, prompt), items, vocabulary.decoder(), stopper, stream=stream
        )
        chunks = engine.generate(prompt, pending.sampling, pending.call, rollout=pending.secret, stream=stream)
        async with aclosing(chunks):
            async for chunk in chunks:
                if parts := answer.take(chunk):
                    yield parts
        yield answer.end(prompt, pending.handle, self.model_name)

    def _prompt(self, pending: PendingCall) -> list[int]:
        """The ids that the engine is given; notes in `pending` what is recorded of them, and the sampling."""
        conversation = pending.conversation
        require_renderable(pending.request, conversation)
        for key in (*conversation.dropped, *(conversation.params.keys() - PARAMETERS)):
            self.drop(key)
        sampling = merge_sampling(conversation.params, pending.settings.sampling, self.config.sampling_overrides)
        pending.sampling, pending.overridden = sampling
        if self.config.max_tokens_per_turn is not None:
            pending.sampling.setdefault("max_tokens", self.config.max_tokens_per_turn)
        prompt = self._recorded_ids(pending)
        new = self._new_ids(pending, prompt)
        pending.placement = Placement(pending.match.turn, new)
        prompt += new
        limit = self.equipment.engine.max_tokens
        if limit is not None and len(prompt) >= limit:
            raise RequestError(
                f"the prompt has {len(prompt)} tokens, and the model takes {limit}, its answer included",
                kind=OVERFLOW,
                stage="model",
            )
        return prompt

    def _recorded_ids(self, pending: PendingCall) -> list[int]:
        if pending.secret is None or pending.match.turn is None:
            return []
        return self.store.index(pending.secret).full_ids(pending.match.turn)

    def _new_ids(self, pending: PendingCall, recorded_ids: Sequence[int]) -> list[int]:
        conversation = pending.conversation
        arguments = {**conversation.arguments, **self.config.chat_template_kwargs}
        prompter = self.equipment.prompter
        if pending.secret is None or pending.match.turn is None:
            return prompter.whole(_messages(conversation.items), conversation.tools, arguments)
        output = self.store.index(pending.secret).by_id[pending.match.turn].output
        names = tool_names(output, conversation)
        return prompter.after(
            recorded_ids, _messages(pending.match.environment), conversation.tools, arguments, names=names
        )


class StopTextFilter:
    """Cuts the text of one answer at the first stop text."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.stop_text: str | None = None
        """The stop text that ended it; None: none yet."""
        self._texts = [text for text in texts if text]
        self._pending_text = ""

    def feed(self, text: str, *, finished: bool) -> str:
        """The text that may be sent: that of `text` and of what was held back that can be no part of a stop text."""
        if not self._texts or self.stop_text is not None:
            return "" if self.stop_text is not None else text
        pending_text = self._pending_text + text
        ends = [
            (position + len(stop), position, stop) for stop in self._texts if (position := pending_text.find(stop)) >= 0
        ]
        if ends:
            _, position, self.stop_text = min(ends)
            return pending_text[:position]
        length = 0 if finished else max(_overlap(pending_text, stop) for stop in self._texts)
        self._pending_text = pending_text[len(pending_text) - length :]
        return pending_text[: len(pending_text) - length]


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
        """The parts that a chunk completes; none unless the client streams."""
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
        """The last parts, and the answer."""
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
            stop_sequence=self._stopper.stop_text,
        )
        return [*parts, answer]


def _finish_reason(reason: FinishReason, output: Sequence[JsonObject]) -> FinishReason:
    has_calls = any(item_type(item) in CALLS for item in output)
    return "tool_calls" if reason == "stop" and has_calls else reason


def _messages(items: Sequence[JsonObject]) -> list[JsonObject]:
    return chat_messages(items, reasoning_fields=REASONING_FIELDS)


def tool_names(output: Sequence[JsonObject], conversation: Conversation) -> dict[str, str]:
    """Names of the tools that an answer calls, as the conversation shows them, by id of the call."""
    shown = shown_names(conversation.namespaces)
    return {
        item["call_id"]: shown.get((str(item.get("namespace", "")), item["name"])) or item["name"]
        for item in output
        if item_type(item) in CALLS
    }


def stop_texts(given: Any) -> list[str]:
    """The stop texts of a request's `stop`, which is one text or a list."""
    texts = given if isinstance(given, list) else [given]
    return [text for text in texts if isinstance(text, str)]


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((size for size in range(longest, 0, -1) if stop.startswith(text[-size:])), 0)
