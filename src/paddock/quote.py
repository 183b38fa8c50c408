"""Quotes texts of others inside a prompt, so that nothing in them can pass for a part of it.

Quoted  each line of a text behind `PREFIX`, between two marks that carry a nonce. A line is what any reader may take
        for one (`str.splitlines`), so no text can begin a line of its own; the nonce is a hash over all that is quoted
        in the prompt, so that equal prompts are equal and no text can know the marks that it will stand between.
Tokens  the control tokens of chat templates (`<|im_end|>`, `</s>`, `[INST]`, `<think>`, ...) are broken by a zero-width
        space after their first character: an engine that looks for them in rendered text finds none.
Bounds  what a text says can still persuade who reads it; that is no matter of structure.
"""

import hashlib
from collections.abc import Iterable

import regex

PREFIX = "| "
BREAK = "\u200b"
"""Zero-width space."""
_WORDS = (
    "s|bos|eos|pad|unk|think|tool_call|tool_calls|tool_response|tool_result|tools|function_call|start_of_turn|end_of_turn"
    r"|begin_of_text|end_of_text|extra_id_\d+|SPECIAL_\d+|sys"
)
_CONTROL = regex.compile(
    rf"<(?=[|｜])|(?<=[|｜])(?=>)|<(?=/?(?:{_WORDS})>|<SYS>)|\[(?=/?(?:INST|SYS|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])",
    regex.IGNORECASE,
)
"""`<|...|>` of most templates (DeepSeek's bars too), words in angle brackets, and Mistral's and Llama 2's brackets."""


def break_control_tokens(text: str) -> str:
    """The text with the control tokens in it broken; otherwise unchanged."""
    return _CONTROL.sub(lambda match: match.group() + BREAK, text)


def nonce_of(texts: Iterable[str]) -> str:
    """Eight hexadecimal digits that depend on every character of all texts and on where one ends."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()[:8]


def quote(text: str) -> str:
    """Every line of the text behind `PREFIX`."""
    return "\n".join(PREFIX + line for line in text.splitlines() or [""])


def enclose(label: str, text: str, nonce: str) -> str:
    """A text quoted between its marks, its control tokens broken. `label`: a few words of ours."""
    return f"[begin {label} {nonce}]\n{quote(break_control_tokens(text))}\n[end {label} {nonce}]"
