"""Claims that the executors answer as the real program does, case by case; and that the program still answers so.

Arguments that are no JSON, or not those of the tool, are refused as in the program, with the key or the position; in
other words.
"""

import json
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from paddock.harness import SandboxWorkspace
from paddock.harnesses.opencode.errors import ToolError
from paddock.harnesses.opencode.text_edit import edited_text
from paddock.testing.sandboxes import WORKDIR
from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item

BINARY = os.environ.get("PADDOCK_OPENCODE")
Open = Callable[..., Awaitable[SandboxWorkspace]]
Table = Callable[[str], JsonObject]


def test_every_edit_of_a_text_comes_out_as_recorded(table: Table) -> None:
    cases = [case for case in table("edits")["cases"] if case.get("files") and case["arguments"]["oldString"]]
    assert len(cases) > 100
    for case in cases:
        ((path, before),) = case["files"].items()
        given = case["arguments"]
        try:
            after = edited_text(
                before, given["oldString"], given["newString"], replace_all=given.get("replaceAll", False)
            )
            told = "Edit applied successfully."
        except ToolError as error:
            after, told = before, str(error)
        assert (told, after) == (case["result"], case["after"].get(path, before)), case["name"]


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("name", "profile"),
    [("edits", "default"), pytest.param("calls", "default", marks=pytest.mark.long), ("patches", "gpt")],
)
async def test_every_call_is_answered_as_recorded(
    name: str, profile: str, table: Table, recorder: ModuleType, open_workspace: Open, play: Any
) -> None:
    cases = table(name)["cases"]
    workspace = await open_workspace()
    folders = [f"{WORKDIR}/{name}{index:03d}" for index in range(len(cases))]
    await workspace.exec(["mkdir", *folders])
    for case, folder in zip(cases, folders, strict=True):
        await put(workspace, case, folder)
    turns = [[item(case, folder)] for case, folder in zip(cases, folders, strict=True)]
    ran = await play(workspace, [*turns, [message_item("Done.")]], profile=profile)
    found = await files_of(workspace, folders)
    wrong = {}
    for case, folder, result in zip(cases, folders, ran.results, strict=True):
        told = recorder.told(result, folder, WORKDIR)
        now = found[folder]
        before = case.get("files", {})
        after = {path: now.get(path) for path in {*before, *now} if before.get(path) != now.get(path)}
        after = {path: None if text is None else recorder.short(text) for path, text in after.items()}
        if not (recorder.same(case, told) or says_the_same(case["result"], result)) or after != case["after"]:
            wrong[case["name"]] = {"told": told, "recorded": case["result"], "after": after, "then": case["after"]}
    assert not wrong


def says_the_same(recorded: str, result: str) -> bool:
    """Whether both refuse the same arguments, by the same key or because they are no JSON."""
    if "\nError message: JSON Parse error: " in recorded:
        heading, _, detail = result.partition("\nError message: ")
        return heading == recorded.partition("\nError message: ")[0] and ("column" in detail or "NaN" in detail)
    heading, _, problem = recorded.partition("SchemaError(")
    path = re.search(r"\n  at (\S+)\)\.\n", problem)
    named = re.findall(r'"(\w+)"', path[1]) if path else ["not an object"]
    detail = result.removeprefix(heading)
    return problem != "" and result.startswith(heading) and all(name in detail for name in named)


async def put(workspace: SandboxWorkspace, case: JsonObject, folder: str) -> None:
    for path, text in case.get("files", {}).items():
        await workspace.write(f"{folder}/{path}", text.encode())
    if "setup" in case:
        done = await workspace.exec(["bash", "-c", f"cd {folder}; {case['setup']}"])
        assert done.exit_code == 0, done


def item(case: JsonObject, folder: str) -> JsonObject:
    given = case["arguments"]
    raw = given if isinstance(given, str) else json.dumps(given)
    return call_item(case["tool"], raw.replace("{dir}", folder))


async def files_of(workspace: SandboxWorkspace, folders: Sequence[str]) -> dict[str, dict[str, str]]:
    """Texts by path, of each folder."""
    found: dict[str, dict[str, str]] = {folder: {} for folder in folders}
    list_files = await workspace.exec(["find", *folders, "-xtype", "f"])
    for line in list_files.output.decode().splitlines():
        folder = f"{WORKDIR}/{line.removeprefix(WORKDIR).split('/')[1]}"
        text = (await workspace.read(line)).decode("utf-8", "backslashreplace")
        found[folder][line.removeprefix(folder + "/")] = text
    return found


@pytest.mark.timeout(600)
@pytest.mark.skipif(BINARY is None, reason="PADDOCK_OPENCODE names no binary of opencode")
@pytest.mark.skipif(shutil.which("rg") is None, reason="no ripgrep on the path")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("edits", marks=pytest.mark.long),
        pytest.param("calls", marks=pytest.mark.long),
        pytest.param("patches", marks=pytest.mark.long),
    ],
)
def test_the_program_still_answers_as_recorded(name: str, table: Table, recorder: ModuleType, tmp_path: Path) -> None:
    assert BINARY is not None
    listed = table(name)
    (now,) = recorder.record(BINARY, [listed], tmp_path)
    differing = [
        (case["name"], case["result"], again["result"])
        for case, again in zip(listed["cases"], now["cases"], strict=True)
        if not recorder.same(case, again["result"]) or case["after"] != again["after"]
    ]
    assert not differing
