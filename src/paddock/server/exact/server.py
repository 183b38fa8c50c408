"""The base of exact model servers: a request becomes ids, and ids become an answer.

Law     a prompt is the recorded ids of the turn that the request continues, then what is new since that turn's end,
        newly tokenised; a request that continues none is tokenised whole. What was sampled is never tokenised again.
        What the engine was given and what it sampled is what is recorded.
Seeds   a seed in a rollout stands for all of its turns: each has one of its own, made of that and its prompt. With the
        same one, each turn would draw what the turn before it drew.
Stops   what a client reads ends before the first stop text that it asked for, whatever else was sampled: an engine
        stops once a stop text is there, but the last id may bring characters beyond it. The ids stay as they were
        sampled; the text is cut. The first stop is the one that is complete first, of two that end together the longer:
        so it is the same one however the text comes. What may be the beginning of one is held back until more is known.
Errors  those of the engine, the template and the record; `context_length_exceeded` before the engine is asked, where
        its limit is known; RequestError of `require_renderable`.
"""

import hashlib
from abc import abstractmethod
from array import array
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

from pydantic import Field

from paddock.errors import BugError, InfraError, RequestError
from paddock.server.dialects import Answer, Part, TokenCounts, Tokens
from paddock.server.dialects.canonical import chat_messages
from paddock.server.dialects.chat_items import ChatItems
from paddock.server.dialects.conversation import PARAMETERS, Conversation, merge_sampling, require_renderable
from paddock.server.exact.engine import ROUTED_EXPERTS_START, Chunk, Parser, ParserFactory, TokenEngine
from paddock.server.exact.parsers.scanner import overlap
from paddock.server.exchange import Batch
from paddock.server.fields import Block
from paddock.server.recording_server import OVERFLOW, PendingCall, RecordingConfig, RecordingServer
from paddock.tokens import Decoder, Placement, Prompter, Vocabulary
from paddock.types import Engine, JsonObject
from paddock.types.responses import CALLS, item_type
from paddock.types.seeds import seed_from

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
    routed_experts: bool = False
    """Record which experts of a mixture each token went through, for trainers that replay them; the engine has to give
    them. Bytes per token, as text: layers x experts per token x 1.4, or 2.7 above 128 experts."""


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
        self.template_arguments = self.config.chat_template_kwargs
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

    async def sample(self, pending: PendingCall) -> AsyncGenerator[Batch, None]:
        engine, vocabulary, _, parsers = self.equipment
        prompt = self._prompt(pending)
        conversation = pending.conversation
        stream = pending.request.get("stream") is True
        answer = _AnswerBuilder(
            parsers(conversation.tools, prompt),
            ChatItems(conversation.custom, conversation.namespaces),
            vocabulary,
            StopTextFilter(pending.sampling.get("stop")),
            vocabulary.decoder() if stream else None,
        )
        params = pending.sampling
        if self.config.routed_experts and pending.rollout is not None and pending.placement is not None:
            params = {**params, ROUTED_EXPERTS_START: pending.placement.first_row(len(prompt))}
        chunks = engine.generate(prompt, params, pending.call, rollout=pending.secret, stream=stream)
        async with aclosing(chunks):
            async for chunk in chunks:
                if parts := answer.take(chunk):
                    yield parts
        yield answer.end(prompt, self.model_name)

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
        turn = pending.match.turn
        prompt = [] if pending.rollout is None or turn is None else pending.rollout.index.full_ids(turn)
        new = self._new_ids(pending, prompt)
        pending.placement = Placement(turn, new)
        prompt += new
        if pending.rollout is not None and isinstance(seed := pending.sampling.get("seed"), int):
            pending.sampling["seed"] = seed_of_turn(seed, prompt)
        limit = self.equipment.engine.max_tokens
        if limit is not None and len(prompt) >= limit:
            raise RequestError(
                f"the prompt has {len(prompt)} tokens, and the model takes {limit}, its answer included",
                kind=OVERFLOW,
                stage="model",
            )
        return prompt

    def _new_ids(self, pending: PendingCall, recorded_ids: Sequence[int]) -> list[int]:
        conversation = pending.conversation
        arguments = {**conversation.arguments, **self.template_arguments}
        prompter = self.equipment.prompter
        if pending.rollout is None or pending.match.turn is None:
            return prompter.whole(_messages(conversation.items), conversation.tools, arguments)
        names = tool_names(pending.rollout.index.by_id[pending.match.turn].output, conversation)
        return prompter.after(
            recorded_ids, _messages(pending.match.environment), conversation.tools, arguments, names=names
        )


