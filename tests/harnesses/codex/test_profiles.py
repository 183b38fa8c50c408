"""Claims about what the model is shown: names, types, order and required lists are the real ones; prompts are plain."""

from typing import Any

import pytest

from paddock.harness.native import NativeSettings
from paddock.harness.prompts import Template
from paddock.harnesses.codex import CodexHarness

PLAN = {"explanation": "string", "plan": "array"}
ESCALATED = {"justification": "string", "timeout_ms": "number", "with_escalated_permissions": "boolean"}
SHOWN: dict[str, list[tuple[str, dict[str, str] | None, list[str]]]] = {
    "default": [
        (
            "exec_command",
            {
                "cmd": "string",
                "justification": "string",
                "login": "boolean",
                "max_output_tokens": "number",
                "prefix_rule": "array",
                "sandbox_permissions": "string",
                "shell": "string",
                "tty": "boolean",
                "workdir": "string",
                "yield_time_ms": "number",
            },
            ["cmd"],
        ),
        (
            "write_stdin",
            {"chars": "string", "max_output_tokens": "number", "session_id": "number", "yield_time_ms": "number"},
            ["session_id"],
        ),
        ("update_plan", PLAN, ["plan"]),
        ("apply_patch", None, []),
    ],
    "codex_0_63": [
        ("shell_command", {"command": "string", **ESCALATED, "workdir": "string"}, ["command"]),
        ("update_plan", PLAN, ["plan"]),
        ("apply_patch", None, []),
    ],
    "gpt_oss": [
        ("shell", {"command": "array", **ESCALATED, "workdir": "string"}, ["command"]),
        ("update_plan", PLAN, ["plan"]),
        ("apply_patch", {"input": "string"}, ["input"]),
    ],
}
SHOWN["functions"] = [*SHOWN["default"][:3], SHOWN["gpt_oss"][2]]


def harness(profile: str) -> CodexHarness:
    return CodexHarness(NativeSettings(profile=profile))


def test_every_profile_has_its_tools_here() -> None:
    assert set(SHOWN) == {file.stem for file in (CodexHarness.folder() / "profiles").glob("*.json")}


@pytest.mark.parametrize("profile", SHOWN)
def test_tools_are_shown_with_the_real_names_types_and_required_lists(profile: str) -> None:
    tools = harness(profile).profile.tools
    shown: list[Any] = []
    for tool in tools:
        if tool["type"] == "custom":
            shown.append((tool["name"], None, []))
            continue
        schema: Any = tool["parameters"]
        assert (tool["strict"], schema["type"], schema["additionalProperties"]) == (False, "object", False)
        types = {name: field["type"] for name, field in schema["properties"].items()}
        shown.append((tool["name"], types, schema["required"]))
        assert list(types) == sorted(types)
    assert shown == SHOWN[profile]
    assert all(tool["description"] for tool in tools)


@pytest.mark.parametrize("profile", SHOWN)
def test_steps_of_a_plan_and_permissions_have_the_real_choices(profile: str) -> None:
    tools: dict[Any, Any] = {tool["name"]: tool.get("parameters") for tool in harness(profile).profile.tools}
    item = tools["update_plan"]["properties"]["plan"]["items"]
    assert (sorted(item["properties"]), item["required"], item["additionalProperties"]) == (
        ["status", "step"],
        ["step", "status"],
        False,
    )
    if "exec_command" in tools:
        assert item["properties"]["status"]["enum"] == ["pending", "in_progress", "completed"]
        permissions = tools["exec_command"]["properties"]["sandbox_permissions"]
        assert permissions["enum"] == ["use_default", "require_escalated"]
        assert tools["exec_command"]["properties"]["prefix_rule"]["items"] == {"type": "string"}


@pytest.mark.parametrize("profile", SHOWN)
def test_prompts_name_the_tools_by_their_shown_names_and_show_folder_shell_and_problem(profile: str) -> None:
    one = harness(profile)
    shown = {name: f"My_{name}" for name in one.own_tools}
    visible = {"problem_statement": "It is broken."}
    assert one.prompts.system is not None
    system = Template(one.prompts.system, "system").render(visible, "/testbed", shown)
    user = Template(one.prompts.user, "user").render(visible, "/testbed", shown)
    for name in shown.values():
        assert f"`{name}`" in system
    assert "/testbed" not in system
    assert "<cwd>/testbed</cwd>" in user
    assert "<shell>bash</shell>" in user
    assert user.rstrip().endswith("It is broken.")
    assert "date" not in user
