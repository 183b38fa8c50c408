"""What of a response moves its reward besides the judge's opinion: lengths and formatting.

Answer  the texts of its assistant messages, joined. Reasoning: of each reasoning item the summary's texts, or, where
        it has none, its content's; joined. Lengths are code points.
Style   marks per character, both of the answer without fenced code (``` to the next ```; a fence that is not closed
        stays): headers (`#` to `######` and a blank at the start of a line), list items (`-`, `*`, `+`, `1.` or `1)`
        and a blank, indented or not), bold (`**text**`, or `__text__` that touches no word; within a line), emoji (each
        code point of U+1F1E6 to 1F1FF, U+1F300 to 1FAFF, U+2600 to 27BF). With no character left the density is 0.
Errors  none for any JSON. Time is linear in the text.
"""

import re

from paddock.resources_servers.genrm.records import Traits
from paddock.types import JsonObject
from paddock.types.responses import content_text, item_type, messages, output_items

_FENCED = re.compile(r"```.*?```", re.DOTALL)
_MARKS = (
    re.compile(r"^#{1,6}[ \t]", re.MULTILINE),
    re.compile(r"^[ \t]*+(?:[-*+]|[0-9]{1,9}[.)])[ \t]", re.MULTILINE),
    re.compile(r"\*\*[^*\n]++\*\*|(?<!\w)__[^_\n]++__(?!\w)"),
    re.compile("[\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff\u2600-\u27bf]"),
)


def traits_of(response: JsonObject) -> Traits:
    """Of a Responses API response."""
    answer = answer_of(response)
    return Traits(
        answer_chars=len(answer), reasoning_chars=len(reasoning_of(response)), style_density=style_density(answer)
    )


def answer_of(response: JsonObject) -> str:
    return "".join(messages(response))


def reasoning_of(response: JsonObject) -> str:
    return "".join(
        content_text(item.get("summary")) or content_text(item.get("content"))
        for item in output_items(response)
        if item_type(item) == "reasoning"
    )


def style_density(text: str) -> float:
    prose = _FENCED.sub("", text)
    marks = sum(1 for kind in _MARKS for _ in kind.finditer(prose))
    return marks / len(prose) if prose else 0.0
