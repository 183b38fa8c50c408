"""A row sampled as verifiers says: its sampling config in the row's request, under the names of the Responses API.

Errors  ConfigError `sampling_unknown` for a parameter that would be lost on the way to the endpoint.
"""

from collections.abc import Mapping
from typing import Any

from paddock.errors import ConfigError
from paddock.types import JsonObject
from paddock.types.request_fields import FIELDS

ELSEWHERE = frozenset({"cache_salt", "logprobs"})
"""What the engine sees to itself."""
PASSED = frozenset(name for name, field in FIELDS.items() if field.kind == "sampling" and "r" in field.read)


def with_sampling(row: JsonObject, sampling: Mapping[str, Any]) -> JsonObject:
    """The row with a run's sampling over its own. `max_tokens` bounds each answer, beside the row's own bound."""
    params = row.get("responses_create_params")
    if not isinstance(params, dict):
        return row
    changed = {**params}
    for name, value in sampling.items():
        if name in PASSED:
            changed[name] = value
        elif name == "max_tokens":
            own = params.get("max_output_tokens")
            changed["max_output_tokens"] = min(own, value) if isinstance(own, int) else value
        elif name == "reasoning_effort":
            changed["reasoning"] = {**(params.get("reasoning") or {}), "effort": value}
        elif name not in ELSEWHERE:
            raise ConfigError(
                f"sampling.{name}: our model servers pass it on to no endpoint; they do: "
                f"{', '.join(sorted((*PASSED, 'max_tokens', 'reasoning_effort')))}",
                kind="sampling_unknown",
            )
    return {**row, "responses_create_params": changed}
