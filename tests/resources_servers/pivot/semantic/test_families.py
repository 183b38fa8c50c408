"""Each family of harnesses by its own tools and schemas: one example kept, one lost, one refused, per tool."""

from collections.abc import Callable
from typing import Any

import pytest

from paddock.types import JsonObject

TEXT: JsonObject = {"type": "string"}
NUMBER: JsonObject = {"type": "number"}
FLAG: JsonObject = {"type": "boolean"}
RISK: JsonObject = {"type": "string", "enum": ["LOW", "MEDIUM", "HIGH"]}


def tool(name: str, required: str, *, closed: bool = False, **properties: JsonObject) -> JsonObject:
    parameters = {"type": "object", "properties": properties, "required": required.split()}
    return {
        "type": "function",
        "name": name,
        "parameters": parameters | ({"additionalProperties": False} if closed else {}),
    }


def steps(**item: JsonObject) -> JsonObject:
    return {"type": "array", "items": {"type": "object", "properties": item, "required": list(item)}}


OPENHANDS = [
    tool("execute_bash", "command security_risk", command=TEXT, timeout=NUMBER, security_risk=RISK),
    tool(
        "str_replace_editor",
        "command path security_risk",
        command={"type": "string", "enum": ["view", "create", "str_replace", "insert", "undo_edit"]},
        path=TEXT,
        file_text=TEXT,
        old_str=TEXT,
        new_str=TEXT,
        insert_line={"type": "integer"},
        view_range={"type": "array", "items": {"type": "integer"}},
        security_risk=RISK,
    ),
    tool("think", "thought", thought=TEXT),
    tool("finish", "message", message=TEXT),
    tool("task_tracker", "command", closed=True, command=TEXT, task_list=steps(id=TEXT, title=TEXT, status=TEXT)),
]
CODEX = [
    tool(
        "exec_command", "cmd", closed=True, cmd=TEXT, workdir=TEXT, tty=FLAG, yield_time_ms=NUMBER, justification=TEXT
    ),
    tool("write_stdin", "session_id", closed=True, session_id=NUMBER, chars=TEXT, yield_time_ms=NUMBER),
    tool("update_plan", "plan", closed=True, plan=steps(step=TEXT, status=TEXT), explanation=TEXT),
    tool("read_file", "file_path", closed=True, file_path=TEXT, offset=NUMBER, limit=NUMBER),
    tool("list_dir", "dir_path", closed=True, dir_path=TEXT, offset=NUMBER, limit=NUMBER, depth=NUMBER),
    tool("grep_files", "pattern", closed=True, pattern=TEXT, include=TEXT, path=TEXT, limit=NUMBER),
    {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "..."}},
]
OPENCODE = [
    tool("bash", "command", command=TEXT, timeout={"type": "integer"}, workdir=TEXT),
    tool("read", "filePath", filePath=TEXT, offset={"type": "integer"}, limit={"type": "integer"}),
    tool("edit", "filePath oldString newString", filePath=TEXT, oldString=TEXT, newString=TEXT, replaceAll=FLAG),
    tool("write", "filePath content", filePath=TEXT, content=TEXT),
    tool("grep", "pattern", pattern=TEXT, path=TEXT, include=TEXT),
    tool("glob", "pattern", pattern=TEXT, path=TEXT),
    tool("todowrite", "todos", todos=steps(content=TEXT, status=TEXT, priority=TEXT)),
]


def edit_text(new: str) -> str:
    return f"*** Begin Patch\n*** Update File: /r/a.py\n@@\n-x = 1\n+{new}\n*** End Patch\n"


