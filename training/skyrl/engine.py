"""SkyRL's inference client as an engine function: ids go to its engines, ids and log-probs come back.

Version the client counts weight updates; an answer that one interrupted (its pause keeps what runs) has no version, for
        there is none for all of its tokens.
Abort   an answer that a pause ended is continued: see `paddock.server.exact.functions`.
"""

from collections.abc import Mapping
from typing import Any, Literal

from skyrl.train.generators.utils import build_vllm_cache_salt

from paddock.rollouts import Completion
from paddock.server.exact.functions import EngineFunction
from paddock.types import JsonObject, RoutedExperts
from paddock.types.request_fields import FIELDS

_REASONS: Mapping[str, Literal["stop", "length", "abort"]] = {"stop": "stop", "length": "length", "abort": "abort"}


def engine_function(client: Any, settings: Mapping[str, Any], *, cache_salt: bool, model: str | None) -> EngineFunction:
    """`settings`: SkyRL's parameters, of which those count that no request of a rollout can name. `cache_salt`: engines
    share the cache of prefixes only among calls under the same weights."""
    always = {name: value for name, value in settings.items() if name not in FIELDS and value is not None}

    async def sample(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        before = getattr(client, "weight_version", None)
        start = sampling.get("routed_experts_start")
        named = {name: value for name, value in sampling.items() if name != "routed_experts_start"}
        request: dict[str, Any] = {
            "prompt_token_ids": [ids],
            "sampling_params": {**always, **named, "logprobs": 1},
            "session_ids": [rollout],
        }
        if start is not None:
            request["routed_experts_prompt_starts"] = [start]
        if cache_salt and before is not None:
            request["cache_salt"] = build_vllm_cache_salt(before, model)
        answer = await client.generate(request, model=model)
        reason = answer["stop_reasons"][0]
        if reason not in _REASONS:
            raise ValueError(f"the engine ended an answer for {reason!r}")
        after = getattr(client, "weight_version", None)
        log_probs = answer["response_logprobs"]
        found = answer["response_ids"][0]
        experts = answer.get("rollout_expert_indices") if start is not None else None
        return Completion(
            found,
            log_probs[0] or [] if log_probs else [],
            _REASONS[reason],
            before if before == after else None,
            routed_experts=RoutedExperts.of(experts[0], start or 0) if experts else None,
        )

    return sample


__all__ = ["engine_function"]
