"""What tools are for and what their arguments mean: tables only.

Law     a kind is what a call does; two names of one kind may stand for each other. Listing, finding by name and
        searching in text are three kinds, for a call of one never does the work of another.
Names   those of `paddock.tools`.
Roles   what an argument means to the levels, under every spelling that the tools above use.
"""

from typing import Literal, get_args

from paddock.tools.names import KIND_OF_FORM, Form, form_of

Kind = Literal["edit", "shell", "search", "find", "list", "read", "finish", "think", "plan", "other"]
Role = Literal[
    "subcommand", "path", "view_range", "offset", "limit", "line", "start", "end", "command", "pattern",
    "old", "new", "content",
]  # fmt: skip

ROLES: dict[Kind, tuple[Role, ...]] = {
    "edit": ("subcommand", "path", "view_range", "line", "start", "end", "old", "new", "content"),
    "shell": ("command",),
    "search": ("path", "pattern"),
    "find": ("path", "pattern"),
    "list": ("path",),
    "read": ("path", "view_range", "offset", "limit"),
}
"""The roles that a kind's levels look at. A kind without any is judged by all arguments that the expert gave."""

CONTENT_ROLES: dict[Kind, tuple[Role, ...]] = {
    "edit": ("old", "new", "content"),
    "shell": ("command",),
    "search": ("pattern",),
    "find": ("pattern",),
}
"""The roles whose texts must be alike."""

KEYS: dict[Role, tuple[str, ...]] = {
    "subcommand": ("command",),
    "path": ("path", "file_path", "filePath", "file", "filename", "file_name", "dir_path"),
    "view_range": ("view_range",),
    "offset": ("offset",),
    "limit": ("limit",),
    "line": ("insert_line",),
    "start": ("start",),
    "end": ("end",),
    "command": ("command", "cmd"),
    "pattern": ("pattern",),
    "old": ("old_str", "old_string", "oldString"),
    "new": ("new_str", "new_string", "newString"),
    "content": ("patch", "diff", "input", "patchText", "content", "file_text", "edits"),
}

PATH_COMPONENTS: dict[Kind, int] = {"edit": 2, "search": 3, "find": 3, "list": 3, "read": 3}
"""How many last components of two paths must agree: repository roots differ between harnesses."""


_APART: dict[Form, Kind] = {"glob": "find", "stdin": "other", "ask": "other"}
"""Where the levels look closer than the kinds of `paddock.tools`, or have nothing to look at."""
_SHARED: dict[str, Kind] = {kind: kind for kind in get_args(Kind)}


def kind_of(name: str) -> Kind:
    """Return a tool's kind; `other` for one that no table names: it matches by its name alone."""
    form = form_of(name)
    if form is None:
        return "other"
    return _APART.get(form) or _SHARED[KIND_OF_FORM[form]]
