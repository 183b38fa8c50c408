"""Claims about the oracle: played with the harness's own tools in a real sandbox, it leaves the tree of the fix."""

import json
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from paddock.harness import SandboxWorkspace
from paddock.harness.native import NativeSettings
from paddock.harnesses.codex import CodexHarness
from paddock.sandbox import Provider
from paddock.testing.sandboxes import WORKDIR
from paddock.types import Fix, JsonObject

GIT = ("git", "-c", "core.autocrlf=false", "-c", "core.safecrlf=false", "-c", "diff.renames=true")
PROFILES = ("default", "functions", "codex_0_63", "gpt_oss")


class CodexFixFile(NamedTuple):
    text: str
    runs: bool = False


Tree = dict[str, CodexFixFile]


def fix_of(before: Tree, after: Tree, place: Path, *, known: bool = True) -> Fix:
    """By a real git diff."""
    for name, tree in (("a", before), ("b", after)):
        shutil.rmtree(place / name, ignore_errors=True)
        for path, file in tree.items():
            (place / name / path).parent.mkdir(parents=True, exist_ok=True)
            (place / name / path).write_bytes(file.text.encode())
            (place / name / path).chmod(0o755 if file.runs else 0o644)
        (place / name).mkdir(exist_ok=True)
    subprocess.run([*GIT, "init", "-q", place / "r"], check=True)
    for name in ("a", "b"):
        words = [*GIT, f"--git-dir={place}/r/.git", f"--work-tree={place}/{name}"]
        subprocess.run([*words, "add", "-A"], cwd=place / name, check=True, capture_output=True)
        commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", name]
        subprocess.run([*words, *commit], cwd=place / name, check=True)
    diff = [*GIT, f"--git-dir={place}/r/.git", "diff", "-M", "HEAD~1", "HEAD"]
    patch = subprocess.run(diff, check=True, capture_output=True).stdout
    shutil.rmtree(place / "r")
    files = {path: file.text for path, file in before.items() if after.get(path) != file} if known else {}
    return Fix(patch=patch, workdir=WORKDIR, files=files, test_command="echo tested")


class FixBench:
    """Trees in folders of one sandbox."""

    def __init__(self, provider: Provider, codex: Any) -> None:
        self._provider = provider
        self._codex = codex
        self._count = 0

    async def play(self, before: Tree, fix: Fix, profile: str = "default") -> tuple[Tree, list[str]]:
        self._count += 1
        folder = f"{WORKDIR}/t{self._count}"
        space = SandboxWorkspace(self._provider, self._provider.live()[0].sandbox_id, workdir=folder)
        root = SandboxWorkspace(self._provider, self._provider.live()[0].sandbox_id, workdir=WORKDIR)
        # The image's own programs are few; what is there stays.
        made = await root.exec(["sh", "-c", f"mkdir {folder}; busybox --install -s /usr/bin; command -v chmod mv rm"])
        assert made.output.count(b"/") >= 3, made
        for path, file in before.items():
            await space.write(path, file.text.encode())
        runs = [path for path, file in before.items() if file.runs]
        if runs:
            await space.exec(["chmod", "+x", "--", *runs])
        commit = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m a"
        await space.exec(["sh", "-c", f"git init -q . && git add -A && {commit}"])
        call = self._codex(profile, on=space)
        said = [await played(call, item) for turn in turns_of(fix, profile) for item in turn]
        listed = await space.exec(["find", ".", "-path", "./.git", "-prune", "-o", "-type", "f", "-print0"])
        names = [name.removeprefix("./") for name in listed.output.decode().split("\0") if name]
        tree: Tree = {}
        for name in names:
            executable = (await space.exec(["test", "-x", name])).exit_code == 0
            tree[name] = CodexFixFile((await space.read(name)).decode(), executable)
        return tree, said


async def played(call: Any, item: JsonObject) -> str:
    if item["type"] == "message":
        return ""
    if item["type"] == "custom_tool_call":
        return str(await call(item["name"], item["input"]))
    return str(await call(item["name"], **json.loads(str(item["arguments"]))))


def turns_of(fix: Fix, profile: str) -> list[list[JsonObject]]:
    return CodexHarness(NativeSettings(profile=profile)).oracle(fix)


@pytest.fixture
def bench(provider: Provider, workspace: SandboxWorkspace, codex: Any) -> FixBench:
    return FixBench(provider, codex)


def lines(*texts: str, end: str = "\n") -> str:
    return "".join(text + end for text in texts)


