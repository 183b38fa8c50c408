"""Arguments of a call as CodeAct takes them: what it demands, what it converts, what it ignores.

Source  V0 (openhands-ai 0.62.0) demands less than its schemas say: no `security_risk`, no `thought`, no `message`; it
        takes numbers as text, ignores arguments that it does not know but for the editor's, and takes any `is_input`
        other than "true" for false. V1 (openhands-sdk 1.58.0) validates by its schemas.
Nulls   are arguments that are not given.
Errors  `InvalidCall`, whose detail is what V0 says, where it says something.
"""

from paddock.harnesses.codeact.editor import Editor
from paddock.harnesses.codeact.wordings import Wording
from paddock.tools import InvalidCall
from paddock.tools.arguments import violation
from paddock.types import Json, JsonObject

_DEMANDED = {
    "execute_bash": ("command",),
    "str_replace_editor": ("command", "path"),
    "task_tracker": ("command",),
}
_LENIENT = ("security_risk", "is_input", "timeout", "insert_line")
"""Types that V0 does not look at, or converts."""


def accepted_arguments(wording: Wording, name: str, given: JsonObject, schema: JsonObject) -> JsonObject | InvalidCall:
    """Return the arguments that the tool works with, or what is wrong with them."""
    arguments = {key: value for key, value in given.items() if value is not None}
    if wording == "v1":
        return violation(arguments, {**schema, "additionalProperties": False}) or _plan(name, arguments) or arguments
    return _demanded(name, arguments) or _unexpected(name, arguments, schema) or _converted(name, arguments, schema)


def _demanded(name: str, arguments: JsonObject) -> InvalidCall | None:
    for key in _DEMANDED.get(name, ()):
        if key not in arguments:
            return InvalidCall("missing_argument", f'Missing required argument "{key}" in tool call {name}')
    return _plan(name, arguments)


def _plan(name: str, arguments: JsonObject) -> InvalidCall | None:
    if name == "task_tracker" and arguments.get("command") == "plan" and "task_list" not in arguments:
        why = f'Missing required argument "task_list" for "plan" command in tool call {name}'
        return InvalidCall("missing_argument", why)
    return None


def _unexpected(name: str, arguments: JsonObject, schema: JsonObject) -> InvalidCall | None:
    properties: dict[str, Json] = schema.get("properties", {})
    if name != "str_replace_editor":
        return None
    command = arguments["command"]
    if command not in Editor.COMMANDS:
        allowed = ", ".join(Editor.COMMANDS)
        why = f"Unrecognized command {command}. The allowed commands for the oh_editor tool are: {allowed}"
        return InvalidCall("wrong_value", why)
    for key in arguments:
        if command != "view" and key not in properties:
            why = f"Unexpected argument {key} in tool call {name}. Allowed arguments are: {', '.join(properties)}"
            return InvalidCall("unknown_argument", why)
    return None


def _converted(name: str, arguments: JsonObject, schema: JsonObject) -> JsonObject | InvalidCall:
    properties: dict[str, Json] = schema.get("properties", {})
    values = {key: value for key, value in arguments.items() if key in properties and key != "security_risk"}
    if "is_input" in values:
        values["is_input"] = values["is_input"] == "true"
    for key, convert, message in (
        ("timeout", float, "Invalid float passed to 'timeout' argument: {}"),
        ("insert_line", int, "Invalid insert_line value: '{}'. Expected an integer."),
    ):
        if key in values:
            try:
                values[key] = convert(values[key])
            except (TypeError, ValueError):
                return InvalidCall("wrong_type", message.format(values[key]))
    typed = {key: value for key, value in properties.items() if key not in _LENIENT}
    loose = {"type": "object", "properties": typed}
    return violation(values, _without_demands(loose)) or values


def _without_demands(schema: Json) -> Json:
    """The types alone: nothing in it is required or forbidden."""
    if isinstance(schema, dict):
        return {
            key: _without_demands(value)
            for key, value in schema.items()
            if key not in ("required", "additionalProperties", "enum")
        }
    return schema
