"""From sampling parameters under the names of the Chat API to vLLM's `SamplingParams`.

Law     every parameter that shapes the distribution is always sent, so that no default of the server or of the
        model's `generation_config.json` has a say. One answer per call: `n` is never sent.
Stop    vLLM applies `stop` strings to the text. Measured on 0.32: the sampled ids hold the whole stop text and end
        with the token that completed it, which may hold characters after it; no id follows. `finish_reason` is `stop`.
Errors  RequestError `sampling_invalid` names a parameter that vLLM is not told of, or a budget that is no number.
"""

from collections.abc import Iterable

from paddock.errors import RequestError
from paddock.types import JsonObject
from paddock.types.request_fields import BUDGETS, NEUTRAL, SAMPLING

_FURTHER = (
    "stop_token_ids",
    "ignore_eos",
    "min_tokens",
    "bad_words",
    "allowed_token_ids",
    "thinking_token_budget",
)
_NUMBERS = (int, float)
_NAMES = frozenset((*SAMPLING, *BUDGETS, *_FURTHER))
_DISTRIBUTION_MASKS = ("logit_bias", "bad_words", "allowed_token_ids", "min_tokens", "thinking_token_budget")
"""Parameters that change the distribution wherever they are set."""


def unknown_names(params: Iterable[str]) -> list[str]:
    """Names that `sampling` refuses."""
    return sorted({*params} - _NAMES)


def sampling(params: JsonObject, room: int | None) -> JsonObject:
    """vLLM's parameters. `room`: tokens left beside the prompt; None: unknown, then vLLM applies its own limit."""
    if unknown := unknown_names(params):
        raise RequestError(f"sampling parameter {unknown[0]!r}: it is not passed on to vLLM", kind="sampling_invalid")
    vllm_params: JsonObject = {**NEUTRAL}
    limits = [] if room is None else [room]
    for name, value in params.items():
        if value is None:
            continue
        if name not in BUDGETS:
            vllm_params[name] = value
        elif type(value) in _NUMBERS:
            limits.append(value)
        else:
            raise RequestError(f"{name}: needs a number of tokens, got {str(value)[:40]!r}", kind="sampling_invalid")
    if vllm_params["top_k"] == -1:
        vllm_params["top_k"] = 0
    if limits:
        vllm_params["max_tokens"] = min(limits)
    return vllm_params


def is_plain(params: JsonObject) -> bool:
    """Whether vLLM samples from the model's own distribution; a greedy answer's log-probs are of that, too."""
    if params["temperature"] not in (0, 1):
        return False
    is_neutral = all(params[name] == value for name, value in NEUTRAL.items() if name != "temperature")
    return is_neutral and not any(params.get(name) for name in _DISTRIBUTION_MASKS)