NUMBERS = lines(*map(str, range(40)))
SMALL: dict[str, tuple[Tree, Tree]] = {
    "a line": ({"a": CodexFixFile(NUMBERS)}, {"a": CodexFixFile(NUMBERS.replace("7\n", "seven\n", 1))}),
    "far apart": ({"a": CodexFixFile(NUMBERS)}, {"a": CodexFixFile("top\n" + NUMBERS.replace("20\n", "") + "end\n")}),
    "repeated lines": ({"a": CodexFixFile("x\ny\n" * 9)}, {"a": CodexFixFile("x\ny\n" * 4 + "x\nz\n" + "x\ny\n" * 4)}),
    "insertion between repeated lines": (
        {"a": CodexFixFile("x\n" * 9)},
        {"a": CodexFixFile("x\n" * 5 + "q\n" + "x\n" * 4)},
    ),
    "no newline at the end, then": ({"a": CodexFixFile("a\nb\n")}, {"a": CodexFixFile("a\nc")}),
    "no newline at the end, before": ({"a": CodexFixFile("a\nb")}, {"a": CodexFixFile("a\nc\n")}),
    "no newline at either end": ({"a": CodexFixFile("a\nb")}, {"a": CodexFixFile("z\nb")}),
    "only the last newline": ({"a": CodexFixFile("a\nb")}, {"a": CodexFixFile("a\nb\n")}),
    "CRLF": (
        {"a": CodexFixFile(lines("a", "b", "c", end="\r\n"))},
        {"a": CodexFixFile(lines("a", "B", "c", end="\r\n"))},
    ),
    "from CRLF to LF": ({"a": CodexFixFile(lines("a", "b", end="\r\n"))}, {"a": CodexFixFile(lines("a", "b"))}),
    "from LF to CRLF": ({"a": CodexFixFile(lines("a", "b"))}, {"a": CodexFixFile(lines("a", "b", end="\r\n"))}),
    "mixed endings": ({"a": CodexFixFile("a\r\nb\nc\n")}, {"a": CodexFixFile("a\r\nB\nc\n")}),
    "added": ({"z": CodexFixFile("z\n")}, {"z": CodexFixFile("z\n"), "d/n": CodexFixFile("x\n\ny\n")}),
    "added with CRLF": ({"z": CodexFixFile("z\n")}, {"z": CodexFixFile("z\n"), "d/n": CodexFixFile("x\r\ny\r\n")}),
    "added without a newline": ({"z": CodexFixFile("z\n")}, {"z": CodexFixFile("z\n"), "n": CodexFixFile("x\ny")}),
    "added and empty": ({"z": CodexFixFile("z\n")}, {"z": CodexFixFile("z\n"), "d/n": CodexFixFile("")}),
    "added executable": (
        {"z": CodexFixFile("z\n")},
        {"z": CodexFixFile("z\n"), "n.sh": CodexFixFile("#!/bin/sh\n", True)},
    ),
    "deleted": ({"z": CodexFixFile("z\n"), "d/n": CodexFixFile("x\n")}, {"z": CodexFixFile("z\n")}),
    "deleted and empty": ({"z": CodexFixFile("z\n"), "n": CodexFixFile("")}, {"z": CodexFixFile("z\n")}),
    "moved": ({"a": CodexFixFile(NUMBERS)}, {"d/e/b": CodexFixFile(NUMBERS)}),
    "moved and changed": ({"a": CodexFixFile(NUMBERS)}, {"d/b": CodexFixFile(NUMBERS.replace("7\n", "seven\n", 1))}),
    "moved and changed, executable": ({"a": CodexFixFile(NUMBERS, True)}, {"b": CodexFixFile(NUMBERS + "40\n", True)}),
    "moved, and another in its place": (
        {"a": CodexFixFile(NUMBERS)},
        {"b": CodexFixFile(NUMBERS + "x\n"), "a": CodexFixFile("new\n")},
    ),
    "made executable": ({"a": CodexFixFile("x\n")}, {"a": CodexFixFile("x\n", True)}),
    "made executable and changed": ({"a": CodexFixFile("x\ny\n")}, {"a": CodexFixFile("x\nz\n", True)}),
    "no longer executable": ({"a": CodexFixFile("x\n", True)}, {"a": CodexFixFile("x\n")}),
    "emptied": ({"a": CodexFixFile("x\ny\n")}, {"a": CodexFixFile("")}),
    "filled": ({"a": CodexFixFile("")}, {"a": CodexFixFile("x\ny\n")}),
    "lines like markers": (
        {"a": CodexFixFile("*** End Patch\n@@\n+x\nq\n")},
        {"a": CodexFixFile("*** End Patch\n*** Begin Patch\n*** Delete File: a\n+x\nEOF\n")},
    ),
    "added, lines like markers": (
        {"z": CodexFixFile("z\n")},
        {"z": CodexFixFile("z\n"), "n": CodexFixFile("*** End Patch\nEOF\n'EOF'\n$HOME `x` \\\n\r\n")},
    ),
    "names with blanks and quotes": (
        {"it's a 'name'.txt": CodexFixFile("x\ny\n"), "gone file": CodexFixFile("q\n")},
        {"it's a 'name'.txt": CodexFixFile("x\nz\n"), "new $file": CodexFixFile("q\r\nr\n")},
    ),
    "whitespace only": ({"a": CodexFixFile("if x:\n\ty\n  z \n")}, {"a": CodexFixFile("if x:\n    y\n  z\n")}),
    "typographic look-alikes": ({"a": CodexFixFile('“a”\n"a"\n–\n-\n')}, {"a": CodexFixFile('“a”\n"b"\n–\n-\n')}),
    "line separators in a line": ({"a": CodexFixFile("a\x0cb\u2028c\nd\n")}, {"a": CodexFixFile("a\x0cb\u2028c\ne\n")}),
    "a lone carriage return": ({"a": CodexFixFile("a\rb\nc\n")}, {"a": CodexFixFile("a\rb\nd\n")}),
}


