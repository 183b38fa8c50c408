"""Claims about known fixes played with the harness's own tools: whatever the change, the tree is the one after it."""

import os
import random
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from paddock.harness import SandboxWorkspace
from paddock.harness.native import NativeSettings
from paddock.harnesses.opencode import OpenCodeHarness
from paddock.types import Fix

Open = Callable[..., Awaitable[SandboxWorkspace]]
Tree = dict[str, str]
LINES = (
    "",
    "a",
    "b",
    "    return x",
    "  return x",
    "end",
    "x = '$& \\n'",
    "+++ b/x",
    "é “q”",
    "\ttab  ",
    "*** End Patch",
)
ENDS = ("\n", "\n", "\n", "\r\n")


def some_text(dice: random.Random) -> str:
    end = dice.choice(ENDS)
    lines = [
        dice.choice(LINES) + (dice.choice(ENDS) if dice.random() < 0.1 else end) for _ in range(dice.randrange(30))
    ]
    text = "".join(lines)
    mark = "\ufeff" if dice.random() < 0.1 else ""
    return mark + (text.rstrip("\r\n") if dice.random() < 0.3 else text)


def changed_text(dice: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(lines) + 1)
        lines[at : at + dice.randrange(3)] = [dice.choice(LINES) + dice.choice(ENDS) for _ in range(dice.randrange(3))]
    after = "".join(lines)
    return after.rstrip("\n") if dice.random() < 0.2 else after


def some_trees(dice: random.Random) -> tuple[Tree, Tree]:
    before = {f"{folder}f{number}.txt": some_text(dice) for number in range(4) for folder in ("", "d/", "d d/")}
    after: Tree = {}
    for path, text in before.items():
        match dice.randrange(6):
            case 0:
                continue
            case 1:
                after[f"moved/{path}"] = changed_text(dice, text) if dice.random() < 0.5 else text
            case 2 | 3:
                after[path] = changed_text(dice, text)
            case _:
                after[path] = text
    return before, after | {f"new/n{number}": some_text(dice) for number in range(dice.randrange(3))}


def patch_of(folder: Path, before: Tree, after: Tree) -> bytes:
    """What git says of two states of a repository."""
    folder.mkdir()
    git(folder, "init", "-q")
    for tree in (before, after):
        git(folder, "rm", "-q", "-r", "-f", "--ignore-unmatch", ".")
        for name, text in tree.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        git(folder, "add", "-A")
        if tree is before:
            git(folder, "commit", "-q", "-m", "before")
    return git(folder, "diff", "--cached", "--find-renames", "HEAD")


def git(folder: Path, *words: str) -> bytes:
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    author = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(["git", *author, *words], cwd=folder, env=env, check=True, capture_output=True).stdout


async def tree_of(workspace: SandboxWorkspace, folder: str) -> Tree:
    list_files = await workspace.exec(["find", folder, "-type", "f", "-print0"])
    paths = [path for path in list_files.output.decode().split("\0") if path]
    return {path.removeprefix(folder + "/"): (await workspace.read(path)).decode() for path in paths}


def played(fix: Fix, profile: str = "default") -> list[list[Any]]:
    return OpenCodeHarness(NativeSettings(profile=profile)).oracle(fix)


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 12), marks=pytest.mark.long)], ids=str)
@pytest.mark.parametrize("profile", ["default", "gpt"])
async def test_any_patch_of_text_gives_the_tree_after(
    profile: str, seeds: Sequence[int], open_workspace: Open, play: Any, tmp_path: Path
) -> None:
    workspace = await open_workspace()
    for seed in seeds:
        before, after = some_trees(random.Random(seed))
        folder = f"/work{seed}"
        for path, text in before.items():
            await workspace.write(f"{folder}/{path}", text.encode())
        fix = Fix(patch=patch_of(tmp_path / str(seed), before, after), workdir=folder, files=before)
        ran = await play(workspace, played(fix, profile), profile=profile)
        assert (ran.left.ended, ran.left.malformed) == ("finished", {})
        assert await tree_of(workspace, folder) == after, (seed, ran.results)


@pytest.mark.sandbox
@pytest.mark.parametrize("profile", ["default", "gpt"])
async def test_modes_and_empty_files_are_made_and_the_tests_are_run(
    profile: str, open_workspace: Open, play: Any
) -> None:
    workspace = await open_workspace()
    patch = (
        b"diff --git a/run.sh b/run.sh\nnew file mode 100755\n--- /dev/null\n+++ b/run.sh\n@@ -0,0 +1 @@\n+echo hi\n"
        b"diff --git a/empty b/empty\nnew file mode 100644\nindex 0000000..e69de29\n"
        b"diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 100755\n"
    )
    fix = Fix(patch=patch, workdir="/testbed", files={"a.txt": "a\n"}, test_command="./run.sh > said")
    ran = await play(workspace, played(fix, profile), profile=profile)
    assert ran.left.ended == "finished"
    assert await workspace.read("said") == b"hi\n"
    assert await workspace.read("empty") == b""
    modes = await workspace.exec(["stat", "-c", "%a", "run.sh", "empty", "a.txt"])
    assert modes.output.split() == [b"755", b"644", b"755"]


def test_an_oracle_is_pure_and_takes_four_turns_at_least() -> None:
    patch = b"diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
    fix = Fix(patch=patch, workdir="/w", files={"f": "a\n"}, test_command="make test")
    first, again = played(fix), played(fix)
    assert [strip(turn) for turn in first] == [strip(turn) for turn in again]
    assert len(first) >= 4
    assert first[-2][0]["name"] == "bash"
    assert "make test" in first[-2][0]["arguments"]
    assert first[-1][0]["type"] == "message"


def test_a_file_whose_text_is_not_known_is_edited_by_the_patchs_own_lines() -> None:
    patch = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -3,2 +3,2 @@\n kept\n-old\n+new\n"
    edits = [item for turn in played(Fix(patch=patch, workdir="/w")) for item in turn if item.get("name") == "edit"]
    assert [item["arguments"] for item in edits] == [
        '{"filePath":"/w/f","oldString":"kept\\nold\\n","newString":"kept\\nnew\\n"}'
    ]


def strip(turn: list[Any]) -> list[Any]:
    return [{name: value for name, value in item.items() if name not in ("id", "call_id")} for item in turn]
