"""An engine's streamed chat completion as parts.

Law     the stream is whole when a finish reason came; `[DONE]` alone says nothing. What is said passes the rules of
        `answer_rules`, as a whole answer does.
Errors  UnreadableError, EngineFailedError.
"""

from collections.abc import Iterator, Mapping

import orjson

from paddock.server.dialects.answer_rules import gives_text, require_ending, require_message, require_no_error
from paddock.server.dialects.answers import Answer, TokenCounts, read_chat_usage, sampled_in_chat
from paddock.server.dialects.chat_answers import log_probs_of, make_tokens, read_finish_reason, stop_sequence_of
from paddock.server.dialects.chat_items import ChatItems
from paddock.server.dialects.failures import UnreadableError
from paddock.server.dialects.parts import Part
from paddock.server.dialects.sse import Event
from paddock.server.dialects.tools import NO_NAMESPACES
from paddock.types import FinishReason, JsonObject
from paddock.types.responses import output_items


class ChatReader:
    """Reads the chunks of one stream as parts."""

    def __init__(self, custom: frozenset[str], namespaces: Mapping[str, tuple[str, str]] = NO_NAMESPACES) -> None:
        self.complete = False
        """Nothing more is to come."""
        self._items = ChatItems(custom, namespaces)
        self._stop_sequence: str | None = None
        self._finish_reason: FinishReason | None = None
        self._counts: TokenCounts | None = None
        self._output_tokens: int | None = None
        """As the engine counted them; None: it has not."""
        self._has_delta = False
        self._text_given = False
        """A delta had a field for text or calls."""
        self._refused = False
        self._model: str | None = None
        self._weight_version: str | None = None
        self._prompt_ids: list[int] | None = None
        self._sampled_ids: list[int] | None = None
        self._log_probs: list[float] | None = None

    def read(self, event: Event) -> Iterator[Part]:
        """The parts of one event."""
        if event.data == b"[DONE]":
            self.complete = True
            return
        try:
            chunk = orjson.loads(event.data)
        except orjson.JSONDecodeError as error:
            raise UnreadableError(f"a chunk is no JSON: {error}") from error
        if not isinstance(chunk, dict):
            raise UnreadableError("a chunk is no JSON object")
        require_no_error(chunk)
        self._note(chunk)
        for choice in output_items(chunk.get("choices"))[:1]:
            require_no_error(choice)
            self._note_tokens(choice)
            delta = choice.get("delta")
            if isinstance(delta, dict):
                self._has_delta = True
                require_message(delta, self._items.call_indices)
                self._text_given = self._text_given or gives_text(delta)
                self._refused = self._refused or bool(delta.get("refusal"))
                yield from self._items.delta(delta)
            self._stop_sequence = stop_sequence_of(choice) or self._stop_sequence
            self._finish_reason = read_finish_reason(choice.get("finish_reason")) or self._finish_reason

    def end(self) -> Iterator[Part]:
        """What is left when the stream has ended: the last item, and the answer."""
        if not self._has_delta:
            raise UnreadableError("the stream ended without a `choices[0].delta`", kind="upstream_no_message")
        if self._finish_reason is None:
            raise UnreadableError("the stream ended without a finish reason", kind="upstream_no_finish_reason")
        tokens = make_tokens(self._prompt_ids, self._sampled_ids, self._log_probs, self._counts)
        last_parts = list(self._items.end())
        require_ending(
            self._finish_reason,
            self._items.output,
            output_tokens=len(tokens.sampled_ids) if tokens else self._output_tokens,
            text_given=self._text_given,
            refused=self._refused,
        )
        yield from last_parts
        yield Answer(
            self._items.output,
            self._finish_reason,
            self._counts,
            self._model,
            tokens,
            self._weight_version,
            stop_sequence=self._stop_sequence,
        )

    def _note(self, chunk: JsonObject) -> None:
        usage, model = chunk.get("usage"), chunk.get("model")
        self._counts = read_chat_usage(usage) or self._counts
        counted = sampled_in_chat(usage)
        self._output_tokens = self._output_tokens if counted is None else counted
        self._model = model if isinstance(model, str) and model else self._model
        self._weight_version = chunk.get("weight_version") or self._weight_version
        self._prompt_ids = chunk.get("prompt_token_ids") or self._prompt_ids

    def _note_tokens(self, choice: JsonObject) -> None:
        ids, log_probs = choice.get("token_ids"), log_probs_of(choice)
        if isinstance(ids, list):
            self._sampled_ids = (self._sampled_ids or []) + ids
        if log_probs is not None:
            self._log_probs = (self._log_probs or []) + log_probs
