"""What of a response moves its reward besides the judge's opinion: lengths and formatting.

Answer  the texts of its assistant messages, joined. Reasoning: of each reasoning item the summary's texts, or, where
        it has none, its content's; joined. Lengths count code points, white space around left out.
Style   marks per character, both of the answer without fenced code (``` to the next ```; a fence that is not closed
        stays), white space around it not counted: headers (`#` to `######` and a blank at the start of a line), list
        items (`-`, `*`, `+` or `1.` and a blank, indented or not), bold (`**text**`, `__text__`, within a line), emoji
        (by code point). With no character left the density is 0.
Source  NeMo-Gym's `genrm_compare`, after Arena-Hard's style control: the same counts on the same text, but for scripts
        such as Chinese, whose letters and punctuation it takes for emoji.
Errors  none for any JSON. Time is linear in the text.
"""

import re

import regex

from paddock.resources_servers.genrm.records import ResponseTraits
from paddock.types import JsonObject
from paddock.types.responses import content_text, item_type, messages, output_items

_FENCED = re.compile(r"```.*?```", re.DOTALL)
_MARKS = (
    ("#", re.compile(r"^#{1,6}\s", re.MULTILINE)),
    ("", re.compile(r"^[^\S\n]*+(?:[-*+]|\d+\.)\s", re.MULTILINE)),
    ("**", re.compile(r"\*\*[^*\n]++\*\*")),
    ("__", re.compile(r"__[^_\n]++__")),
)
"""Each with what a text has where it has one: looking for that takes a tenth of the time."""
_EMOJI = regex.compile(
    r"[[\U0001f1e0-\U0001f1ff\U0001f300-\U0001f64f\U0001f680-\U0001f6ff\U0001f900-\U0001f9ff\U0001fa00-\U0001faff]"
    r"||[[\u24c2-\U0001f251]--[\p{L}\p{M}\p{P}\p{Z}\p{C}]]||[\u2600-\u27bf]]",
    regex.V1,
)


def traits_of(response: JsonObject) -> ResponseTraits:
    """Measure a Responses API response."""
    answer = answer_of(response)
    return ResponseTraits(
        answer_chars=len(answer.strip()),
        reasoning_chars=len(reasoning_of(response).strip()),
        style_density=style_density(answer),
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
    marks = sum(1 for sign, kind in _MARKS if sign in prose for _ in kind.finditer(prose))
    if not prose.isascii():
        marks += sum(1 for _ in _EMOJI.finditer(prose))
    length = len(prose.strip())
    return marks / length if length else 0.0
