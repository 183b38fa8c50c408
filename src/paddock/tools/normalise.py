"""Normalises a tool call: to an action, or to the reason why its tool would refuse it.

Law     a call is read by the table of its name, after the row's own schema has accepted and completed it. A name that
        is in no table, or whose schema has none of the table's arguments, is `OtherCall`: it is not interpreted.
Custom  a raw patch is accepted in place of JSON where the row has no schema for the tool: that is a custom tool's call.
Errors  never raises: every refusal is Malformed.
"""

from collections.abc import Callable

from paddock.tools import commands, patches, read_tools, text_tools
from paddock.tools.actions import Action, InvalidCall, OtherCall
from paddock.tools.arguments import ROLES, BadArgumentError, CallArguments, fill, properties_of, violation
from paddock.tools.names import Form, form_of
from paddock.tools.values import decode_object
from paddock.types import JsonObject

_READERS: dict[Form, Callable[[CallArguments], Action]] = {
    "shell": commands.shell_action,
    "stdin": commands.stdin_action,
    "editor": patches.editor_action,
    "replace": patches.replace_action,
    "edit_file": patches.edit_file_action,
    "write": patches.write_action,
    "patch": patches.patch_action,
    "read": read_tools.read_action,
    "grep": read_tools.grep_action,
    "glob": read_tools.glob_action,
    "list": read_tools.list_action,
    "finish": text_tools.finish_action,
    "think": text_tools.think_action,
    "task_tracker": text_tools.task_tracker_action,
    "plan_view": text_tools.plan_view_action,
    "plan_write": text_tools.plan_write_action,
    "ask": text_tools.ask_action,
}

REQUIRED_ROLES: dict[Form, tuple[str, ...]] = {
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
"""Roles of which a schema must have one for a name to mean what the table says. Other forms fit any schema."""


def normalise(
    name: str, arguments: str, *, schema: JsonObject | None = None, unique: bool = False
) -> Action | InvalidCall:
    """The action of a call. `schema`: the JSON schema of the row's tool of this name, None: the row has none;
    `unique`: as of `decode_object`."""
    form = form_of(name)
    is_raw = form == "patch" and _is_raw_patch(arguments, schema)
    decoded = {"input": arguments} if is_raw else decode_object(arguments, unique=unique)
    if isinstance(decoded, InvalidCall):
        return decoded
    if schema is not None:
        refusal = violation(decoded, schema)
        if refusal is not None:
            return refusal
    given: JsonObject = decoded if schema is None else fill(decoded, schema)
    if form is None or (schema is not None and not _fits_form(form, schema)):
        return OtherCall(name, given)
    try:
        return _READERS[form](CallArguments(form, name, given, schema))
    except BadArgumentError as error:
        return InvalidCall(error.reason, error.detail)


def _is_raw_patch(text: str, schema: JsonObject | None) -> bool:
    return schema is None and text.lstrip().startswith((patches.PATCH_ENVELOPE, "<<"))


def normalise_by_name(
    name: str, arguments: str, *, schema: JsonObject | None = None, unique: bool = False
) -> OtherCall | InvalidCall:
    """The call by its name and arguments, uninterpreted; `unique`: as of `decode_object`."""
    decoded = decode_object(arguments, unique=unique)
    if isinstance(decoded, InvalidCall):
        return decoded
    return OtherCall(name, fill(decoded, schema) if schema is not None else decoded)


def _fits_form(form: Form, schema: JsonObject) -> bool:
    marks = REQUIRED_ROLES.get(form)
    properties = properties_of(schema)
    return marks is None or any(key in properties for role in marks for key in ROLES[role])
