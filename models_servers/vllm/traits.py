"""What one vLLM server can do, asked by two generations of one token: no server is used before it has sampled.

Form    `generate`: `/inference/v1/generate` (vLLM's `--enable-scale-out`), which tells the weights' version of each
        token. `completions`: `/v1/completions` with `return_token_ids`; the version is that of `/weight_info` before
        and after where both are the same, else unknown.
Experts with `generate` alone, where the server was started with `--enable-return-routed-experts`.
Modes   vLLM reports log-probs of the model's own distribution unless it was started with
        `--logprobs-mode processed_logprobs`. Told apart by allowing one token only: of it the log-prob is 0 under the
        distribution that was sampled from; under the model's own it can't be 0 for each of two tokens.
Errors  ConfigError `engine_not_exact`, `model_unknown`, `routed_experts_missing`: it must be started otherwise.
        InfraError: it is not well.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from paddock.errors import ConfigError
from paddock.models_servers.vllm.chunks import ExpertRange, Form, read_whole
from paddock.models_servers.vllm.client import VllmClient
from paddock.server.exact.engine import Chunk
from paddock.server.upstream_failures import unreadable, upstream_errors
from paddock.types import JsonObject

PATHS: dict[Form, str] = {"generate": "/inference/v1/generate", "completions": "/v1/completions"}
_PROMPT, _ALLOWED = [1, 2, 3], (5, 6)
_CERTAIN = 1e-3
"""A log-prob that near to 0 is one of a token without alternatives."""


class Traits(NamedTuple):
    """What one vLLM server can do, and how it is asked."""

    form: Form
    model: str
    """The name under which it serves the model."""
    max_tokens: int | None
    """Longest sequence; None: it does not say."""
    log_probs: Literal["sampled", "model"]
    """The distribution whose log-probs it gives."""
    versions: Literal["spans", "asked", "unknown"]
    """`spans`: they come with each answer; `asked`: by `/weight_info`."""


async def find_traits(client: VllmClient, model: str, timeout_s: float, *, routed_experts: bool = False) -> Traits:
    """`timeout_s`: for each of the requests; a first generation may take long. `routed_experts`: it has to give
    them."""
    name, max_tokens = _served_model(client, await client.get("/v1/models", timeout_s), model)
    form: Form = "generate"
    first = await _probe(client, form, name, _ALLOWED[0], timeout_s)
    if first is None:
        form = "completions"
        first = await _probe(client, form, name, _ALLOWED[0], timeout_s)
    second = await _probe(client, form, name, _ALLOWED[1], timeout_s)
    if first is None or second is None or (max_tokens is None and form == "completions"):
        raise ConfigError(
            f"{client.host}: gives no token ids with log-probs: start vLLM with `--enable-scale-out` (older ones "
            "give them at /v1/completions with `return_token_ids`), or use the `openai` model server and its text",
            kind="engine_not_exact",
        )
    if routed_experts and first.routed_experts is None:
        raise ConfigError(
            f"{client.host}: gives no routed experts: start vLLM with `--enable-scale-out` and "
            "`--enable-return-routed-experts`, and a mixture of experts, or set `routed_experts: false`",
            kind="routed_experts_missing",
        )
    certain = all(abs(answer.log_probs[0]) < _CERTAIN for answer in (first, second))
    versions: Literal["spans", "asked", "unknown"] = "spans" if first.versions else "unknown"
    if not first.versions and await weight_version(client, timeout_s) is not None:
        versions = "asked"
    return Traits(form, name, max_tokens, "sampled" if certain else "model", versions)


async def weight_version(client: VllmClient, timeout_s: float) -> str | None:
    """The weights' version by `/weight_info`; None: it names none."""
    reply = await client.get("/weight_info", timeout_s)
    version = reply.get("weight_version") if isinstance(reply, dict) else None
    return None if version is None else str(version)


async def world_size(client: VllmClient, timeout_s: float) -> int | None:
    """Number of its workers; None: it does not say."""
    reply = await client.get("/get_world_size", timeout_s)
    number = reply.get("world_size") if isinstance(reply, dict) else None
    return number if isinstance(number, int) else None


def request_body(
    form: Form,
    model: str,
    prompt_ids: Sequence[int],
    params: JsonObject,
    *,
    stream: bool,
    experts: ExpertRange | None = None,
) -> JsonObject:
    """The body that asks for one answer to `prompt_ids`, with ids and log-probs. A server that gives experts gives
    them with every answer: of all tokens, unless it is asked for fewer."""
    body: JsonObject = {"model": model, "stream": stream}
    if stream:
        body["stream_options"] = {"include_usage": True}
    if form == "generate":
        start = {} if experts is None else {"routed_experts_prompt_start": experts.start}
        return {**body, "token_ids": prompt_ids, "sampling_params": {**params, "logprobs": 0, **start}}
    return {**body, "prompt": prompt_ids, **params, "logprobs": 0, "return_token_ids": True}


async def _probe(client: VllmClient, form: Form, model: str, allowed: int, timeout_s: float) -> Chunk | None:
    params: JsonObject = {
        "max_tokens": 1,
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "allowed_token_ids": [allowed],
    }
    body = await client.post(PATHS[form], request_body(form, model, _PROMPT, params, stream=False), timeout_s)
    if body is None or (form == "completions" and not _has_ids(body)):
        return None
    with upstream_errors(client.host, timeout_s):
        answer = read_whole(form, body, ExpertRange(0, len(_PROMPT)))
    if answer.ids != [allowed]:
        raise unreadable(client.host, f"only token {allowed} was allowed, {answer.ids[:3]} was sampled")
    return answer


def _has_ids(body: Any) -> bool:
    choices = body.get("choices") if isinstance(body, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return isinstance(first, dict) and first.get("token_ids") is not None


def _served_model(client: VllmClient, listed: Any, model: str) -> tuple[str, int | None]:
    entries = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise unreadable(client.host, "/v1/models lists no models")
    for key in ("id", "root"):
        for entry in entries:
            if entry.get(key) == model:
                length = entry.get("max_model_len")
                return str(entry["id"]), length if isinstance(length, int) else None
    names = ", ".join(str(entry.get("id")) for entry in entries)
    raise ConfigError(f"{client.host}: serves {names}, not {model!r}: set `model`", kind="model_unknown")
