"""Which sampling parameters an engine is given: the server's config over the row's over the client's.

Names   those of the Chat API; a token budget has three names, and is `max_tokens` here.
Law     a null of the config or the row takes the client's parameter away. What was set over the client's is named.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from paddock.server.dialects.params import SAMPLING
from paddock.types import JsonObject

BUDGET = ("max_tokens", "max_completion_tokens", "max_output_tokens")
NAMES = frozenset([*SAMPLING, "logit_bias"])


class MergedSampling(NamedTuple):
    """Parameters, and where they come from."""

    params: JsonObject
    overridden: list[str]
    """Those that the config or the row set, or took away, and that are not as the client asked."""


def merged(client: Mapping[str, Any], row: Mapping[str, Any], config: Mapping[str, Any]) -> MergedSampling:
    """`client`: a request's body, of which only sampling parameters are read."""
    asked = sampling_of(client)
    if not (row or config):
        return MergedSampling(asked, [])
    params = dict(asked)
    for layer in (row, config):
        for name, value in layer.items():
            params["max_tokens" if name in BUDGET else name] = value
    params = {name: value for name, value in params.items() if value is not None}
    names = {*asked, *params}
    return MergedSampling(params, sorted(name for name in names if asked.get(name) != params.get(name)))


def sampling_of(params: Mapping[str, Any]) -> JsonObject:
    """The sampling parameters of a request's body."""
    found: JsonObject = {}
    for name, value in params.items():
        if value is not None and name in NAMES:
            found[name] = value
    for name in BUDGET:
        if params.get(name) is not None:
            found["max_tokens"] = params[name]
            break
    return found
