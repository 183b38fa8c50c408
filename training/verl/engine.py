"""verl's server manager as an engine function: ids go to its servers, ids and log-probs come back.

Version `global_steps` of the answer; `3-5` where verl's client resumed it under other weights: which token is of which
        is not known.
Sticky  the request id is the rollout's key: all its calls go to the server that has its prefix.
Abort   an answer that a weight update ended is continued: see `paddock.server.exact.functions`.
"""

from collections.abc import Mapping
from typing import Any, Literal
from uuid import uuid4

from paddock.rollouts import Completion
from paddock.server.exact.functions import EngineFunction
from paddock.types import JsonObject, RoutedExperts

ENGINE_PARAMETERS = frozenset(
    {
        *("temperature", "top_p", "top_k", "min_p"),
        *("repetition_penalty", "presence_penalty", "frequency_penalty"),
        *("seed", "stop", "stop_token_ids", "max_tokens"),
    }
)
"""What verl's servers take under these names."""


def engine_function(server_manager: Any, *, end_ids: frozenset[int]) -> EngineFunction:
    """`server_manager`: an `LLMServerClient` of verl. `end_ids`: ids that end an answer; verl does not say whether one
    ended it, or its bound."""

    async def sample(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        wanted = {name: value for name, value in sampling.items() if name in ENGINE_PARAMETERS and value is not None}
        answer = await server_manager.generate(
            rollout or uuid4().hex, prompt_ids=ids, sampling_params={**wanted, "logprobs": True}
        )
        found = list(answer.token_ids)
        experts = answer.routed_experts if "routed_experts_start" in sampling else None
        return Completion(
            found,
            list(answer.log_probs or ()),
            _finish_reason(answer.stop_reason, found, sampling.get("max_tokens"), end_ids),
            weight_version(answer.extra_fields),
            routed_experts=None if experts is None else RoutedExperts.of(experts),
        )

    return sample


def weight_version(fields: Mapping[str, Any]) -> str | None:
    """The weights that sampled an answer, by its extra fields; None: verl does not say."""
    first = fields.get("min_global_steps", fields.get("global_steps"))
    last = fields.get("max_global_steps", fields.get("global_steps"))
    if first is None or last is None:
        return None
    return str(first) if first == last else f"{first}-{last}"


def global_steps(version: str | None) -> tuple[int, int] | None:
    """The first and the last step of a version that `weight_version` gave; None: it is none."""
    parts = (version or "").split("-")
    if len(parts) > 2 or not all(part.isascii() and part.isdecimal() for part in parts):
        return None
    return int(parts[0]), int(parts[-1])


def _finish_reason(
    reason: str | None, ids: list[int], max_tokens: Any, end_ids: frozenset[int]
) -> Literal["stop", "length", "abort"]:
    if reason in ("aborted", "abort"):
        return "abort"
    if isinstance(max_tokens, int) and len(ids) >= max_tokens and ids[-1:] and ids[-1] not in end_ids:
        return "length"
    return "stop"