LOW = {"security_risk": "LOW"}
REPLACE = {"command": "str_replace", "path": "/r/a.py", "old_str": "x = 1", "new_str": "x = 2", **LOW}
VIEW = {"command": "view", "path": "/r/a.py", "view_range": [10, 50], **LOW}
OC_EDIT = {"filePath": "/r/a.py", "oldString": "x = 1", "newString": "x = 2"}
TRACK = {"command": "plan", "task_list": [{"id": "1", "title": "look", "status": "todo"}]}
TODO = {"content": "look", "status": "pending", "priority": "high"}
FAMILIES: list[tuple[list[JsonObject], str, Any, Any, Any, Any]] = [
    # tools, name, expected, the same, another, refused
    (
        OPENHANDS,
        "execute_bash",
        {"command": "ls -la", **LOW},
        {"command": "ls -al", "timeout": 9, "security_risk": "HIGH"},
        {"command": "ls -R", **LOW},
        {"command": "ls -la"},
    ),
    (
        OPENHANDS,
        "str_replace_editor",
        REPLACE,
        {**REPLACE, "path": "/r/./a.py", "security_risk": "MEDIUM"},
        {**REPLACE, "new_str": "x = 3"},
        {**REPLACE, "command": "replace"},
    ),
    (
        OPENHANDS,
        "str_replace_editor",
        VIEW,
        {**VIEW, "view_range": [8, 52]},
        {**VIEW, "view_range": [60, 90]},
        {**VIEW, "view_range": ["10", "50"]},
    ),
    (OPENHANDS, "think", {"thought": "a"}, {"thought": "b"}, None, {}),
    (OPENHANDS, "finish", {"message": "a"}, {"message": "b"}, None, {"message": None}),
    (
        OPENHANDS,
        "task_tracker",
        TRACK,
        {**TRACK, "task_list": [{"id": "x", "title": "do", "status": "done"}] * 2},
        {"command": "view"},
        {**TRACK, "task_list": [{"title": "look"}]},
    ),
    (
        CODEX,
        "exec_command",
        {"cmd": "ls -la", "workdir": "/r"},
        {"cmd": "cd /r && ls -al", "yield_time_ms": 250, "tty": False},
        {"cmd": "ls -la", "workdir": "/r/src"},
        {"command": "ls -la", "workdir": "/r"},
    ),
    (
        CODEX,
        "write_stdin",
        {"session_id": 7, "chars": "q\n"},
        {"session_id": 7, "chars": "q\n", "yield_time_ms": 500},
        {"session_id": 7},
        {"session_id": "7", "chars": "q\n"},
    ),
    (
        CODEX,
        "update_plan",
        {"plan": [{"step": "look", "status": "pending"}]},
        {"plan": [{"step": "see", "status": "in_progress"}], "explanation": "next"},
        {"plan": []},
        {"plan": [{"step": "look"}]},
    ),
    (
        CODEX,
        "read_file",
        {"file_path": "/r/a.py", "offset": 10, "limit": 40},
        {"file_path": "/r/a.py", "offset": 9, "limit": 45},
        {"file_path": "/r/a.py", "offset": 100, "limit": 40},
        {"file_path": "/r/a.py", "start": 10, "end": 50},
    ),
    (
        CODEX,
        "list_dir",
        {"dir_path": "/r"},
        {"dir_path": "/r/", "depth": 2},
        {"dir_path": "/r", "depth": 4},
        {"path": "/r"},
    ),
    (
        CODEX,
        "grep_files",
        {"pattern": "def f", "path": "/r/src"},
        {"pattern": "def f", "path": "/r/src/", "limit": 100},
        {"pattern": "def g", "path": "/r/src"},
        {"pattern": "", "path": "/r/src"},
    ),
    (
        CODEX,
        "apply_patch",
        {"input": edit_text("x = 2")},
        edit_text("x = 2").replace("/r/a.py", "/r/./a.py"),
        edit_text("x = 3"),
        edit_text("x = 2").replace("*** End Patch", ""),
    ),
    (
        OPENCODE,
        "bash",
        {"command": "ls -la"},
        {"command": "ls -l -a", "timeout": 10000},
        {"command": "ls -la /"},
        {"command": ["ls", "-la"]},
    ),
    (
        OPENCODE,
        "read",
        {"filePath": "/r/a.py"},
        {"filePath": "/r/a.py", "limit": 2000},
        {"filePath": "/r/a.py", "limit": 20},
        {"path": "/r/a.py"},
    ),
    (
        OPENCODE,
        "edit",
        OC_EDIT,
        {**OC_EDIT, "replaceAll": False},
        {**OC_EDIT, "replaceAll": True},
        {**OC_EDIT, "newString": "x = 1"},
    ),
    (
        OPENCODE,
        "write",
        {"filePath": "/r/a.py", "content": "x = 1\n"},
        {"filePath": "/r/a.py", "content": "x = 1"},
        {"filePath": "/r/a.py", "content": "x = 2\n"},
        {"filePath": "/r/a.py"},
    ),
    (
        OPENCODE,
        "grep",
        {"pattern": "def f", "include": "*.py"},
        {"pattern": "def f", "include": "*.py", "path": "."},
        {"pattern": "def f", "include": "*.ts"},
        {"pattern": "def f", "include": ["*.py"]},
    ),
    (
        OPENCODE,
        "glob",
        {"pattern": "**/*.py", "path": "/r"},
        {"pattern": "**/*.py", "path": "/r/"},
        {"pattern": "*.py", "path": "/r"},
        {"path": "/r"},
    ),
    (
        OPENCODE,
        "todowrite",
        {"todos": [TODO]},
        {"todos": [{**TODO, "content": "see", "status": "completed"}]},
        {"todos": []},
        {"todos": [{"content": "look"}]},
    ),
]
REFUSALS = {"not_json", "missing_argument", "wrong_type", "wrong_value", "unknown_argument", "bad_patch"}


@pytest.mark.parametrize(("tools", "name", "expected", "same", "another", "refused"), FAMILIES)
def test_a_familys_call_is_kept_lost_or_refused(
    score: Callable[..., Any], tools: list[JsonObject], name: str, expected: Any, same: Any, another: Any, refused: Any
) -> None:
    kept = score((name, expected), (name, same), tools=tools)
    assert (kept.reward, kept.reason) == (1.0, "match"), kept.detail
    if another is not None:
        assert score((name, expected), (name, another), tools=tools).reward == 0.0
    found = score((name, expected), (name, refused), tools=tools)
    assert (found.reward, found.reason in REFUSALS) == (0.0, True), found.reason
