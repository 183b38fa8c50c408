"""What one SGLang server, or a router before several, has to show before it is used: by two generations of one token.

Fields  routers drop fields that they don't know, silently: ids, log-probs and counts have to come back.
Dists   the difference of two tokens' log-probs at temperature 2 is half of that at temperature 1, where they are of
        what is sampled from; where it stays the same, the temperature is left out of them.
Errors  ConfigError `engine_not_exact`, `model_unknown`, `max_model_len_unknown`; `routed_experts_missing` where they
        are to be recorded and do not come. InfraError: it is not well.
"""

from math import isclose
from typing import Any, NamedTuple

from paddock.errors import ConfigError
from paddock.models_servers.sglang.answers import ExpertsRequest, GenerateReader
from paddock.models_servers.sglang.config import SglangConfig
from paddock.models_servers.sglang.sampling import request_params, sampling
from paddock.server.dialects.failures import UnreadableError
from paddock.server.engine_client import EngineClient
from paddock.server.upstream_failures import upstream_errors
from paddock.types import JsonObject

GENERATE = "/generate"
_PROMPT = [1, 2, 3]


class SglangTraits(NamedTuple):
    """What a server does."""

    max_tokens: int
    """Longest sequence."""
    with_temperature: bool
    """Its log-probs are taken after the temperature."""
    has_versions: bool
    """It tells which weights sampled which token."""


async def find_traits(client: EngineClient, config: SglangConfig) -> SglangTraits:
    timeout_s = config.start_check_timeout_s
    served = _served_length(client, await client.get("/v1/models", timeout_s), config.model)
    lengths = [length for length in (served, config.max_model_len) if length is not None]
    if not lengths:
        raise ConfigError(
            f"{client.host}: does not say how long a sequence may be: set `max_model_len`", kind="max_model_len_unknown"
        )
    experts = ExpertsRequest(0, config.experts_per_token) if config.routed_experts else None
    cold, has_versions = await _probe(client, 1.0, timeout_s, experts)
    hot, _ = await _probe(client, 2.0, timeout_s, None)
    halved = cold is not None and hot is not None and isclose(hot, cold / 2, rel_tol=0.05, abs_tol=1e-6)
    return SglangTraits(min(lengths), halved and cold != 0.0, has_versions)


def request_body(ids: list[int], params: JsonObject, experts: ExpertsRequest | None, *, stream: bool) -> JsonObject:
    """The body that asks for one answer, with ids and log-probs."""
    body: JsonObject = {"input_ids": ids, "sampling_params": request_params(params), "return_logprob": True}
    if experts is not None:
        body |= {"return_routed_experts": True, "routed_experts_start_len": experts.start}
    return {**body, "stream": stream}


async def _probe(
    client: EngineClient, temperature: float, timeout_s: float, experts: ExpertsRequest | None
) -> tuple[float | None, bool]:
    """Difference of the two likeliest tokens' log-probs, None where they did not come; whether versions came."""
    params = sampling({"temperature": temperature, "max_tokens": 1})
    body = {**request_body(_PROMPT, params, experts, stream=False), "top_logprobs_num": 2}
    answer = await client.post(GENERATE, body, timeout_s)
    try:
        completion = GenerateReader(client.host, len(_PROMPT), experts).read(answer)
    except UnreadableError as error:
        raise ConfigError(
            f"{client.host}: gives no token ids with log-probs at {GENERATE}: {error}. A router may drop fields that "
            "it does not know: name the servers behind it, or use one that passes them on",
            kind="engine_not_exact",
        ) from error
    if experts is not None and completion.routed_experts is None:
        raise ConfigError(
            f"{client.host}: gives no routed experts: start SGLang with `--enable-return-routed-experts` and a mixture "
            "of experts, behind a router that passes on `return_routed_experts`, or set `routed_experts: false`",
            kind="routed_experts_missing",
        )
    with upstream_errors(client.host, timeout_s):
        if len(completion.ids) != 1:
            raise UnreadableError(f"one token was asked for, {len(completion.ids)} were sampled")
    return _difference(answer["meta_info"].get("output_top_logprobs")), bool(completion.weight_versions)


def _difference(top: Any) -> float | None:
    try:
        first, second = top[0][:2]
        return float(first[0]) - float(second[0])
    except (TypeError, ValueError, IndexError):
        return None


def _served_length(client: EngineClient, listed: Any, model: str) -> int | None:
    """The length that the server tells for the model; None: none."""
    entries = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return None
    for entry in entries:
        if model in (entry.get("id"), entry.get("root")):
            length = entry.get("max_model_len")
            return length if isinstance(length, int) else None
    names = ", ".join(str(entry.get("id")) for entry in entries)
    raise ConfigError(f"{client.host}: serves {names}, not {model!r}: set `model`", kind="model_unknown")
