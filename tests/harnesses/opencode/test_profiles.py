"""Claims about what the harness shows a model: names and types as the program has them, prompts that never differ."""

from typing import Any

import pytest

from paddock.harness import Template
from paddock.harness.native import NativeSettings
from paddock.harnesses.opencode import OpenCodeHarness

SHAPES: dict[str, dict[str, dict[str, str]]] = {
    "default": {
        "bash": {"command": "string!", "timeout": "integer >0", "workdir": "string"},
        "edit": {"filePath": "string!", "oldString": "string!", "newString": "string!", "replaceAll": "boolean"},
        "glob": {"pattern": "string!", "path": "string"},
        "grep": {"pattern": "string!", "path": "string", "include": "string"},
        "read": {"filePath": "string!", "offset": "integer >=0", "limit": "integer >=0"},
        "todowrite": {"todos": "array! of content: string!, status: string!, priority: string!"},
        "write": {"content": "string!", "filePath": "string!"},
    },
    "gpt": {
        "apply_patch": {"patchText": "string!"},
        "bash": {"command": "string!", "timeout": "integer >0", "workdir": "string"},
        "glob": {"pattern": "string!", "path": "string"},
        "grep": {"pattern": "string!", "path": "string", "include": "string"},
        "read": {"filePath": "string!", "offset": "integer >=0", "limit": "integer >=0"},
        "todowrite": {"todos": "array! of content: string!, status: string!, priority: string!"},
    },
}


def shape(schema: Any) -> dict[str, str]:
    """Types of an object's properties; `!`: it is required."""
    return {
        name: f"{inner['type']}{'!' if name in schema['required'] else ''}{more(inner)}"
        for name, inner in schema["properties"].items()
    }


def more(inner: Any) -> str:
    if "items" in inner:
        return " of " + ", ".join(f"{name}: {kind}" for name, kind in shape(inner["items"]).items())
    if "exclusiveMinimum" in inner:
        return f" >{inner['exclusiveMinimum']}"
    return f" >={inner['minimum']}" if "minimum" in inner else ""


def test_every_profile_has_its_tools_here() -> None:
    assert set(SHAPES) == {file.stem for file in (OpenCodeHarness.folder() / "profiles").glob("*.json")}


@pytest.mark.parametrize("profile", sorted(SHAPES))
def test_tools_have_the_programs_names_order_parameters_and_types(profile: str) -> None:
    tools = OpenCodeHarness(NativeSettings(profile=profile)).profile.tools
    assert [(tool["name"], shape(tool["parameters"])) for tool in tools] == list(SHAPES[profile].items())
    assert all(list(shape(tool["parameters"])) == list(SHAPES[profile][str(tool["name"])]) for tool in tools)
    assert all(tool["type"] == "function" and tool["description"] for tool in tools)
    limits = [
        inner["maximum"]
        for tool in tools
        for inner in tool["parameters"]["properties"].values()
        if inner["type"] == "integer"
    ]
    assert set(limits) == {2**53 - 1}


@pytest.mark.parametrize("profile", sorted(SHAPES))
def test_prompts_name_the_tools_as_they_are_shown_and_the_place_but_no_date(profile: str) -> None:
    harness = OpenCodeHarness(NativeSettings(profile=profile))
    shown = {name: f"<{name}>" for name in harness.own_tools}
    assert harness.prompts.system is not None
    system = Template(harness.prompts.system, "system").render({}, "/testbed", shown)
    user = Template(harness.prompts.user, "user").render({"problem_statement": "It is slow."}, "/testbed", shown)
    assert "<env>\n  Working directory: /testbed\n" in system
    assert "Platform: linux" in system
    assert "date" not in system.lower().replace("update", "")
    assert {name for name in shown if f"<{name}>" in system} == set(shown)
    assert user.strip() == "It is slow."


def test_an_option_of_the_profile_can_be_changed() -> None:
    harness = OpenCodeHarness(NativeSettings(options={"read_lines": 5}))
    assert harness.profile.options["read_lines"] == 5
    assert harness.profile.options["read_bytes"] == 51200
