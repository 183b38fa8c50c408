"""Claims about the oracle: its calls, run by the harness's own tools, make of a tree the tree that the fix makes."""

import io
import os
import random
import subprocess
import tarfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from paddock.harness import SandboxWorkspace
from paddock.harness.native import NativeSettings
from paddock.harnesses.codeact import CodeActHarness
from paddock.types import Fix, JsonObject

Tools = Callable[..., Awaitable[Callable[..., Awaitable[str]]]]
Open = Callable[..., Awaitable[SandboxWorkspace]]
LINES = ("", "a", "b", "  a", "end", "x = 1", "é → 😀", "\tt\f", "return None", "a b")
NAMES = ("f", "d/g.py", "d/e/h", "with space", "d/it's", "z")


class FixFile(NamedTuple):
    text: str
    executable: bool = False


Tree = dict[str, FixFile]


def drawn(random_: random.Random) -> tuple[Tree, Tree]:
    """A tree before and one after: files that come, go, move and change."""
    before = {name: FixFile(_text(random_), random_.random() < 0.2) for name in NAMES if random_.random() < 0.7}
    after: Tree = {}
    for name, file in before.items():
        match random_.choice(("keep", "change", "change", "change", "mode", "move", "delete", "rewrite")):
            case "keep":
                after[name] = file
            case "change":
                after[name] = file._replace(text=_changed(random_, file.text))
            case "mode":
                after[name] = file._replace(executable=not file.executable)
            case "move":
                after[f"moved/{name}"] = file._replace(text=_changed(random_, file.text, small=True))
            case "rewrite":
                after[name] = file._replace(text=_text(random_))
    if random_.random() < 0.5:
        after["new/n.txt"] = FixFile(_text(random_), random_.random() < 0.3)
    return before, after


def _text(random_: random.Random) -> str:
    lines = [random_.choice(LINES) for _ in range(random_.randrange(25))]
    end = random_.choice(("\n", "\n", "\n", "\r\n"))
    text = "".join(line + end for line in lines)
    return text if random_.random() < 0.7 else text.removesuffix("\n").removesuffix("\r")


def _changed(random_: random.Random, text: str, *, small: bool = False) -> str:
    lines = text.splitlines(keepends=True)
    for _ in range(1 if small else random_.randrange(1, 4)):
        at = random_.randrange(len(lines) + 1)
        lines[at : at + random_.randrange(2)] = [random_.choice(LINES) + "\n"] * random_.randrange(1, 3)
    return "".join(lines)


def diff(folder: Path, before: Tree, after: Tree) -> bytes:
    """What git says of two trees."""
    folder.mkdir(parents=True)
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}

    def git(*words: str) -> bytes:
        done = subprocess.run(["git", *words], cwd=folder, env=environment, check=True, stdout=subprocess.PIPE)
        return done.stdout

    git("init", "-q", ".")
    trees = []
    for tree in (before, after):
        git("rm", "-rqf", "--ignore-unmatch", ".")
        for name, file in tree.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.text.encode())
            path.chmod(0o755 if file.executable else 0o644)
        git("add", "-A")
        trees.append(git("write-tree").decode().strip())
    return git("diff", "--find-renames", *trees)


async def lay_out(space: SandboxWorkspace, root: str, tree: Tree) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, file in tree.items():
            member = tarfile.TarInfo(name)
            data = file.text.encode()
            member.size, member.mode = len(data), 0o755 if file.executable else 0o644
            tar.addfile(member, io.BytesIO(data))
    script = f"mkdir {root}; cd {root}; busybox tar xf -"
    assert (await space.exec(["sh", "-c", script], stdin=packed.getvalue())).exit_code == 0


async def read_back(space: SandboxWorkspace, root: str) -> Tree:
    done = await space.exec(["sh", "-c", f"cd {root} && busybox tar cf - ."])
    tree: Tree = {}
    with tarfile.open(fileobj=io.BytesIO(done.output)) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if content is not None:
                tree[member.name.removeprefix("./")] = FixFile(content.read().decode(), bool(member.mode & 0o100))
    return tree


def calls(turns: list[list[JsonObject]]) -> list[tuple[str, dict[str, Any]]]:
    return [(item["name"], orjson.loads(item["arguments"])) for turn in turns for item in turn]


