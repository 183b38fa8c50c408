"""Answers of vLLM as chunks of ids: streamed or whole, of both forms. Whatever is not exact is no answer.

Law     each sampled id is an integer and has one finite log-prob, of that very id where the answer says of which;
        nothing is sampled after a finish reason; an answer has at least one sampled id, if only the end; version spans
        cover the sampled ids without gaps.
Experts a whole answer, or the last event, has a row for each token from where they are asked for to the last but one,
        as the base64 of a file of numpy's (`.npy`).
Errors  UnreadableError where that does not hold, or the stream ends early. EngineFailedError: vLLM says that it
        failed, or it aborted the answer.
"""

import base64
import binascii
import io
import math
from typing import Any, Literal, NamedTuple

import orjson

from paddock.server.dialects.failures import EngineFailedError, UnreadableError
from paddock.server.exact.engine import Chunk
from paddock.types import FinishReason, JsonObject, RoutedExperts, WeightSpan

Form = Literal["generate", "completions"]
_REASONS: dict[str, FinishReason] = {"stop": "stop", "length": "length"}
_NUMBERS = {int, float}
_FLOOR = -9999.0
"""vLLM writes this for a log-prob that is no number."""


class ExpertRange(NamedTuple):
    """The experts that an answer is asked for."""

    start: int
    """Position in the sequence of the first token with a row."""
    prompt: int
    """Tokens of the prompt."""


class ChunkReader:
    """Reads the events of one stream."""

    def __init__(self, form: Form, experts: ExpertRange | None = None) -> None:
        self.count = 0
        """Ids so far."""
        self.complete = False
        """Nothing more is to come."""
        self._form = form
        self._experts = experts
        self._last: Chunk | None = None

    def read(self, data: bytes) -> Chunk | None:
        """The chunk of an event; the last one is held back until the stream's end, which counts the cached ids."""
        if data == b"[DONE]":
            return self.end()
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise UnreadableError(f"no JSON: {error}") from error
        choices = _choices(event)
        if choices:
            return self._choice(choices[0])
        if self._last is not None:
            self._last = self._last._replace(cached_tokens=_cached(event))
        return None

    def end(self) -> Chunk | None:
        """The last chunk, once; the stream has ended."""
        if self._last is None:
            if self.complete:
                return None
            raise UnreadableError("the stream ended without a finish reason", kind="upstream_no_finish_reason")
        _require_sampled(self.count)
        last, self._last = self._last, None
        self.complete = True
        return last

    @property
    def finished(self) -> bool:
        """A finish reason has come; at most the number of cached ids is missing."""
        return self._last is not None

    def _choice(self, choice: JsonObject) -> Chunk | None:
        chunk = _chunk(self._form, choice, self.count)
        if self._last is not None:
            raise UnreadableError("more was sampled after the finish reason")
        self.count += len(chunk.ids)
        if chunk.finish_reason is not None:
            self._last = _with_experts(chunk, choice, self._experts, self.count)
            return None
        return chunk if chunk.ids else None


def read_whole(form: Form, body: Any, experts: ExpertRange | None = None) -> Chunk:
    """The one chunk of an answer that was not streamed."""
    choices = _choices(body)
    if not choices:
        raise UnreadableError("no choice", kind="upstream_no_message")
    chunk = _chunk(form, choices[0], 0)
    if chunk.finish_reason is None:
        raise UnreadableError("no finish reason", kind="upstream_no_finish_reason")
    _require_sampled(len(chunk.ids))
    return _with_experts(chunk, choices[0], experts, len(chunk.ids))._replace(cached_tokens=_cached(body))


def _require_sampled(count: int) -> None:
    if not count:
        raise UnreadableError("it ended before a token was sampled", kind="upstream_empty")


