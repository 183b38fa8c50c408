"""The formats of tool calls and reasoning that are known by name.

Names   vLLM's, so that one word in a config means the same whoever reads the answers. Written from the chat templates
        that the models are published with.
Channels  `openai` and `openai_gptoss` are one format, of whole answers; either may be left out.
Errors  ConfigError `parser_unknown` for a name that no format has, and for a pair that no model writes.
"""

from collections.abc import Sequence

from paddock.config.problems import suggestion
from paddock.errors import ConfigError
from paddock.server.exact.engine import Parser, ParserFactory
from paddock.server.exact.parsers.answer import AnswerParser
from paddock.server.exact.parsers.calls import CallFormat, CallReader
from paddock.server.exact.parsers.deepseek import DEEPSEEK_V3, DEEPSEEK_V31
from paddock.server.exact.parsers.glm import GLM45
from paddock.server.exact.parsers.harmony import HarmonyParser
from paddock.server.exact.parsers.hermes import HERMES
from paddock.server.exact.parsers.llama import LLAMA3_JSON, PYTHONIC
from paddock.server.exact.parsers.mistral import MISTRAL
from paddock.server.exact.parsers.plain import PlainParser
from paddock.server.exact.parsers.qwen3_coder import QWEN3_CODER
from paddock.server.exact.parsers.thoughts import ReasoningFormat, ReasoningReader, ended_in_prompt
from paddock.tokens import Vocabulary
from paddock.types import JsonObject

CHANNEL_CALLS, CHANNEL_REASONING = "openai", "openai_gptoss"
_CALLS: dict[str, CallFormat] = {
    "deepseek_v3": DEEPSEEK_V3,
    "deepseek_v31": DEEPSEEK_V31,
    "glm45": GLM45,
    "glm47": GLM45,
    "hermes": HERMES,
    "llama3_json": LLAMA3_JSON,
    "mistral": MISTRAL,
    "pythonic": PYTHONIC,
    "qwen3_coder": QWEN3_CODER,
    "qwen3_xml": QWEN3_CODER,
}
_THINK = ReasoningFormat()
_THINK_OR_CALL = ReasoningFormat(call_marks=frozenset({"<tool_call>"}))
_REASONING: dict[str, ReasoningFormat] = {
    "deepseek_r1": _THINK,
    "glm45": _THINK_OR_CALL,
    "glm47": _THINK_OR_CALL,
    "qwen3": _THINK_OR_CALL,
}
TOOL_FORMATS: tuple[str, ...] = (*_CALLS, CHANNEL_CALLS)
"""Names of formats of tool calls, as vLLM's `--tool-call-parser` has them."""
REASONING_FORMATS: tuple[str, ...] = (*_REASONING, CHANNEL_REASONING)
"""Names of formats of reasoning, as vLLM's `--reasoning-parser` has them."""


def answer_parsers(vocabulary: Vocabulary, *, tool_parser: str | None, reasoning_parser: str | None) -> ParserFactory:
    """The parsers of a server's answers. Both None: answers are plain text."""
    for key, name, known in (
        ("tool_parser", tool_parser, TOOL_FORMATS),
        ("reasoning_parser", reasoning_parser, REASONING_FORMATS),
    ):
        if name is not None and name not in known:
            raise ConfigError(
                f"{key}: no format `{name}`{suggestion(name, known, label='formats')}", kind="parser_unknown"
            )
    in_channels = {tool_parser, reasoning_parser} & {CHANNEL_CALLS, CHANNEL_REASONING}
    if in_channels and {tool_parser, reasoning_parser} - {CHANNEL_CALLS, CHANNEL_REASONING, None}:
        raise ConfigError(
            f"tool_parser {tool_parser}, reasoning_parser {reasoning_parser}: no model writes both; "
            f"`{CHANNEL_CALLS}` goes with `{CHANNEL_REASONING}`",
            kind="parser_unknown",
        )
    calls, reasoning = _CALLS.get(tool_parser or ""), _REASONING.get(reasoning_parser or "")

    def make(tools: Sequence[JsonObject], prompt_ids: Sequence[int]) -> Parser:
        if in_channels:
            return HarmonyParser(has_tools=bool(tools) and tool_parser is not None)
        call_reader = CallReader(calls, tools) if calls is not None and tools else None
        if reasoning is None:
            return PlainParser() if call_reader is None else AnswerParser(None, call_reader)
        ended = ended_in_prompt(reasoning, vocabulary, prompt_ids)
        has_call_mark = calls is not None and bool(tools) and not reasoning.call_marks.isdisjoint(calls.marks)
        return AnswerParser(ReasoningReader(reasoning, ended=ended, has_tools=has_call_mark), call_reader)

    return make
