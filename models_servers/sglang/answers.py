"""Answers of SGLang's `/generate` as completions: whole, or the events of a stream. Whatever is not exact is no answer.

Stream  an event has the whole answer so far, or only what is new (`--incremental-streaming-output`); told apart by
        `completion_tokens`, which counts the whole.
Law     each sampled id comes with one finite log-prob, in one list; `output_ids` are the same ids; the stop token that
        ended an answer is the last of them; the prompt had as many tokens as were sent (a server may cut one that is
        too long); an answer has at least one sampled id.
Abort   without a status it was ended so that weights could change: a completion with `abort`, which is continued. With
        one it is the server's refusal or failure, also under status 200.
Experts the last event, or the whole answer, has a row of experts for each token from `routed_experts_start_len` on to
        the last but one, without their shape.
Errors  UnreadableError where that does not hold; those of `status_error`.
"""

import base64
import binascii
from typing import Any, NamedTuple

import orjson

from paddock.server.dialects.failures import UnreadableError
from paddock.server.exact.functions import Completion
from paddock.server.upstream_failures import status_error
from paddock.types import JsonObject, RoutedExperts, WeightSpan

_NUMBERS = (int, float)


class ExpertsRequest(NamedTuple):
    """Experts that an answer was asked for."""

    start: int
    """Position of the first token whose experts are wanted."""
    k: int
    """Experts of a token in each layer."""


class GenerateReader:
    """Reads one answer of the server `host` to a prompt of `n_prompt` tokens."""

    def __init__(self, host: str, n_prompt: int, experts: ExpertsRequest | None = None) -> None:
        self.finished = False
        """A finish reason has come."""
        self._host = host
        self._n_prompt = n_prompt
        self._experts = experts
        self._count = 0
        """Ids so far."""

    def read(self, body: Any) -> Completion:
        """What is new in an event, or in a whole answer."""
        if not isinstance(body, dict):
            raise UnreadableError("no JSON object")
        if body.get("error"):
            raise self._failure(body["error"], "code")
        meta = body.get("meta_info")
        if not isinstance(meta, dict):
            raise UnreadableError("no `meta_info`", kind="upstream_no_message")
        reason = meta.get("finish_reason") or {}
        if not isinstance(reason, dict):
            raise UnreadableError(f"finish reason {str(reason)[:60]}")
        if reason.get("type") == "abort" and isinstance(reason.get("status_code"), int):
            raise self._failure(reason, "status_code")
        pairs = self._new_pairs(body.get("output_ids"), meta, finished=bool(reason))
        ids = [pair[1] for pair in pairs]
        self._count += len(ids)
        if not reason:
            return Completion(ids, [pair[0] for pair in pairs], None)
        self.finished = True
        self._check_end(reason, meta, ids)
        return Completion(
            ids,
            [pair[0] for pair in pairs],
            reason["type"],
            None,
            _spans(meta, self._count),
            _cached(meta),
            self._routed_experts(meta),
        )

    def _new_pairs(self, output_ids: Any, meta: JsonObject, *, finished: bool) -> list[list[Any]]:
        """Log-prob and id of each token that has not been read."""
        pairs: Any = meta.get("output_token_logprobs")
        count = meta.get("completion_tokens")
        if not isinstance(output_ids, list) or not isinstance(count, int):
            raise UnreadableError("no `output_ids`, or no `completion_tokens`")
        if pairs is None and not output_ids:
            pairs = []
        if not isinstance(pairs, list):
            raise UnreadableError(f"{len(output_ids)} ids without log-probs")
        new: list[list[Any]] = pairs[self._count :] if len(pairs) >= count else pairs
        if not all(map(_is_pair, new)):
            raise UnreadableError("`output_token_logprobs` holds what is no log-prob with its id")
        common = min(len(new), len(output_ids))
        if common and [pair[1] for pair in new[-common:]] != output_ids[-common:]:
            raise UnreadableError("a log-prob of another token than the sampled one")
        if finished and self._count + len(new) != count:
            raise UnreadableError(f"{self._count + len(new)} ids with log-probs came, of {count} that were sampled")
        return new

    def _routed_experts(self, meta: JsonObject) -> RoutedExperts | None:
        given, asked = meta.get("routed_experts"), self._experts
        if asked is None or not given:
            return None
        rows = self._n_prompt + self._count - 1 - asked.start
        try:
            return RoutedExperts.of_int32(base64.b64decode(given, validate=True), asked.start, rows=rows, k=asked.k)
        except (ValueError, TypeError, binascii.Error) as error:
            raise UnreadableError(f"`routed_experts`: {error}") from error

    def _check_end(self, reason: JsonObject, meta: JsonObject, ids: list[int]) -> None:
        kind, matched = reason.get("type"), reason.get("matched")
        if kind not in ("stop", "length", "abort"):
            raise UnreadableError(f"finish reason {str(reason)[:60]}")
        if meta.get("prompt_tokens", self._n_prompt) != self._n_prompt:
            raise UnreadableError(f"it read a prompt of {meta['prompt_tokens']} tokens, {self._n_prompt} were sent")
        if kind == "stop" and type(matched) is int and ids and ids[-1] != matched:
            raise UnreadableError(f"its last id is not the stop token {matched}")
        if kind != "abort" and not self._count:
            raise UnreadableError("it ended before a token was sampled", kind="upstream_empty")

    def _failure(self, error: Any, status_key: str) -> Exception:
        status = error.get(status_key) if isinstance(error, dict) else None
        failed = status if isinstance(status, int) and status >= 300 else 500
        return status_error(self._host, failed, orjson.dumps({"error": error}), None)


def _is_pair(pair: Any) -> bool:
    return (
        isinstance(pair, list)
        and len(pair) >= 2
        and type(pair[0]) in _NUMBERS
        and type(pair[1]) is int
        and pair[1] >= 0
    )


def _spans(meta: JsonObject, count: int) -> tuple[WeightSpan, ...]:
    given = meta.get("weight_versions")
    if not given or not count:
        return ()
    try:
        spans = [WeightSpan(version=str(span["version"]), start=span["start"], end=span["end"]) for span in given]
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableError(f"weight versions: {error}") from error
    spans = [span for span in spans if span.end > span.start]
    edges = [0, *(span.end for span in spans)]
    if [span.start for span in spans] != edges[:-1] or edges[-1] != count:
        raise UnreadableError(f"weight versions do not cover the {count} sampled ids")
    return tuple(spans)


def _cached(meta: JsonObject) -> int:
    cached = meta.get("cached_tokens")
    return cached if isinstance(cached, int) else 0
