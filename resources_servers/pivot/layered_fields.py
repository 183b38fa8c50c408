"""The arguments of an expected and an actual call, side by side, by what they mean.

Law     the expert's call says what is needed: every role of its kind that it filled, or every argument that it filled
        where its kind has no roles (or it filled none of them). A call of the same tool must use the same argument
        names; a call of another tool of the kind may use any name that `layered_kinds.KEYS` gives the role.
Shapes  a needed value that is absent or empty is `missing`; one of another JSON type is `invalid`. Empty: null, blank
        text, an empty list or object. A number is never a boolean here.
"""

import json
import shlex
from typing import NamedTuple

from paddock.resources_servers.pivot.layered_kinds import KEYS, ROLES, Kind, kind_of
from paddock.types import Json, JsonObject


class DecodedCall(NamedTuple):
    """One tool call with its arguments decoded."""

    name: str
    arguments: JsonObject | None
    """None: they are no JSON object."""

    @property
    def kind(self) -> Kind:
        return kind_of(self.name)


class ArgumentField(NamedTuple):
    """One needed argument on both sides."""

    name: str
    """A role, or the argument's own name where the kind has no roles."""
    expected: Json
    actual: Json


class ArgumentFields(NamedTuple):
    """The needed arguments of a pair of calls."""

    needed: dict[str, ArgumentField]
    by_role: bool
    """False: every argument counts, under its own name."""
    missing: str = ""
    """The first needed argument that the policy left out or empty; "" for none."""
    invalid: str = ""
    """The first needed argument of another JSON type; "" for none."""

    def expected_text(self, role: str) -> str:
        return text_of(self.needed[role].expected) if role in self.needed else ""

    def actual_text(self, role: str) -> str:
        return text_of(self.needed[role].actual) if role in self.needed else ""


def same_tool(expected: DecodedCall, actual: DecodedCall) -> bool:
    return expected.name.lower() == actual.name.lower()


def pair_fields(expected: DecodedCall, actual: DecodedCall) -> ArgumentFields:
    """Pair what the expert's call needs with what the actual call has for it."""
    theirs, ours = expected.arguments or {}, actual.arguments or {}
    needed: dict[str, ArgumentField] = {}
    aliases = not same_tool(expected, actual)
    for role in ROLES.get(expected.kind, ()):
        key = next((key for key in KEYS[role] if not is_empty(theirs.get(key))), None)
        if key is not None:
            keys = KEYS[role] if aliases else (key,)
            value = next((ours[name] for name in keys if not is_empty(ours.get(name))), None)
            needed[role] = ArgumentField(role, theirs[key], value)
    by_role = bool(needed)
    if not by_role:
        needed = {key: ArgumentField(key, value, ours.get(key)) for key, value in theirs.items()}
    missing = next((f.name for f in needed.values() if is_empty(f.actual) and not is_empty(f.expected)), "")
    invalid = next((f.name for f in needed.values() if not _comparable(f)), "")
    return ArgumentFields(needed, by_role, missing, invalid)


def is_empty(value: Json) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, list | dict) and not value)


def _comparable(field: ArgumentField) -> bool:
    if is_empty(field.expected) or is_empty(field.actual):
        return True
    if field.name == "command" and isinstance(field.expected, str) and isinstance(field.actual, list):
        return all(isinstance(part, str) for part in field.actual)
    return _json_type(field.expected) == _json_type(field.actual)


def _json_type(value: Json) -> type:
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def text_of(value: Json) -> str:
    """Render text as it is, a command given as a list of words as one line, anything else as canonical JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        is_script = len(value) == 3 and value[1] in ("-c", "-lc")
        return str(value[2]) if is_script else shlex.join(value)
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