def _choices(body: Any) -> list[JsonObject]:
    if not isinstance(body, dict):
        raise UnreadableError("no JSON object")
    if body.get("error"):
        raise EngineFailedError(body["error"])
    choices = body.get("choices")
    if not isinstance(choices, list) or len(choices) > 1 or (choices and not isinstance(choices[0], dict)):
        raise UnreadableError("not one choice", kind="upstream_no_message")
    if choices and choices[0].get("error"):
        raise EngineFailedError(choices[0]["error"])
    return choices


def _chunk(form: Form, choice: JsonObject, start: int) -> Chunk:
    """The chunk of a choice; `start`: how many ids came before."""
    ids = choice.get("token_ids")
    if ids is None:
        ids = []
    if not isinstance(ids, list) or (ids and (set(map(type, ids)) != {int} or min(ids) < 0)):
        raise UnreadableError("`token_ids` is no list of ids")
    reason_given = choice.get("finish_reason")
    if reason_given == "abort":
        raise EngineFailedError(
            {"code": "abort", "message": f"vLLM aborted the answer after {start + len(ids)} tokens"}
        )
    if reason_given is not None and reason_given not in _REASONS:
        raise UnreadableError(f"finish reason {str(reason_given)[:40]!r}")
    reason = None if reason_given is None else _REASONS[reason_given]
    log_probs = _log_probs(form, choice.get("logprobs"), ids)
    return Chunk(ids, log_probs, reason, _spans(choice, start + len(ids)) if reason else ())


def _with_experts(chunk: Chunk, choice: JsonObject, asked: ExpertRange | None, count: int) -> Chunk:
    """The last chunk of an answer of `count` ids, with its experts where they were asked for and came."""
    given = choice.get("routed_experts")
    if asked is None or given is None:
        return chunk
    # It comes with vLLM, under whose interpreter this runs.
    import numpy as np

    try:
        rows = np.load(io.BytesIO(base64.b64decode(given, validate=True)), allow_pickle=False)
        experts = RoutedExperts.of(np.ascontiguousarray(rows), asked.start)
    except (ValueError, TypeError, EOFError, binascii.Error) as error:
        raise UnreadableError(f"`routed_experts`: {error}") from error
    if experts.end != asked.prompt + count - 1:
        raise UnreadableError(
            f"{experts.rows} rows of routed experts from token {asked.start} on, of {asked.prompt + count} tokens"
        )
    return chunk._replace(routed_experts=experts)


def _log_probs(form: Form, given: Any, ids: list[int]) -> list[float]:
    if not ids:
        return []
    key = "content" if form == "generate" else "token_logprobs"
    values = given.get(key) if isinstance(given, dict) else None
    if not isinstance(values, list) or len(values) != len(ids):
        raise UnreadableError(f"{len(ids)} ids without as many log-probs")
    if form == "generate":
        values = _values(values, ids)
    if not (set(map(type, values)) <= _NUMBERS and all(map(math.isfinite, values)) and min(values) > _FLOOR):
        raise UnreadableError("a log-prob is no number")
    return [float(value) for value in values]


def _values(entries: list[Any], ids: list[int]) -> list[Any]:
    """The log-probs of these very ids."""
    if set(map(type, entries)) != {dict}:
        raise UnreadableError("a log-prob that is no object")
    token_ids = [entry.get("token_id", token_id) for entry, token_id in zip(entries, ids, strict=True)]
    if token_ids != ids:
        raise UnreadableError("a log-prob of another token than the sampled one")
    return [entry.get("logprob") for entry in entries]


def _spans(choice: JsonObject, count: int) -> tuple[WeightSpan, ...]:
    given = choice.get("weight_versions")
    if not given:
        return ()
    try:
        spans = tuple(WeightSpan(version=str(span["version"]), start=span["start"], end=span["end"]) for span in given)
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableError(f"weight versions: {error}") from error
    edges = [0, *(span.end for span in spans)]
    if [span.start for span in spans] != edges[:-1] or edges[-1] != count:
        raise UnreadableError(f"weight versions do not cover the {count} sampled ids")
    return spans


def _cached(body: JsonObject) -> int:
    usage = body.get("usage")
    details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return cached if isinstance(cached, int) else 0
