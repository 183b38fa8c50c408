"""Claims about the profiles: tools are those of the real programs, and prompts are whole whatever tools are called."""

from typing import Any, NamedTuple

import pytest

from paddock.errors import ConfigError
from paddock.harness import Template
from paddock.harness.native import NativeSettings, load_profile
from paddock.harnesses.codeact import CodeActHarness

COMMANDS = ["view", "create", "str_replace", "insert", "undo_edit"]
RISKS = ["LOW", "MEDIUM", "HIGH"]
ALL_RISKS = ["UNKNOWN", *RISKS]
STATES = ["todo", "in_progress", "done"]


class ToolSchema(NamedTuple):
    """A tool: its parameters, by name, with type or choices, in order; and which must be given."""

    parameters: dict[str, Any]
    required: list[str] | None
    closed: bool = False
    """`additionalProperties` is false."""


EDITOR = {
    "command": COMMANDS,
    "path": "string",
    "file_text": "string",
    "old_str": "string",
    "new_str": "string",
    "insert_line": "integer",
    "view_range": ["array", "integer"],
}
BASH = ToolSchema(
    {"command": "string", "is_input": ["true", "false"], "timeout": "number", "security_risk": RISKS},
    ["command", "security_risk"],
)
V0_EDITOR = ToolSchema({**EDITOR, "security_risk": RISKS}, ["command", "path", "security_risk"])
FINISH = ToolSchema({"message": "string"}, ["message"])
THINK = ToolSchema({"thought": "string"}, ["thought"])
V0_TASK = ToolSchema(
    {"id": "string", "title": "string", "status": STATES, "notes": "string"}, ["title", "status", "id"], True
)
V1_TASK = ToolSchema({"title": "string", "notes": "string", "status": STATES}, ["title"])
SUMMARY = {"summary": "string"}
RISK = {"security_risk": ALL_RISKS, **SUMMARY}
TABLE: dict[str, dict[str, ToolSchema]] = {
    "default": {
        "execute_bash": BASH,
        "think": THINK,
        "finish": FINISH,
        "task_tracker": ToolSchema({"command": ["view", "plan"], "task_list": V0_TASK}, ["command"], True),
        "str_replace_editor": V0_EDITOR,
    },
    "minimal": {"execute_bash": BASH, "finish": FINISH, "str_replace_editor": V0_EDITOR},
    "openhands_1_58": {
        "terminal": ToolSchema(
            {**RISK, "command": "string", "is_input": "boolean", "timeout": "number", "reset": "boolean"}, ["command"]
        ),
        "file_editor": ToolSchema({**RISK, **EDITOR}, ["command", "path"]),
        "task_tracker": ToolSchema({**RISK, "command": ["view", "plan"], "task_list": V1_TASK}, None),
        "finish": ToolSchema({**SUMMARY, **FINISH.parameters}, ["message"]),
        "think": ToolSchema({**SUMMARY, **THINK.parameters}, ["thought"]),
    },
}


def schema_of(schema: Any) -> ToolSchema:
    assert schema["type"] == "object"
    assert set(schema) <= {"type", "properties", "required", "additionalProperties"}
    parameters = {name: _told(inner) for name, inner in schema["properties"].items()}
    return ToolSchema(parameters, schema.get("required"), schema.get("additionalProperties") is False)


def _told(schema: Any) -> Any:
    assert set(schema) <= {"type", "description", "enum", "items"}
    assert schema["description"]
    if "items" in schema:
        items = schema["items"]
        return ["array", items["type"]] if items["type"] != "object" else schema_of(items)
    return schema.get("enum", schema["type"])


def test_every_profile_has_its_tools_here() -> None:
    assert set(TABLE) == {file.stem for file in (CodeActHarness.folder() / "profiles").glob("*.json")}


@pytest.mark.parametrize("profile", TABLE)
def test_tools_have_the_names_and_parameters_of_the_program_in_its_order(profile: str) -> None:
    tools = load_profile(CodeActHarness.folder(), profile).tools
    assert [tool["name"] for tool in tools] == list(TABLE[profile])
    for tool in tools:
        expected = TABLE[profile][tool["name"]]
        found = schema_of(tool["parameters"])
        assert found == expected
        assert list(found.parameters) == list(expected.parameters)
        assert set(tool) == {"type", "name", "description", "parameters"}
        assert tool["type"] == "function"
        assert len(tool["description"]) > 150


@pytest.mark.parametrize("profile", TABLE)
def test_every_tool_has_an_executor(profile: str) -> None:
    harness = CodeActHarness(NativeSettings(profile=profile))
    assert all(hasattr(harness.TOOLBOX, f"t_{name}") for name in harness.own_tools)


@pytest.mark.parametrize("profile", TABLE)
def test_prompts_call_tools_by_their_shown_names_and_by_no_other(profile: str) -> None:
    harness = CodeActHarness(NativeSettings(profile=profile))
    names = {name: f"Shown_{number}_" for number, name in enumerate(harness.own_tools)}
    visible = {"problem_statement": "It breaks.", "language": "Python"}
    system = Template(harness.prompts.system or "", "system").render(visible, "/repo", names)
    user = Template(harness.prompts.user, "user").render(visible, "/repo", names)
    assert all(shown in system for shown in names.values())
    known = {name for tools in TABLE.values() for name in tools} - {"finish", "think", "terminal"}
    assert not [name for name in known if name in system + user]
    assert not [name for name in known | {"finish"} if f"`{name}`" in system + user]
    assert 5_000 < len(system) < 12_000
    assert "It breaks." in user
    assert "/repo" in user


def test_an_option_that_there_is_not_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="no_change_timeout"):
        CodeActHarness(NativeSettings(options={"no_change_timeout": 3}))
