"""One tool call as an action, or why its tool would refuse it.

Law     a call is read by the table of its name, after the row's own schema has accepted and completed it. A name that
        is in no table, or whose schema has none of the table's arguments, is `Other`: nothing is read into it.
Custom  a raw patch is accepted in place of JSON where the row has no schema for the tool: that is a custom tool's call.
Errors  never raises: every refusal is Malformed.
"""

from collections.abc import Callable

from paddock.tools import commands, looking, patches, talking
from paddock.tools.actions import Action, Malformed, Other
from paddock.tools.arguments import ROLES, Arguments, BadArgumentError
from paddock.tools.names import Form, form_of
from paddock.tools.schema import fill, properties_of, violation
from paddock.tools.values import decode_object
from paddock.types import JsonObject

_READERS: dict[Form, Callable[[Arguments], Action]] = {
    "shell": commands.shell_action,
    "stdin": commands.stdin_action,
    "editor": patches.editor_action,
    "replace": patches.replace_action,
    "edit_file": patches.edit_file_action,
    "write": patches.write_action,
    "patch": patches.patch_action,
    "read": looking.read_action,
    "grep": looking.grep_action,
    "glob": looking.glob_action,
    "list": looking.list_action,
    "finish": talking.finish_action,
    "think": talking.think_action,
    "task_tracker": talking.task_tracker_action,
    "plan_view": talking.plan_view_action,
    "plan_write": talking.plan_write_action,
    "ask": talking.ask_action,
}

MARKS: dict[Form, tuple[str, ...]] = {
    "shell": ("command",),
    "stdin": ("session",),
    "editor": ("command",),
    "replace": ("path",),
    "edit_file": ("path",),
    "write": ("path",),
    "patch": ("patch",),
    "read": ("path",),
    "grep": ("pattern",),
    "glob": ("pattern",),
    "think": ("thought",),
    "task_tracker": ("command",),
    "plan_write": ("steps",),
    "ask": ("questions",),
}
"""Roles of which a schema must have one for a name to mean what the table says. Forms without: any schema will do."""


def normalise(
    name: str, arguments: str, *, schema: JsonObject | None = None, unique: bool = False
) -> Action | Malformed:
    """What the call asks for. `schema`: the JSON schema of the row's tool of this name, None when the row has none;
    `unique`: as of `decode_object`."""
    form = form_of(name)
    is_raw = form == "patch" and _is_raw_patch(arguments, schema)
    decoded = {"input": arguments} if is_raw else decode_object(arguments, unique=unique)
    if isinstance(decoded, Malformed):
        return decoded
    if schema is not None:
        wrong = violation(decoded, schema)
        if wrong is not None:
            return wrong
    given: JsonObject = decoded if schema is None else fill(decoded, schema)
    if form is None or (schema is not None and not _means(form, schema)):
        return Other(name, given)
    try:
        return _READERS[form](Arguments(form, name, given, schema))
    except BadArgumentError as error:
        return Malformed(error.reason, error.detail)


def _is_raw_patch(text: str, schema: JsonObject | None) -> bool:
    return schema is None and text.lstrip().startswith((patches.PATCH_ENVELOPE, "<<"))


def opaque(name: str, arguments: str, *, schema: JsonObject | None = None, unique: bool = False) -> Other | Malformed:
    """The call with nothing read into it, whatever its name; `unique`: as of `decode_object`."""
    decoded = decode_object(arguments, unique=unique)
    if isinstance(decoded, Malformed):
        return decoded
    return Other(name, fill(decoded, schema) if schema is not None else decoded)


def _means(form: Form, schema: JsonObject) -> bool:
    marks = MARKS.get(form)
    properties = properties_of(schema)
    return marks is None or any(key in properties for role in marks for key in ROLES[role])
