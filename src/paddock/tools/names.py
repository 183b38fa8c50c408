"""The names that tools go by, as data: which form a name has, its kind, and the default that a synonym stands for.

Source  OpenHands CodeAct (0.62 and SDK 1.58), Codex (0.63 and 0.169), OpenCode 1.18, Claude Code, qwen-code, pi and
        mini-swe-agent as they send their tools; NeMo-Gym's table of diversified names.
Shapes  a `Form` is a way to read arguments; several names share one. A `Kind` is what a call does; tools of one kind
        may stand for each other. Names are compared folded: `ExecuteBash`, `executeBash` and `execute_bash` are one.
Errors  none: a name that is not in the table has no kind and stands for itself.
"""

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Literal

Kind = Literal["shell", "edit", "read", "search", "list", "finish", "think", "plan", "ask"]
Form = Literal[
    "shell",
    "stdin",
    "editor",
    "replace",
    "edit_file",
    "write",
    "patch",
    "read",
    "grep",
    "glob",
    "list",
    "finish",
    "think",
    "task_tracker",
    "plan_view",
    "plan_write",
    "ask",
]

KIND_OF_FORM: dict[Form, Kind] = {
    "shell": "shell",
    "stdin": "shell",
    "editor": "edit",
    "replace": "edit",
    "edit_file": "edit",
    "write": "edit",
    "patch": "edit",
    "read": "read",
    "grep": "search",
    "glob": "search",
    "list": "list",
    "finish": "finish",
    "think": "think",
    "task_tracker": "plan",
    "plan_view": "plan",
    "plan_write": "plan",
    "ask": "ask",
}

NAMES: dict[Form, str] = {
    "shell": """execute_bash run_bash bash_exec shell_run bash shell terminal shell_command shell_cmd run_shell_cmd
        exec_command exec_cmd run_shell_command""",
    "stdin": "write_stdin",
    "editor": "str_replace_editor text_editor file_editor code_editor str_replace_based_edit_tool",
    "replace": "edit modify replace str_replace multi_edit multiedit",
    "edit_file": "edit_file modify_file update_file file_edit",
    "write": "write write_file save_file create_file",
    "patch": "apply_patch patch_file apply_diff apply_changes",
    "read": "read read_file view_file cat_file read_file_content view file_view inspect show_file",
    "grep": """grep search_text find_pattern text_search grep_files search_files find_in_files code_search
        search_file_content""",
    "glob": "glob find_files file_glob match_files",
    "list": "list list_dir ls show_dir ls_dir list_directory",
    "finish": "finish submit",
    "think": "think",
    "task_tracker": "task_tracker todo_tracker plan_tracker",
    "plan_view": "todo_read todoread read_todos list_tasks",
    "plan_write": "todo_write todowrite write_todos update_tasks update_plan modify_plan edit_plan",
    "ask": "question ask_user clarify prompt_user request_user_input ask_user_question",
}
"""Names of each form, folded."""

SYNONYMS: dict[str, str] = {
    "execute_bash": "run_bash bash_exec shell_run shell",
    "str_replace_editor": "text_editor file_editor code_editor",
    "browser": "web_browser browse_web open_browser",
    "edit_file": "modify_file update_file file_edit",
    "task_tracker": "todo_tracker plan_tracker",
    "bash": "shell terminal",
    "glob": "find_files file_glob match_files",
    "grep": "search_text find_pattern text_search",
    "list_dir": "ls show_dir ls_dir list_directory",
    "read": "read_file view_file cat_file",
    "write": "write_file save_file create_file",
    "edit": "modify edit_file",
    "apply_patch": "patch_file apply_diff apply_changes",
    "question": "ask_user clarify prompt_user",
    "todo_read": "read_todos list_tasks",
    "todo_write": "write_todos update_tasks",
    "view": "file_view inspect show_file",
    "shell_command": "shell_cmd run_shell_cmd exec_command exec_cmd",
    "read_file": "view_file cat_file read_file_content",
    "grep_files": "search_files find_in_files code_search",
    "update_plan": "modify_plan edit_plan",
}
"""Default name to the names that diversification gives it. A name may stand for several defaults."""

_FORM_OF: dict[str, Form] = {name: form for form, names in NAMES.items() for name in names.split()}
_DEFAULTS_OF: dict[str, tuple[str, ...]] = {}
for _default, _others in SYNONYMS.items():
    for _other in _others.split():
        _DEFAULTS_OF[_other] = (*_DEFAULTS_OF.get(_other, ()), _default)

_MAX_NAME_CHARS = 64
"""Longer names are in no table, so that the cache of `fold` is bounded."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(maxsize=4096)
def fold(name: str) -> str:
    """Snake case of a name in any of the spellings: `ExecuteBash` and `executeBash` become `execute_bash`."""
    return _HUMP.sub("_", name).lower()


def form_of(name: str) -> Form | None:
    """How the arguments of a tool of this name are read; None: the name is in no table."""
    return _FORM_OF.get(fold(name)) if len(name) <= _MAX_NAME_CHARS else None


def kind_of(name: str) -> Kind | None:
    """What a tool of this name does; None: the name is in no table. An editor's `view` is `edit` here too."""
    form = form_of(name)
    return KIND_OF_FORM[form] if form else None


def canonical(name: str, among: Collection[str] = ()) -> str:
    """The default name that `name` stands for; itself when it is a default, or stands for nothing.

    `among` are the names that the harness really has: the one of them that fits is taken, whether `name` is one of
    them in another spelling or a synonym. Without it a synonym of several defaults stands for the first in the table.
    """
    folded = fold(name)
    candidates = [folded, *_DEFAULTS_OF.get(folded, ())]
    if among:
        by_fold = {fold(real): real for real in among}
        return next((by_fold[candidate] for candidate in candidates if candidate in by_fold), name)
    if folded in SYNONYMS:
        return folded
    return candidates[1] if len(candidates) > 1 else (folded if folded in _FORM_OF else name)


def pascal(name: str) -> str:
    """`execute_bash` as `ExecuteBash`."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def stand_ins(name: str, among: Collection[str], *, camel: bool = False) -> list[str]:
    """Names under which a tool may be shown: its own, then its synonyms that mean it and no other of `among`.

    `camel`: all in Pascal case, as NeMo-Gym's `camel_case_tool_names` has it; a name that would not be recognised in
    that form keeps its own.
    """
    spelt = pascal if camel else str
    shown = [spelt(synonym) for synonym in (name, *SYNONYMS.get(name, "").split())]
    fits = [other for other in shown if canonical(other, among) == name and (other == name or other not in among)]
    return fits if fits and fits[0] == shown[0] else [name, *fits]
