"""The arguments of a call: accepted and completed by its tool's schema, then read by role, however they are spelled.

Schema  JSON Schema 2020-12: type, enum, required, properties, items, additionalProperties, default; `nullable` of
        OpenAPI. Other keywords ($ref, anyOf, patterns, limits) refuse nothing here. `violation` returns the first thing
        that is wrong, None when nothing is; below 32 levels nothing is looked at. `fill` adds the default of each
        missing property, and leaves out a null that means the same as absence: the default is null, or the property is
        optional and may be null. Any other null differs from absence.
Shapes  a role is what an argument means (`path`); its names are the spellings (`path`, `file_path`, `filePath`, ...).
        A null counts as missing. `rest` has the arguments that were not read and that matter.
Errors  a role that is needed and missing, empty or of another type raises BadArgumentError, which `normalise` turns
        into Malformed.
"""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from paddock.tools.actions import InvalidCall, RefusalReason
from paddock.tools.names import KIND_OF_FORM, Form
from paddock.tools.values import has_visible_text, same_json
from paddock.types import Json, JsonObject

ROLES: dict[str, tuple[str, ...]] = {
    "command": ("command", "cmd", "script"),
    "workdir": ("workdir", "cwd", "directory", "working_directory"),
    "is_input": ("is_input",),
    "chars": ("chars", "input", "text"),
    "session": ("session_id", "session"),
    "path": ("path", "file_path", "filePath", "filepath", "file", "filename", "file_name", "absolute_path"),
    "folder": ("path", "dir_path", "dirPath", "directory", "dir", "directory_path"),
    "old": ("old_str", "old_string", "oldString", "old_text", "oldText"),
    "new": ("new_str", "new_string", "newString", "new_text", "newText"),
    "all": ("replace_all", "replaceAll", "allow_multiple"),
    "content": ("content", "file_text", "contents", "text"),
    "insert_line": ("insert_line", "insertLine"),
    "patch": ("input", "patch", "patchText", "patch_text", "diff"),
    "first": ("start", "start_line", "first_line"),
    "last": ("end", "end_line", "last_line"),
    "pattern": ("pattern", "regex"),
    "include": ("include", "glob", "file_pattern", "include_pattern"),
    "literal": ("literal", "fixed_strings"),
    "said": ("message",),
    "thought": ("thought", "thinking", "content", "text", "message"),
    "steps": ("task_list", "plan", "todos", "tasks", "items", "steps"),
    "step": ("title", "step", "content", "task", "text"),
    "questions": ("questions", "question", "prompt", "message", "text"),
}
"""Argument names of each role, in the order in which they are looked for."""

NEUTRAL: frozenset[str] = frozenset({"security_risk", "summary", "description", "justification", "explanation"})
"""Arguments of any tool in the table that do not change what is done: they are not compared."""

NEUTRAL_OF: dict[str, frozenset[str]] = {
    "shell": frozenset({"prefix_rule"}),
}
"""Further neutral arguments of tools of one kind."""

DEFAULTS: dict[Form, JsonObject] = {
    "shell": {
        "is_background": False,
        "run_in_background": False,
        "login": True,
        "reset": False,
        "sandbox_permissions": "use_default",
        "tty": False,
        "with_escalated_permissions": False,
    },
    "read": {"mode": "slice"},
    "grep": {"-i": False, "limit": 100, "multiline": False},
    "list": {"depth": 2, "limit": 25, "offset": 1, "recursive": False},
}
"""Default values of tools: an argument that equals its default is not compared."""

_MAX_DEPTH = 32
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
    "number": (int, float),
    "integer": (int, float),
}


def properties_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _required(schema: Mapping[str, Any]) -> list[str]:
    required = schema.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def _is(value: Json, name: Json) -> bool:
    kinds = _TYPES.get(name) if isinstance(name, str) else None
    if kinds is None:
        return True
    if isinstance(value, bool):
        return bool in kinds
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, kinds)


def violation(value: Json, schema: Json, where: str = "arguments", depth: int = 0) -> InvalidCall | None:
    """Why a tool with this schema refuses the value; None: it accepts it."""
    return next(_violations(value, schema, where, depth), None)


def _violations(value: Json, schema: Json, where: str, depth: int) -> Iterator[InvalidCall]:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return
    wanted = schema.get("type")
    if value is None and schema.get("nullable") is True:
        return
    names = wanted if isinstance(wanted, list) else [wanted]
    if wanted is not None and not any(_is(value, name) for name in names):
        yield InvalidCall("wrong_type", f"{where} is a {type(value).__name__}, not {_texts(names)}")
        return
    choices = schema.get("enum")
    if isinstance(choices, list) and not any(same_json(value, choice) for choice in choices):
        yield InvalidCall("wrong_value", f"{where} is none of {_texts(choices)}")
    elif isinstance(value, dict):
        yield from _in_object(value, schema, where, depth)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from _violations(item, schema["items"], f"{where}[{index}]", depth + 1)


def _in_object(value: JsonObject, schema: JsonObject, where: str, depth: int) -> Iterator[InvalidCall]:
    properties = properties_of(schema)
    for name in _required(schema):
        inner = properties.get(name)
        if name not in value and not (isinstance(inner, dict) and "default" in inner):
            yield InvalidCall("missing_argument", f"{where} lack {name!r}")
    for name, item in value.items():
        if name in properties:
            yield from _violations(item, properties[name], f"{where}.{name:.60}", depth + 1)
        elif schema.get("additionalProperties") is False:
            yield InvalidCall("unknown_argument", f"{where} have {name[:60]!r}, which the tool does not")


