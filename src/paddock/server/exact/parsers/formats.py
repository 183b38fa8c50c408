"""The formats of tool calls and reasoning that are known by name.

Errors  ConfigError `parser_unknown` for a name that no format has.
"""

from collections.abc import Sequence

from paddock.config.problems import suggestion
from paddock.errors import ConfigError
from paddock.server.exact.engine import Parser, ParserFactory
from paddock.server.exact.parsers.plain import PlainParser
from paddock.tokens import Vocabulary
from paddock.types import JsonObject

TOOL_FORMATS: tuple[str, ...] = ()
"""Names of formats of tool calls, as vLLM's `--tool-call-parser` has them."""
REASONING_FORMATS: tuple[str, ...] = ()
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

    def make(tools: Sequence[JsonObject], prompt_ids: Sequence[int]) -> Parser:
        return PlainParser()

    return make
