"""A shell tool's result without what the tool puts around the program's output.

Source  OpenHands' trailer lines in brackets; Codex' headers up to `Output:` and its JSON object with `output`;
        mini-swe-agent's tags.
Errors  None where the program failed or the tool says that it cut the output: what is left is not the whole text.
"""

import json
import re

_TRAILER = re.compile(
    r"\n?\[(?:The command completed with exit code|Command finished with exit code|Current working directory:"
    r"|Python interpreter:)([^\n\]]*)\.?\]\s*\Z"
)
_MAX_TRAILERS = 4
_HEADER = re.compile(r"\A(?:(?:Chunk ID|Wall time|Process exited|Original token count|Exit code)[^\n]*\n)+Output:\n?")
_FAILED = re.compile(r"(?:[Ee]xit code:?|exited with code) (?!0\b)-?\d")
_TAGGED = re.compile(r"\s*<returncode>(-?\d+)</returncode>\s*<output>\n?(.*)</output>\s*", re.DOTALL)
_CUT = (
    "[... Observation truncated",
    "bytes omitted ...",
    "...output truncated...",
    "<response clipped>",
    "<output_head>",
)


def is_cut(text: str) -> bool:
    """Say whether the tool says that it left some of the output away."""
    return any(mark in text for mark in _CUT)


def plain_output(text: str) -> str | None:
    """Return what the program wrote; None where it failed or its output was cut."""
    if is_cut(text):
        return None
    if text.startswith('{"output"'):
        return _from_json(text)
    if (tagged := _TAGGED.fullmatch(text)) is not None:
        return tagged[2] if tagged[1] == "0" else None
    header = _HEADER.match(text)
    around = header[0] if header else ""
    text = text[len(around) :]
    for _ in range(_MAX_TRAILERS):
        trailer = _TRAILER.search(text[-400:])
        if trailer is None:
            break
        around += trailer[0]
        text = text[: len(text) - len(trailer[0])]
    return None if _FAILED.search(around) else text


def _from_json(text: str) -> str | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    output, metadata = value.get("output"), value.get("metadata")
    failed = isinstance(metadata, dict) and metadata.get("exit_code", 0) != 0
    return output if isinstance(output, str) and not failed else None
