"""Calls as Mistral's models write them, after `[TOOL_CALLS]` at the end of an answer.

Form    a JSON list of objects with `name` and `arguments`; or, for newer tokenizers, one `[TOOL_CALLS]` for each call,
        its name, maybe `[CALL_ID]` and an id, maybe `[ARGS]`, and its arguments in JSON.
"""

import re
from collections.abc import Sequence

from paddock.server.exact.parsers.calls import AnswerCall, CallFormat
from paddock.server.exact.parsers.values import make_call, matches, parse_json
from paddock.types import JsonObject

START = "[TOOL_CALLS]"
_CALL = re.compile(
    r"\[TOOL_CALLS\]\s*([^\s\[\]{}]+)(?:\[CALL_ID\][^\s\[{]*)?(?:\[ARGS\])?\s*(\{.*?\})\s*(?=\[TOOL_CALLS\]|\Z)",
    re.DOTALL,
)


def _read(block: str, tools: Sequence[JsonObject]) -> list[AnswerCall]:
    body = block.removeprefix(START).strip()
    if not body.startswith("["):
        return [
            make_call(name, parse_json(arguments)) for name, arguments in map(re.Match.groups, matches(_CALL, block))
        ]
    calls = parse_json(body)
    if not calls or not all(isinstance(call, dict) for call in calls):
        raise ValueError("no list of calls")
    return [make_call(call.get("name"), call.get("arguments")) for call in calls]


MISTRAL = CallFormat({START: None}, _read)
