"""What tools are for and what their arguments mean: tables only.

Law     a kind is what a call does; two names of one kind may stand for each other. Listing, finding by name and
        searching in text are three kinds, for a call of one never does the work of another.
Names   of OpenHands, Codex, OpenCode and their established synonyms; any case, with or without `_` or `-`.
Roles   what an argument means to the levels, under every spelling that the tools above use.
"""

from typing import Literal

Kind = Literal["edit", "shell", "search", "find", "list", "read", "finish", "think", "plan", "other"]
Role = Literal[
    "subcommand", "path", "view_range", "offset", "limit", "line", "start", "end", "command", "pattern",
    "old", "new", "content",
]  # fmt: skip

_NAMES: dict[Kind, str] = {
    "edit": "str_replace_editor text_editor file_editor code_editor edit_file modify_file update_file file_edit edit"
    " modify apply_patch patch_file apply_diff apply_changes write write_file save_file create_file",
    "shell": "execute_bash run_bash bash_exec shell_run shell bash terminal shell_command shell_cmd run_shell_cmd"
    " run_shell_command exec_command exec_cmd",
    "search": "grep search_text find_pattern text_search grep_files search_files find_in_files code_search",
    "find": "glob find_files file_glob match_files",
    "list": "list_dir ls show_dir ls_dir list_directory list",
    "read": "read read_file view_file cat_file view file_view inspect show_file read_file_content",
    "finish": "finish submit",
    "think": "think",
    "plan": "task_tracker todo_tracker plan_tracker todo_read todo_write update_plan list_tasks update_tasks"
    " read_todos write_todos edit_plan modify_plan",
}

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


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


_KIND_OF: dict[str, Kind] = {_plain(name): kind for kind, names in _NAMES.items() for name in names.split()}


def kind_of(name: str) -> Kind:
    """`other` for a tool that no table names: it matches by its name alone."""
    return _KIND_OF.get(_plain(name), "other")
