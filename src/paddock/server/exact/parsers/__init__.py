"""Parsers of tool calls and reasoning in sampled answers, by the name of their format, without vLLM.

`answer_parsers` makes the parsers of a server; `TOOL_FORMATS` and `REASONING_FORMATS` name what there is. All read
text, and need no package and no files of a model.
"""

from paddock.server.exact.parsers.formats import REASONING_FORMATS, TOOL_FORMATS, answer_parsers
from paddock.server.exact.parsers.plain import PlainParser

__all__ = ["REASONING_FORMATS", "TOOL_FORMATS", "PlainParser", "answer_parsers"]