@pytest.mark.sandbox
@pytest.mark.slow
async def test_every_kind_of_change_is_made(bench: FixBench, tmp_path: Path) -> None:
    for name, (before, after) in SMALL.items():
        tree, said = await bench.play(before, fix_of(before, after, tmp_path))
        assert tree == after, (name, said)


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES[1:])
async def test_it_is_made_with_the_tools_of_each_profile(bench: FixBench, tmp_path: Path, profile: str) -> None:
    for name in ("far apart", "moved and changed", "added with CRLF", "deleted", "made executable and changed"):
        before, after = SMALL[name]
        tree, said = await bench.play(before, fix_of(before, after, tmp_path), profile)
        assert tree == after, (name, said)


@pytest.mark.sandbox
@pytest.mark.slow
async def test_it_is_made_where_the_texts_before_are_not_known(bench: FixBench, tmp_path: Path) -> None:
    for name in ("a line", "far apart", "no newline at the end, then", "moved and changed", "added", "deleted"):
        before, after = SMALL[name]
        tree, said = await bench.play(before, fix_of(before, after, tmp_path, known=False))
        assert tree == after, (name, said)


def random_trees(rng: random.Random) -> tuple[Tree, Tree]:
    words = ["x", "y", "", "  z", "*** End Patch", "@@ a", "+p", "-m", "é–", "\tt "]
    before: Tree = {}
    for index in range(rng.randint(2, 5)):
        end = rng.choice(["\n", "\n", "\n", "\r\n"])
        text = "".join(rng.choice(words) + end for _ in range(rng.randint(0, 30)))
        before[f"{rng.choice(['', 'd/', 'd/e/'])}f{index}"] = CodexFixFile(
            text if rng.random() < 0.8 else text[: -len(end)], rng.random() < 0.2
        )
    after: Tree = {}
    for path, file in before.items():
        fate = rng.random()
        if fate < 0.15:
            continue
        parts = file.text.splitlines(keepends=True) if fate > 0.3 else [file.text]
        for _ in range(rng.randint(0, 3)):
            if parts and fate > 0.3:
                at = rng.randrange(len(parts))
                parts[at : at + rng.randint(0, 2)] = [rng.choice(words) + "\n"] * rng.randint(0, 2)
        after[path + ("_moved" if rng.random() < 0.2 else "")] = CodexFixFile(
            "".join(parts), file.runs if rng.random() < 0.8 else not file.runs
        )
    if rng.random() < 0.4:
        after["new/f"] = CodexFixFile(
            rng.choice(["", "n\n", "n", "n\r\nm\r\n", "*** Begin Patch\n"]), rng.random() < 0.3
        )
    return before, after


async def at_random(bench: FixBench, place: Path, seeds: Sequence[int]) -> None:
    for seed in seeds:
        before, after = random_trees(random.Random(seed))
        fix = fix_of(before, after, place)
        if fix.patch:
            tree, said = await bench.play(before, fix)
            assert tree == after, (seed, said)


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 12), marks=pytest.mark.long)], ids=str)
async def test_random_trees_become_each_other(bench: FixBench, tmp_path: Path, seeds: Sequence[int]) -> None:
    await at_random(bench, tmp_path, seeds)


@pytest.mark.sandbox
@pytest.mark.long
async def test_many_random_trees_become_each_other(bench: FixBench, tmp_path: Path) -> None:
    await at_random(bench, tmp_path, range(100, 180))


def test_it_is_pure_has_at_least_four_turns_and_ends_with_the_tests_and_a_message(tmp_path: Path) -> None:
    fix = fix_of(*SMALL["a line"], tmp_path)
    for profile in PROFILES:
        first, second = turns_of(fix, profile), turns_of(fix, profile)
        assert len(first) >= 4
        assert [[said(item) for item in turn] for turn in first] == [[said(item) for item in turn] for turn in second]
        assert "echo tested" in said(first[-2][0])
        assert first[-1][0]["type"] == "message"


def said(item: JsonObject) -> str:
    return str(item.get("arguments") or item.get("input") or item["content"])


def test_an_edit_is_a_patch_with_context_and_not_a_rewritten_file(tmp_path: Path) -> None:
    [patch] = [turn[0] for turn in turns_of(fix_of(*SMALL["a line"], tmp_path), "default") if "input" in turn[0]]
    assert patch["input"] == "*** Begin Patch\n*** Update File: a\n@@\n 6\n-7\n+seven\n 8\n*** End Patch\n"
