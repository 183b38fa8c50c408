"""Calls as DeepSeek V3 and V3.1 write them: one block for all calls, JSON arguments after each name."""

import re
from collections.abc import Sequence
from functools import partial

from paddock.server.exact.parsers.calls import AnswerCall, CallFormat
from paddock.server.exact.parsers.values import make_call, matches, parse_json
from paddock.types import JsonObject

START, END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, SEPARATOR, CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
_V3 = re.compile(rf"\s*{CALL}function{SEPARATOR}([^\n<]+)\n```json\n(.*?)\n```\s*{CALL_END}", re.DOTALL)
_V31 = re.compile(rf"\s*{CALL}([^\n<]+){SEPARATOR}(.*?){CALL_END}", re.DOTALL)


def _read(call: re.Pattern[str], block: str, tools: Sequence[JsonObject]) -> list[AnswerCall]:
    found = matches(call, block.removeprefix(START).removesuffix(END))
    return [make_call(name, parse_json(arguments)) for name, arguments in map(re.Match.groups, found)]


DEEPSEEK_V3 = CallFormat({START: END}, partial(_read, _V3))
DEEPSEEK_V31 = CallFormat({START: END}, partial(_read, _V31))
