"""A call of each family's tools as an action, and what each tool would refuse."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.edits import Delete, Hunks, Insert, Replace, ReplaceLines, Undo, Write
from paddock.tools import (
    NAMES,
    Action,
    Ask,
    CommandLimits,
    Edit,
    Finish,
    InvalidCall,
    ListFolder,
    OtherCall,
    ReadFile,
    Search,
    ShellCommand,
    Stdin,
    Think,
    UpdatePlan,
    normalise,
    normalise_by_name,
)
from paddock.tools.arguments import ROLES

PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-x = 1\n+x = 2\n*** End Patch\n"
DELETION = "*** Begin Patch\n*** Delete File: a.py\n*** End Patch"
DIFF = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
TODO = {"content": "look", "status": "pending", "priority": "high"}
ASKED = {"question": "Which?", "header": "Pick", "options": []}


def read(name: str, **arguments: Any) -> Action | InvalidCall:
    return normalise(name, json.dumps(arguments))


OPENHANDS: list[tuple[str, dict[str, Any], Action]] = [
    (
        "execute_bash",
        {"command": "ls", "security_risk": "LOW", "timeout": 9},
        ShellCommand("ls", limits=CommandLimits(time_s=9)),
    ),
    ("execute_bash", {"command": "ls", "is_input": "false"}, ShellCommand("ls")),
    ("execute_bash", {"command": "C-c", "is_input": "true"}, Stdin("C-c")),
    ("execute_bash", {"command": ""}, Stdin("")),
    ("terminal", {"command": "y", "is_input": True, "summary": "say yes"}, Stdin("y")),
    ("terminal", {"command": "ls", "reset": False}, ShellCommand("ls")),
    ("str_replace_editor", {"command": "view", "path": "/a"}, ReadFile("/a")),
    ("str_replace_editor", {"command": "view", "path": "/a", "view_range": [4, 9]}, ReadFile("/a", 4, 9)),
    ("file_editor", {"command": "view", "path": "/a", "view_range": [4, -1]}, ReadFile("/a", 4, None)),
    ("file_editor", {"command": "create", "path": "/a", "file_text": ""}, Edit((Write("/a", "", create_only=True),))),
    ("file_editor", {"command": "str_replace", "path": "/a", "old_str": "x"}, Edit((Replace("/a", "x", ""),))),
    (
        "file_editor",
        {"command": "insert", "path": "/a", "insert_line": 0, "new_str": "x"},
        Edit((Insert("/a", 0, "x"),)),
    ),
    ("file_editor", {"command": "undo_edit", "path": "/a"}, Edit((Undo("/a"),))),
    ("edit_file", {"path": "/a", "content": "x", "start": 2, "end": 3}, Edit((ReplaceLines("/a", 2, 3, "x"),))),
    ("edit_file", {"path": "/a", "content": "x"}, Edit((ReplaceLines("/a", 1, None, "x"),))),
    ("edit", {"file_path": "a", "old_string": "x", "new_string": "y"}, Edit((Replace("a", "x", "y"),))),
    ("edit", {"file_path": "a", "old_string": "", "new_string": "y"}, Edit((Write("a", "y", create_only=True),))),
    ("write_file", {"file_path": "a", "content": "x"}, Edit((Write("a", "x"),))),
    ("list_directory", {"dir_path": "/a", "recursive": True}, ListFolder("/a", {"recursive": True})),
    ("list_directory", {}, ListFolder(None)),
    ("grep", {"pattern": "x", "path": "/a", "include": "*.py"}, Search("x", "content", "/a", "*.py")),
    ("glob", {"pattern": "**/*.py", "path": "/a"}, Search("**/*.py", "files", "/a")),
    ("finish", {"message": "done"}, Finish("done")),
    ("finish", {}, Finish(None)),
    ("think", {"thought": "hm"}, Think("hm")),
    ("task_tracker", {"command": "view"}, UpdatePlan("view")),
    ("task_tracker", {"command": "plan", "task_list": [{"title": "a", "status": "todo"}]}, UpdatePlan("plan", 1)),
    ("execute_ipython_cell", {"code": "1"}, OtherCall("execute_ipython_cell", {"code": "1"})),
]
CODEX: list[tuple[str, dict[str, Any], Action]] = [
    ("shell", {"command": ["bash", "-lc", "ls -l"], "workdir": "/w"}, ShellCommand("ls -l", "/w")),
    ("shell", {"command": ["/bin/sh", "-c", "ls"]}, ShellCommand("ls")),
    ("shell", {"command": ["git", "commit", "-m", "a b"]}, ShellCommand("git commit -m 'a b'")),
    ("shell", {"command": ["apply_patch", DELETION]}, Edit((Delete("a.py"),))),
    (
        "shell_command",
        {"command": "ls", "timeout_ms": 5, "justification": "why"},
        ShellCommand("ls", limits=CommandLimits(0.005)),
    ),
    ("shell_command", {"command": "ls", "with_escalated_permissions": False}, ShellCommand("ls")),
    (
        "shell_command",
        {"command": "ls", "with_escalated_permissions": True},
        ShellCommand("ls", None, {"with_escalated_permissions": True}),
    ),
    (
        "exec_command",
        {"cmd": "ls", "yield_time_ms": 1, "login": True, "tty": False},
        ShellCommand("ls", limits=CommandLimits(yield_s=0.001)),
    ),
    ("exec_command", {"cmd": "ls", "tty": True}, ShellCommand("ls", None, {"tty": True})),
    (
        "write_stdin",
        {"session_id": 3, "chars": "q\n", "yield_time_ms": 1},
        Stdin("q\n", 3, limits=CommandLimits(yield_s=0.001)),
    ),
    ("write_stdin", {"session_id": 3}, Stdin("", 3)),
    ("apply_patch", {"input": DELETION}, Edit((Delete("a.py"),))),
    ("update_plan", {"plan": [{"step": "a", "status": "pending"}], "explanation": "x"}, UpdatePlan("plan", 1)),
    ("read_file", {"file_path": "/a", "offset": 5, "limit": 10}, ReadFile("/a", 5, 14)),
    ("read_file", {"file_path": "/a", "mode": "slice"}, ReadFile("/a")),
    ("list_dir", {"dir_path": "/a", "depth": 2}, ListFolder("/a")),
    ("list_dir", {"dir_path": "/a", "depth": 3}, ListFolder("/a", {"depth": 3})),
    ("grep_files", {"pattern": "x", "include": "*.py", "limit": 100}, Search("x", "content", None, "*.py")),
    ("request_user_input", {"questions": [{**ASKED, "id": "q"}]}, Ask(1, "Which?")),
    ("view_image", {"path": "/a.png"}, OtherCall("view_image", {"path": "/a.png"})),
]
OPENCODE: list[tuple[str, dict[str, Any], Action]] = [
    (
        "bash",
        {"command": "ls", "workdir": "/w", "timeout": 1000, "description": "Lists"},
        ShellCommand("ls", "/w", limits=CommandLimits(1.0)),
    ),
    ("read", {"filePath": "/a"}, ReadFile("/a")),
    ("read", {"filePath": "/a", "offset": 0, "limit": 2000}, ReadFile("/a")),
    ("read", {"filePath": "/a", "offset": 11, "limit": 5}, ReadFile("/a", 11, 15)),
    ("read", {"filePath": "/a", "offset": 11}, ReadFile("/a", 11, None)),
    ("edit", {"filePath": "/a", "oldString": "x", "newString": "y"}, Edit((Replace("/a", "x", "y"),))),
    (
        "edit",
        {"filePath": "/a", "oldString": "x", "newString": "y", "replaceAll": True},
        Edit((Replace("/a", "x", "y", replace_all=True),)),
    ),
    ("write", {"filePath": "/a", "content": "x"}, Edit((Write("/a", "x"),))),
    ("apply_patch", {"patchText": DELETION}, Edit((Delete("a.py"),))),
    ("grep", {"pattern": "x", "path": "", "include": ""}, Search("x", "content")),
    ("glob", {"pattern": "*.py"}, Search("*.py", "files")),
    ("list", {"path": "/a"}, ListFolder("/a")),
    ("todowrite", {"todos": [TODO]}, UpdatePlan("plan", 1)),
    ("todo_read", {}, UpdatePlan("view")),
    ("question", {"questions": [ASKED, ASKED]}, Ask(2, "Which?\nWhich?")),
    ("webfetch", {"url": "u"}, OtherCall("webfetch", {"url": "u"})),
]
OTHERS: list[tuple[str, dict[str, Any], Action]] = [
    ("Bash", {"command": "ls", "description": "Lists", "run_in_background": False}, ShellCommand("ls")),
    ("Bash", {"command": "ls", "run_in_background": True}, ShellCommand("ls", None, {"run_in_background": True})),
    ("ReadFile", {"file_path": "/a", "offset": 2, "limit": 2}, ReadFile("/a", 2, 3)),
    ("Grep", {"pattern": "x", "glob": "*.py", "-n": True}, Search("x", "content", None, "*.py", rest={"-n": True})),
    ("run_shell_command", {"command": "ls", "is_background": False, "directory": "/w"}, ShellCommand("ls", "/w")),
    ("edit", {"path": "a", "edits": [{"oldText": "x", "newText": "y"}]}, Edit((Replace("a", "x", "y"),))),
    (
        "MultiEdit",
        {"file_path": "a", "edits": [{"old_string": "x", "new_string": "y", "replace_all": True}]},
        Edit((Replace("a", "x", "y", replace_all=True),)),
    ),
    ("TodoWrite", {"todos": [TODO]}, UpdatePlan("plan", 1)),
    ("run_bash", {"command": "ls"}, ShellCommand("ls")),
    ("ModifyFile", {"path": "/a", "old_string": "x", "new_string": "y"}, Edit((Replace("/a", "x", "y"),))),
]


@pytest.mark.parametrize(("name", "arguments", "action"), OPENHANDS + CODEX + OPENCODE + OTHERS)
def test_a_call_of_a_harness_is_the_action_it_asks_for(name: str, arguments: dict[str, Any], action: Action) -> None:
    assert normalise(name, json.dumps(arguments)) == action


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("bash", {}, "missing_argument"),
    ("bash", {"command": " "}, "missing_argument"),
    ("bash", {"command": None}, "missing_argument"),
    ("bash", {"command": 7}, "wrong_type"),
    ("bash", {"command": "ls", "is_input": 1}, "wrong_type"),
    ("shell", {"command": []}, "missing_argument"),
    ("shell", {"command": ["ls", 1]}, "wrong_type"),
    ("write_stdin", {"chars": "x"}, "missing_argument"),
    ("write_stdin", {"session_id": [], "chars": "x"}, "wrong_type"),
    ("str_replace_editor", {"path": "/a"}, "missing_argument"),
    ("str_replace_editor", {"command": "view"}, "missing_argument"),
    ("str_replace_editor", {"command": "open", "path": "/a"}, "wrong_value"),
    ("str_replace_editor", {"command": "view", "path": "/a", "view_range": "[1, 2]"}, "wrong_type"),
    ("str_replace_editor", {"command": "view", "path": "/a", "view_range": [9, 4]}, "wrong_value"),
    ("str_replace_editor", {"command": "view", "path": "/a", "view_range": [0, 4]}, "wrong_value"),
    ("str_replace_editor", {"command": "create", "path": "/a"}, "missing_argument"),
    ("str_replace_editor", {"command": "str_replace", "path": "/a", "old_str": ""}, "missing_argument"),
    ("str_replace_editor", {"command": "str_replace", "path": "/a", "old_str": "x", "new_str": "x"}, "wrong_value"),
    ("str_replace_editor", {"command": "insert", "path": "/a", "new_str": "x"}, "missing_argument"),
    ("str_replace_editor", {"command": "insert", "path": "/a", "new_str": "x", "insert_line": "3"}, "wrong_type"),
    ("str_replace_editor", {"command": "insert", "path": "/a", "new_str": "x", "insert_line": -1}, "wrong_value"),
    ("edit", {"filePath": "/a", "oldString": "x"}, "missing_argument"),
    ("edit", {"filePath": "/a", "oldString": "x", "newString": "y", "replaceAll": "yes"}, "wrong_type"),
    ("edit", {"path": "a", "edits": []}, "missing_argument"),
    ("edit", {"path": "a", "edits": [{"oldText": "x"}]}, "missing_argument"),
    ("edit", {"path": "a", "edits": [{"oldText": "x", "newText": "y", "line": 1}]}, "unknown_argument"),
    ("edit_file", {"path": "a"}, "missing_argument"),
    ("edit_file", {"path": "a", "content": "x", "start": 5, "end": 2}, "wrong_value"),
    ("write", {"filePath": "", "content": "x"}, "missing_argument"),
    ("write", {"filePath": "/a", "content": ["x"]}, "wrong_type"),
    ("apply_patch", {"input": "*** Begin Patch\nnonsense\n*** End Patch"}, "bad_patch"),
    ("apply_patch", {"input": "just text"}, "bad_patch"),
    ("apply_patch", {"input": "*** Begin Patch\n*** End Patch"}, "bad_patch"),
    ("apply_patch", {"input": ""}, "missing_argument"),
    ("read", {}, "missing_argument"),
    ("read", {"filePath": "/a", "offset": "3"}, "wrong_type"),
    ("read", {"filePath": "/a", "limit": 0}, "wrong_value"),
    ("read", {"filePath": "/a", "limit": 10**400}, "wrong_value"),
    ("grep", {"path": "/a"}, "missing_argument"),
    ("grep", {"pattern": ""}, "missing_argument"),
    ("glob", {"pattern": ["*.py"]}, "wrong_type"),
    ("finish", {"message": ""}, "missing_argument"),
    ("finish", {"message": 1}, "wrong_type"),
    ("think", {}, "missing_argument"),
    ("task_tracker", {}, "missing_argument"),
    ("task_tracker", {"command": "done"}, "wrong_value"),
    ("task_tracker", {"command": "plan"}, "missing_argument"),
    ("update_plan", {"plan": "first this"}, "wrong_type"),
    ("update_plan", {"plan": ["first this"]}, "wrong_type"),
    ("todowrite", {"todos": [{"status": "pending"}]}, "missing_argument"),
    ("question", {"questions": []}, "missing_argument"),
    ("question", {"questions": [{}]}, "wrong_type"),
]


@pytest.mark.parametrize(("name", "arguments", "reason"), REFUSED)
def test_a_call_that_its_tool_would_refuse_is_malformed(name: str, arguments: dict[str, Any], reason: str) -> None:
    action = read(name, **arguments)
    assert isinstance(action, InvalidCall)
    assert action.reason == reason


@pytest.mark.parametrize("text", [PATCH, "\n" + PATCH, "<<'EOF'\n" + PATCH + "EOF\n"])
def test_a_custom_tools_raw_patch_is_read_as_its_patch(text: str) -> None:
    action = normalise("apply_patch", text)
    assert isinstance(action, Edit)
    assert [edit.path for edit in action.edits] == ["a.py"]


DELETED = (Delete("a.py"),)


@pytest.mark.parametrize(
    ("arguments", "edits"),
    [
        ({"command": f"apply_patch <<'EOF'\n{DELETION}\nEOF"}, DELETED),
        ({"command": f"applypatch '{DELETION}'"}, DELETED),
        ({"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{DELETION}\nEOF\n"]}, DELETED),
        ({"command": f"cd src && apply_patch <<'EOF'\n{DELETION}\nEOF"}, (Delete("src/a.py"),)),
        ({"command": ["apply_patch", DELETION], "workdir": "/r"}, (Delete("/r/a.py"),)),
        ({"command": f"cd src && apply_patch '{DELETION}'", "workdir": "/r"}, (Delete("/r/src/a.py"),)),
        ({"command": ["apply_patch", DELETION.replace("a.py", "/q/a.py")], "workdir": "/r"}, (Delete("/q/a.py"),)),
    ],
)
def test_a_patch_that_a_shell_is_given_is_an_edit(arguments: dict[str, Any], edits: Any) -> None:
    assert read("shell", **arguments) == Edit(edits)


@pytest.mark.parametrize(
    "command",
    [
        f"apply_patch <<EOF\n{DELETION.replace('a.py', '$F')}\nEOF",
        f"apply_patch '{DELETION}' && ls",
        "apply_patch < fix.patch",
        "apply_patch",
        "git apply_patch x",
        "cd a && cd b && apply_patch x",
        f"X=1 apply_patch '{DELETION}'",
    ],
)
def test_a_command_that_does_more_than_give_a_patch_is_a_command(command: str) -> None:
    assert read("shell", command=command) == ShellCommand(command)


def test_a_patch_that_a_shell_is_given_and_that_does_not_parse_is_refused() -> None:
    action = read("shell", command=["apply_patch", "*** Begin Patch\nx\n*** End Patch"])
    assert isinstance(action, InvalidCall)
    assert action.reason == "bad_patch"


def test_a_raw_patch_for_a_tool_with_a_schema_is_not_json() -> None:
    action = normalise("apply_patch", PATCH, schema={"properties": {"input": {"type": "string"}}})
    assert isinstance(action, InvalidCall)
    assert action.reason == "not_json"


def test_a_patch_without_the_envelope_is_read_as_a_unified_diff() -> None:
    action = read("apply_diff", diff=DIFF)
    assert isinstance(action, Edit)
    assert isinstance(action.edits[0], Hunks)
    assert action.edits[0].path == "a.py"


def test_an_offset_counts_from_0_where_the_schema_says_so() -> None:
    schema = {
        "properties": {
            "file_path": {"type": "string"},
            "offset": {"type": "number", "description": "the 0-based line number to start reading from"},
        }
    }
    assert normalise("read_file", '{"file_path": "/a", "offset": 4, "limit": 2}', schema=schema) == ReadFile("/a", 5, 6)
    assert normalise("read_file", '{"file_path": "/a", "offset": 4, "limit": 2}') == ReadFile("/a", 4, 5)


def test_a_name_from_the_table_with_a_schema_of_its_own_means_nothing_to_us() -> None:
    schema = {"type": "object", "properties": {"invoice": {"type": "string"}}, "required": ["invoice"]}
    assert normalise("read", '{"invoice": "7"}', schema=schema) == OtherCall("read", {"invoice": "7"})


def test_opaque_reads_nothing_into_a_known_name() -> None:
    assert normalise_by_name("bash", '{"command": "ls"}') == OtherCall("bash", {"command": "ls"})
    assert isinstance(normalise_by_name("bash", "ls"), InvalidCall)


ALL_NAMES = [*sorted({name for group in NAMES.values() for name in group.split()}), "unknown"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 5) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
KEYS = st.sampled_from(sorted({key for keys in ROLES.values() for key in keys} | {"view_range", "offset", "edits"}))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(ALL_NAMES), st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_arguments_of_any_tool_are_an_action_or_malformed(name: str, arguments: dict[str, Any]) -> None:
    normalise(name, json.dumps(arguments))
    normalise(name, json.dumps(arguments), schema=arguments)


@pytest.mark.parametrize(
    ("said", "value", "seconds"),
    [
        ("Seconds after which it ends.", 2000, 2000),
        ("Timeout in milliseconds (max 600000)", 30, 0.03),
        ("in ms", 5000, 5),
        ("How long to wait", 30, 30),
        ("How long to wait", 30000, 30),
        (None, "45", 45),
    ],
)
def test_a_timeout_has_the_unit_that_the_schema_names(said: str | None, value: object, seconds: float) -> None:
    schema = {"properties": {"command": {"type": "string"}, "timeout": {"description": said}}}
    found = normalise("bash", json.dumps({"command": "ls", "timeout": value}), schema=schema)
    assert found == ShellCommand("ls", limits=CommandLimits(time_s=seconds))


def test_a_limit_that_is_no_number_is_compared_as_it_is() -> None:
    assert normalise("bash", '{"command": "ls", "timeout": "soon"}') == ShellCommand("ls", None, {"timeout": "soon"})
    assert normalise("bash", '{"command": "ls", "timeout": true}') == ShellCommand("ls", None, {"timeout": True})
