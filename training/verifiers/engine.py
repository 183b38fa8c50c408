"""The endpoint of verifiers' `train` client as an engine function: vLLM's `/inference/v1/generate`, ids in, ids out.

Sticky  each call carries the rollout's key as `X-Session-ID`, by which prime-rl's router keeps it on one engine.
Salt    `cache_salt` is that of the rollout that began last: prime-rl salts by policy version, for it keeps the prefix
        cache when weights change. A rollout that goes on under new weights has its prefix computed by them.
Experts as prime-rl's vLLM serialises them, where the taskset's `engine` has `routed_experts: true`.
Errors  what the client raises, which fails the call; ValueError for an answer without ids or log-probs.
"""

import base64
from typing import Any, Literal

import httpx
from verifiers.v1.clients import TrainClientConfig
from verifiers.v1.clients.base import build_async_openai
from verifiers.v1.clients.client import SESSION_ID_HEADER

from paddock.rollouts import Completion
from paddock.types import JsonObject, RoutedExperts
from paddock.types.request_fields import NEUTRAL, SAMPLING

ENGINE_PARAMETERS = frozenset((*SAMPLING, "max_tokens", "stop_token_ids"))
"""What vLLM takes under these names."""
NO_EVIDENCE = -9999.0
"""vLLM's log-prob of a token whose own it does not have."""


class TrainEngine:
    """Samples from the endpoint of a `train` client."""

    def __init__(self, config: TrainClientConfig, model: str) -> None:
        self.cache_salt: str | None = None
        self._model = model
        self._client = build_async_openai(config)
        self._url = f"{str(self._client.base_url).rstrip('/').removesuffix('/v1')}/inference/v1/generate"

    async def __call__(self, ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        params = {name: value for name, value in sampling.items() if name in ENGINE_PARAMETERS and value is not None}
        start = sampling.get("routed_experts_start")
        if start is not None:
            params["routed_experts_prompt_start"] = start
        body: JsonObject = {
            "model": self._model,
            "token_ids": ids,
            "sampling_params": {**NEUTRAL, **params, "logprobs": 1, "skip_special_tokens": False},
        }
        if self.cache_salt is not None:
            body["cache_salt"] = self.cache_salt
        headers = {SESSION_ID_HEADER: rollout} if rollout else {}
        response = await self._client.post(self._url, cast_to=httpx.Response, body=body, options={"headers": headers})
        return read_answer(response.json())

    async def close(self) -> None:
        await self._client.close()


def read_answer(answer: Any) -> Completion:
    """The completion in an answer of the route."""
    choice = answer["choices"][0]
    ids = choice.get("token_ids") or []
    log_probs = [entry["logprob"] for entry in (choice.get("logprobs") or {}).get("content") or []]
    if len(ids) != len(log_probs) or NO_EVIDENCE in log_probs:
        raise ValueError(f"the endpoint gave {len(ids)} ids with {len(log_probs)} log-probs, or a log-prob of none")
    reason = _finish_reason(choice.get("finish_reason"))
    return Completion(ids, log_probs, reason, routed_experts=_experts(choice.get("routed_experts")))


def _experts(given: Any) -> RoutedExperts | None:
    if given is None:
        return None
    view = memoryview(base64.b64decode(given["data"]))
    shape = given["shape"]
    ids = view.cast("H", shape) if given.get("dtype") == "uint16" else view.cast("B", shape)
    return RoutedExperts.of(ids, given.get("start") or 0)


def _finish_reason(reason: str | None) -> Literal["stop", "length", "abort"]:
    match reason:
        case "abort":
            return "abort"
        case "length":
            return "length"
        case _:
            return "stop"