async def play(call: Callable[..., Awaitable[str]], turns: list[list[JsonObject]]) -> list[str]:
    said = []
    for name, arguments in calls(turns):
        answer = await call(name, **arguments)
        if not name.endswith("editor"):
            assert "[Command finished with exit code" not in answer or "exit code 0]" in answer, (arguments, answer)
        else:
            assert not answer.startswith(("ERROR", "[An error")), (arguments, answer)
        said.append(answer)
    return said


async def _check(call: Any, space: SandboxWorkspace, folder: Path, seed: int, profile: str) -> None:
    before, after = drawn(random.Random(seed))
    patch = diff(folder, before, after)
    if not patch:
        assert before == after
        return
    root = f"/testbed/tree{seed}"
    files = {name: file.text for name, file in before.items()}
    turns = CodeActHarness(NativeSettings(profile=profile)).oracle(Fix(patch=patch, workdir=root, files=files))
    await lay_out(space, root, before)
    await play(call, turns)
    assert await read_back(space, root) == after, f"seed {seed}"


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.parametrize(("profile", "seeds"), [("default", range(12)), ("openhands_1_58", range(12, 15))])
async def test_the_oracle_turns_a_tree_into_the_one_that_the_fix_makes(
    open_workspace: Open, open_tools: Tools, tmp_path: Path, profile: str, seeds: range
) -> None:
    space = await open_workspace()
    call = await open_tools(profile, space, says_python=False)
    for seed in seeds:
        await _check(call, space, tmp_path / str(seed), seed, profile)


@pytest.mark.slow
@pytest.mark.sandbox
async def test_the_oracle_turns_many_trees_into_those_that_fixes_make(
    open_workspace: Open, open_tools: Tools, tmp_path: Path
) -> None:
    space = await open_workspace()
    call = await open_tools("default", space)
    for seed in range(100, 160):
        await _check(call, space, tmp_path / str(seed), seed, "default")


@pytest.mark.slow
@pytest.mark.sandbox
async def test_a_file_of_unknown_text_is_changed_by_its_hunks(open_workspace: Open, open_tools: Tools) -> None:
    space = await open_workspace()
    call = await open_tools("default", space)
    before = "".join(f"line {number}\r\n" for number in range(9))
    await space.write("crlf.txt", before.encode())
    patch = (
        b"diff --git a/crlf.txt b/crlf.txt\n--- a/crlf.txt\n+++ b/crlf.txt\n@@ -3,3 +3,3 @@\n"
        b" line 2\r\n-line 3\r\n+line three\r\n line 4\r\n"
        b"diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,3 @@\n one\n+and a half\n two\n"
    )
    await play(call, CodeActHarness(NativeSettings()).oracle(Fix(patch=patch, workdir="/testbed")))
    assert (await space.read("crlf.txt")).decode() == before.replace("line 3", "line three")
    assert await space.read("a.txt") == b"one\nand a half\ntwo\n"


def test_the_oracle_looks_edits_tests_and_finishes_and_is_pure() -> None:
    patch = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"
    fix = Fix(patch=patch, workdir="/w", files={"f": "a\n"}, test_command="make\nmake test")
    harness = CodeActHarness(NativeSettings())
    risk = {"security_risk": "LOW"}
    assert calls(harness.oracle(fix)) == [
        ("str_replace_editor", {"command": "view", "path": "/w", **risk}),
        ("str_replace_editor", {"command": "view", "path": "/w/f", **risk}),
        ("str_replace_editor", {"command": "str_replace", "path": "/w/f", "old_str": "a\n", "new_str": "b\n", **risk}),
        ("execute_bash", {"command": "bash -c 'make\nmake test'", "timeout": 600, **risk}),
        ("finish", {"message": "The change is made, and I have run the tests."}),
    ]
    assert calls(harness.oracle(fix)) == calls(harness.oracle(fix))


def test_a_path_may_be_freed_and_used_again() -> None:
    patch = (
        b"diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n"
        b"diff --git a/b b/c\nsimilarity index 100%\nrename from b\nrename to c\n"
    )
    made = calls(CodeActHarness(NativeSettings()).oracle(Fix(patch=patch, workdir="/w")))
    lines = [arguments["command"] for name, arguments in made if name == "execute_bash"]
    assert lines == ["mkdir -p /w && mv /w/b /w/c", "mkdir -p /w && mv /w/a /w/b", "true"]
