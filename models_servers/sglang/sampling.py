"""From sampling parameters under the names of the Chat API to SGLang's `sampling_params`.

Law     every parameter that shapes the distribution is always sent, so that no default of the server or of the
        model's `generation_config.json` has a say; so is `max_new_tokens`, which is 128 where it is not. One answer per
        call: `n` is never sent.
Dists   SGLang 0.5 takes log-probs after penalties, `logit_bias` and the temperature, and before `top_k`, `top_p` and
        `min_p`; before the temperature, too, where it was started with SGLANG_RETURN_ORIGINAL_LOGPROB. A greedy
        answer's are the model's own.
Errors  RequestError `sampling_invalid` names a parameter that SGLang is not told of, or a budget that is no number.
"""

from collections.abc import Iterable

from paddock.errors import RequestError
from paddock.types import JsonObject
from paddock.types.request_fields import BUDGETS, NEUTRAL, SAMPLING

_RENAMED = {"seed": "sampling_seed", "min_tokens": "min_new_tokens", "max_tokens": "max_new_tokens"}
_FURTHER = ("stop_token_ids", "ignore_eos", "min_tokens")
_NAMES = frozenset((*SAMPLING, *BUDGETS, *_FURTHER))
_ALWAYS: JsonObject = {"no_stop_trim": True, "skip_special_tokens": False}
"""For the text beside the ids: it is whole."""
_CUT_OFFS = ("top_p", "top_k", "min_p")


def unknown_names(params: Iterable[str]) -> list[str]:
    """Names that `sampling` refuses."""
    return sorted({*params} - _NAMES)


def sampling(params: JsonObject) -> JsonObject:
    """Parameters that SGLang takes, still under the names of the Chat API, the neutral ones among them."""
    if unknown := unknown_names(params):
        raise RequestError(f"sampling parameter {unknown[0]!r}: it is not passed on to SGLang", kind="sampling_invalid")
    known: JsonObject = {**NEUTRAL}
    limits: list[int] = []
    for name, value in params.items():
        if value is None:
            continue
        if name not in BUDGETS:
            known[name] = value
        elif type(value) is int:
            limits.append(value)
        else:
            raise RequestError(f"{name}: needs a number of tokens, got {str(value)[:40]!r}", kind="sampling_invalid")
    if known["top_k"] == 0:
        known["top_k"] = -1
    if limits:
        known["max_tokens"] = min(limits)
    return known


def request_params(params: JsonObject) -> JsonObject:
    """The same under SGLang's names."""
    return {**_ALWAYS, **{_RENAMED.get(name, name): value for name, value in params.items()}}


def is_exact(params: JsonObject, *, with_temperature: bool) -> bool:
    """Whether the log-probs are of the distribution that is sampled from. `with_temperature`: the server's are taken
    after the temperature."""
    if any(params[name] != NEUTRAL[name] and (name, params[name]) != ("top_k", -1) for name in _CUT_OFFS):
        return False
    return with_temperature or params["temperature"] in (0, 1)
