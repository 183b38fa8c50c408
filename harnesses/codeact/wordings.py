"""What the program says to a call that no tool can take, and around the failures of its tools.

Source  `v0`: openhands-ai 0.62.0; `v1`: openhands-sdk 1.58.0. In V0 a bad call costs the whole answer, and the user
        says so; here each call gets its own result. V1 gives pydantic's report; here it is a short reason.
"""

from collections.abc import Sequence
from typing import Literal

from paddock.types import JsonObject

Wording = Literal["v0", "v1"]
_IN_ACTION = "\n[Error occurred in processing last action]"


def failed_edit(wording: Wording, text: str) -> str:
    return f"ERROR:\n{text}" if wording == "v0" else _v1(text)


def binary(wording: Wording, text: str, *, seen: bool) -> str:
    """Of a binary file; V0 does not come to its editor when it is only to be seen."""
    return f"ERROR_BINARY_FILE{_IN_ACTION}" if wording == "v0" and seen else failed_edit(wording, text)


def failed_command(wording: Wording, text: str) -> str:
    return f"ERROR: {text}{_IN_ACTION}" if wording == "v0" else _v1(text)


def busy(wording: Wording, text: str) -> str:
    """V0 tells of a busy shell as of any other result."""
    return text if wording == "v0" else _v1(text)


def unknown_tool(wording: Wording, name: str, given: JsonObject, there: Sequence[str]) -> str:
    if wording == "v1":
        return _v1(f"Tool '{name}' not found. Available: {list(there)}")
    advice = "Please check the tool name and retry with an existing tool."
    return f"Tool {name} is not registered. (arguments: {given}). {advice}{_IN_ACTION}"


def bad_json(wording: Wording, name: str, raw: str) -> str:
    if wording == "v1":
        return _v1(f"Error validating tool '{name}': the arguments are no JSON object. Arguments: unparseable JSON")
    return f"Failed to parse tool call arguments: {raw}{_IN_ACTION}"


def bad_arguments(wording: Wording, name: str, detail: str, given: Sequence[str]) -> str:
    """`detail`: what V0 says, or a reason."""
    if wording == "v1":
        return _v1(f"Error validating tool '{name}': {detail}. Parameters provided: {list(given)}")
    return f"{detail}{_IN_ACTION}"


def _v1(text: str) -> str:
    return f"[An error occurred during execution.]\n{text}"