def _texts(values: list[Json]) -> str:
    return ", ".join(value for value in values if isinstance(value, str))[:120]


def fill(value: Json, schema: Json, depth: int = 0) -> Json:
    """The value as its tool sees it; shares what it does not change."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return value
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict) and items.get("type") in ("object", "array"):
        return [fill(item, items, depth + 1) for item in value]
    properties = properties_of(schema)
    if not isinstance(value, dict) or not properties:
        return value
    required = _required(schema)
    filled: JsonObject = {}
    for name, item in value.items():
        inner = properties.get(name)
        if item is not None or not isinstance(inner, dict) or not _null_is_absence(inner, name in required):
            filled[name] = fill(item, inner, depth + 1)
    for name, inner in properties.items():
        if name not in value and isinstance(inner, dict) and inner.get("default") is not None:
            filled[name] = inner["default"]
    return filled


def _null_is_absence(schema: JsonObject, required: bool) -> bool:
    if "default" in schema:
        return schema["default"] is None
    if required:
        return False
    names = schema.get("type")
    if schema.get("nullable") is True or (isinstance(names, list) and "null" in names):
        return True
    choices = schema.get("anyOf") or schema.get("oneOf")
    return isinstance(choices, list) and any(
        isinstance(choice, dict) and choice.get("type") == "null" for choice in choices
    )


class BadArgumentError(ValueError):
    """An argument that its tool would refuse."""

    def __init__(self, reason: RefusalReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class CallArguments:
    """A call's arguments. Each method marks what it reads, so that `rest` has the others."""

    def __init__(self, form: Form, name: str, given: JsonObject, schema: JsonObject | None) -> None:
        self.form = form
        self.name = name
        self.schema = schema
        """The JSON schema of the row's own tool; None: the row has none."""
        self._given = {key: value for key, value in given.items() if value is not None}
        self._read: set[str] = set()

    def has(self, role: str) -> bool:
        return any(key in self._given for key in ROLES[role])

    def value(self, role: str) -> Any:
        """The value in this role, of any type; None: there is none."""
        for key in ROLES[role]:
            if key in self._given:
                self._read.add(key)
                return self._given[key]
        return None

    def read_key(self, key: str) -> Any:
        """The value of the argument of exactly this name; None when there is none."""
        self._read.add(key)
        return self._given.get(key)

    def optional_text(self, role: str) -> str | None:
        """A text in this role; None when there is none."""
        value = self.value(role)
        if value is not None and not isinstance(value, str):
            raise BadArgumentError("wrong_type", f"{role} is a {type(value).__name__}, not a string")
        return value

    def text(self, role: str) -> str:
        """A text that must be there, and may be empty."""
        value = self.optional_text(role)
        if value is None:
            raise BadArgumentError("missing_argument", f"no {role} (one of {', '.join(ROLES[role])})")
        return value

    def required_text(self, role: str) -> str:
        """A text that must be there and not be blank."""
        value = self.text(role)
        if not has_visible_text(value):
            raise BadArgumentError("missing_argument", f"{role} is empty")
        return value

    def flag(self, role: str) -> bool:
        value = self.value(role)
        return truth(role, value) if value is not None else False

    def number(self, role: str) -> int | None:
        value = self.value(role)
        return integer(role, value) if value is not None else None

    def count(self, key: str) -> int | None:
        value = self.read_key(key)
        return integer(key, value) if value is not None else None

    def limit(self, key: str) -> float | None:
        """The number under this name; None where there is none: another value stays in `rest`."""
        value = self._given.get(key)
        try:
            number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
        except (ValueError, OverflowError):
            return None
        if number is None or not isfinite(number):
            return None
        self._read.add(key)
        return number

    def rest(self) -> JsonObject:
        """The arguments that were not read, are not neutral, and differ from the tool's default."""
        neutral = NEUTRAL_OF.get(KIND_OF_FORM[self.form], frozenset())
        defaults = DEFAULTS.get(self.form, {})
        return {
            key: value
            for key, value in self._given.items()
            if key not in self._read
            and key not in NEUTRAL
            and key not in neutral
            and not (key in defaults and same_json(defaults[key], value))
        }


_MAX_INTEGER = 2**53
"""The largest integer that every JSON reader keeps exactly."""


def integer(what: str, value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadArgumentError("wrong_type", f"{what} is a {type(value).__name__}, not an integer")
    if isinstance(value, float) and not value.is_integer():
        raise BadArgumentError("wrong_type", f"{what} is {value}, not an integer")
    if abs(value) > _MAX_INTEGER:
        raise BadArgumentError("wrong_value", f"{what} is too large")
    return int(value)


def truth(what: str, value: Json) -> bool:
    """A boolean, or the words `true` and `false` that one family's schema has in its place."""
    if isinstance(value, str) and value in ("true", "false"):
        return value == "true"
    if not isinstance(value, bool):
        raise BadArgumentError("wrong_type", f"{what} is {value!r:.40}, not a boolean")
    return value
