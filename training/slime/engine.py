"""slime's SGLang engines as an engine function: `/generate` of its router, with ids in and ids with log-probs out.

Source  THUDM/slime, `slime/rollout/sglang_rollout.py`: `generate`; SGLang, `srt/managers/io_struct.py`. slime's own
        client bounds how many calls are under way, and tries a call again that failed.
Experts with `--use-rollout-routing-replay`: SGLang gives rows without their shape, which slime's arguments say.
Abort   SGLang ends a call with `abort` when slime ends its rollout phase. While that lasts, nothing more is asked.
"""

import asyncio
import base64
from collections.abc import Callable
from typing import Any

from paddock.rollouts import Completion, EngineFunction
from paddock.types import JsonObject, RoutedExperts, WeightSpan

_NAMES = {"max_tokens": "max_new_tokens", "seed": "sampling_seed"}
_SAME = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
)
_ABORT_S = 0.05


def router_engine(args: Any, post: Callable[..., Any], is_aborted: Callable[[], bool]) -> EngineFunction:
    """The engine function over slime's router. `post`: slime's own client."""
    url = f"http://{args.sglang_router_ip}:{args.sglang_router_port}/generate"
    routed = getattr(args, "router_policy", None) == "consistent_hashing"

    async def sample(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        while is_aborted():
            # The rollout is cancelled meanwhile (`generation`).
            await asyncio.sleep(_ABORT_S)
        body = {"input_ids": ids, "sampling_params": sampling_params(args, sampling), "return_logprob": True}
        start = sampling.get("routed_experts_start")
        if start is not None:
            body |= {"return_routed_experts": True, "routed_experts_start_len": start}
        headers = {"X-SMG-Routing-Key": rollout} if routed and rollout else None
        answer = await post(url, body, headers=headers)
        completion = read_completion(answer)
        if start is None:
            return completion
        tokens = len(ids) + len(completion.ids)
        return completion._replace(routed_experts=read_experts(args, answer["meta_info"], tokens))

    return sample


def sampling_params(args: Any, sampling: JsonObject) -> JsonObject:
    """Parameters under SGLang's names. An answer has at most `--rollout-max-response-len` tokens."""
    params = {key: sampling[key] for key in _SAME if sampling.get(key) is not None}
    params |= {ours: sampling[key] for key, ours in _NAMES.items() if sampling.get(key) is not None}
    longest = args.rollout_max_response_len
    params["max_new_tokens"] = min(params.get("max_new_tokens", longest), longest)
    if args.rollout_stop_token_ids is not None:
        params["stop_token_ids"] = args.rollout_stop_token_ids
    return {**params, "no_stop_trim": True, "skip_special_tokens": False, "spaces_between_special_tokens": False}


def read_experts(args: Any, meta: JsonObject, tokens: int) -> RoutedExperts | None:
    """Of a call at whose end the sequence has so many tokens; from its first on where a router drops the start."""
    given = meta.get("routed_experts")
    if not given:
        return None
    data = base64.b64decode(given)
    rows = len(data) // (4 * args.num_layers * args.moe_router_topk)
    return RoutedExperts.of_int32(data, tokens - 1 - rows, rows=rows, k=args.moe_router_topk)


def read_completion(answer: JsonObject) -> Completion:
    """What SGLang sampled, with a span for each version of the weights; an aborted call keeps what it had."""
    meta: Any = answer["meta_info"]
    pairs = meta.get("output_token_logprobs") or []
    spans = [
        WeightSpan(version=str(one["version"]), start=one["start"], end=one["end"])
        for one in meta.get("weight_versions") or ()
    ]
    return Completion(
        ids=[pair[1] for pair in pairs],
        log_probs=[pair[0] for pair in pairs],
        finish_reason=meta["finish_reason"]["type"],
        weight_version=meta.get("weight_version"),
        weight_versions=[span for span in spans if span.end > span.start],
        cached_tokens=meta.get("cached_tokens") or 0,
    )