class StopTextFilter:
    """Cuts the text of one answer at the first stop text."""

    def __init__(self, stop: Any) -> None:
        """`stop`: of a request, one text or a list."""
        self.stop_text: str | None = None
        """The stop text that ended it; None: none yet."""
        self._texts: list[str] = []
        for text in stop if isinstance(stop, list) else [stop]:
            if text and isinstance(text, str):
                self._texts.append(text)
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
        length = 0 if finished else max(overlap(pending_text, stop) for stop in self._texts)
        self._pending_text = pending_text[len(pending_text) - length :]
        return pending_text[: len(pending_text) - length]


@dataclass
class _AnswerBuilder:
    """An answer while it is sampled."""

    parser: Parser
    items: ChatItems
    vocabulary: Vocabulary
    stopper: StopTextFilter
    decoder: Decoder | None
    """None: the client does not stream."""
    ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    last: Chunk | None = None

    def take(self, chunk: Chunk) -> list[Part]:
        """The parts that a chunk completes; none unless the client streams."""
        if self.last is not None and self.last.finish_reason is not None:
            raise InfraError("the engine went on after the end of its answer", kind="upstream_unreadable")
        if len(chunk.ids) != len(chunk.log_probs):
            raise InfraError(
                f"{len(chunk.ids)} ids, but {len(chunk.log_probs)} log-probs", kind="upstream_unreadable", stage="model"
            )
        self.ids += chunk.ids
        self.log_probs += chunk.log_probs
        self.last = chunk
        if self.decoder is None:
            return []
        finished = chunk.finish_reason is not None
        text = self.decoder.feed(chunk.ids) + (self.decoder.end() if finished else "")
        text = self.stopper.feed(text, finished=finished)
        delta = self.parser.feed(text, chunk.ids, finished=finished) if text or chunk.ids or finished else None
        return list(self.items.delta(delta)) if delta else []

    def end(self, prompt: list[int], model: str) -> Batch:
        """The last parts, and the answer."""
        last = self.last
        if last is None or last.finish_reason is None:
            raise InfraError("the engine's answer ended without a reason", kind="upstream_unreadable", stage="model")
        parts: list[Part] = []
        if self.decoder is None:
            text = self.stopper.feed(self.vocabulary.decode_answer(self.ids), finished=True)
            parts += self.items.delta(self.parser.whole(text, self.ids))
        parts += self.items.end()
        answer = Answer(
            self.items.output,
            "tool_calls" if last.finish_reason == "stop" and self.items.call_indices else last.finish_reason,
            TokenCounts(len(prompt), len(self.ids), last.cached_tokens),
            model=model,
            tokens=Tokens(prompt, self.ids, self.log_probs, last.routed_experts),
            weight_version=last.versions[-1].version if last.versions else None,
            weight_spans=tuple(last.versions) if len(last.versions) > 1 else (),
            stop_sequence=self.stopper.stop_text,
        )
        return [*parts, answer]


_messages = partial(chat_messages, reasoning_fields=REASONING_FIELDS)


def tool_names(output: Sequence[JsonObject], conversation: Conversation) -> dict[str, str]:
    """Names of the tools that an answer calls, as the conversation shows them, by id of the call."""
    shown = dict(zip(conversation.namespaces.values(), conversation.namespaces, strict=True))
    names: dict[str, str] = {}
    for item in output:
        if item_type(item) in CALLS:
            name: str = item["name"]
            names[item["call_id"]] = shown.get((str(item.get("namespace", "")), name)) or name
    return names


def seed_of_turn(seed: int, prompt: Sequence[int]) -> int:
    """A seed of 31 bits for an answer to these ids."""
    return seed_from(seed, hashlib.sha256(array("q", prompt)).hexdigest())
