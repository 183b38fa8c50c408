"""Claims about apply_patch: it says and does what the real program said and did, case by case."""

import importlib.util
import json
import os
import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from paddock.edits import PatchError, parse_codex_patch
from paddock.harness import ExecOutput, RunLimits, ShellSession
from paddock.harness.native import NativeSettings
from paddock.harnesses.codex import CodexHarness
from paddock.testing.native import WorkspaceWithoutPrograms

STORED = json.loads(Path(__file__).with_name("patches.json").read_text())
CASES = STORED["cases"]
VERSION = "0.169.0"


class FolderWorkspace(WorkspaceWithoutPrograms):
    """A folder of this machine, named `/w` inside."""

    workdir = "/w"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _here(self, path: str) -> Path:
        return self._folder / path.removeprefix("/w").lstrip("/")

    async def exec(self, argv: Any, **_: Any) -> ExecOutput:
        assert argv[:-1] == ["rm", "--"]
        try:
            self._here(argv[-1]).unlink()
        except OSError as error:
            return ExecOutput(1, str(error).encode())
        return ExecOutput(0, b"")

    async def read(self, path: str) -> bytes:
        return self._here(path).read_bytes()

    async def write(self, path: str, data: bytes) -> None:
        self._here(path).parent.mkdir(parents=True, exist_ok=True)
        self._here(path).write_bytes(data)

    async def shell(self) -> ShellSession:
        raise NotImplementedError


@pytest.fixture(scope="module")
def recorder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("record_patches", Path(__file__).with_name("record_patches.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"].replace(" ", "_"))
async def test_a_patch_does_and_says_what_it_does_with_the_real_program(
    case: dict[str, Any], recorder: ModuleType, tmp_path: Path
) -> None:
    recorder.lay(tmp_path, case["files"])
    harness = CodexHarness(NativeSettings())
    box = harness.TOOLBOX(FolderWorkspace(tmp_path), RunLimits(), harness.profile)
    method = box.method("apply_patch")
    assert method is not None
    said = await method(case["patch"])
    assert said == case["text"]
    assert recorder.changed(case["files"], recorder.seen(tmp_path)) == case["after"]


def test_the_table_is_of_the_version_that_the_profile_names_and_covers_failures_and_successes() -> None:
    assert STORED["version"] == VERSION
    assert VERSION in CodexHarness(NativeSettings()).profile.source
    made = [case for case in CASES if case["text"].startswith("Exit code: 0\n")]
    failed = [case for case in CASES if case["text"].startswith("Exit code: 1\n")]
    refused = [case for case in CASES if "verification failed" in case["text"]]
    assert (len(made) >= 60, len(failed) >= 3, len(refused) >= 40) == (True, True, True)


GRAMMAR_TAKES = [
    ("*** Begin Patch\n*** Add File: a\n+x\n*** End Patch", True),
    ("*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\n", True),
    ("*** Begin Patch\n*** Delete File: a\n*** Delete File: b\n*** End Patch", True),
    ("*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch", True),
    ("*** Begin Patch\n*** Update File: a\n-x\n+y\n z\n*** End Patch", True),
    ("*** Begin Patch\n*** Update File: a\n@@ def f():\n@@ x\n-x\n*** End of File\n*** End Patch", True),
    ("*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n x\n*** End Patch", True),
    ("*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** End Patch", True),
    ("*** Begin Patch\n*** Update File: a\n+\n-\n \n*** End Patch", True),
    ("*** Begin Patch\n*** End Patch", False),
    ("*** Begin Patch\n*** Add File: a\n*** End Patch", False),
    ("*** Begin Patch\n*** Add File: \n+x\n*** End Patch", False),
    ("*** Begin Patch\n*** Add File: a\n+x\n\n*** End Patch", False),
    ("*** Begin Patch\n*** Delete File: a\n+x\n*** End Patch", False),
    ("*** Begin Patch\n*** Update File: a\n@@\nx\n*** End Patch", False),
    ("*** Begin Patch\n*** Update File: a\n@@x\n-x\n*** End Patch", False),
    ("*** Begin Patch\n*** Update File: a\n*** End of File\n*** End Patch", False),
    ("*** Begin Patch\n*** Delete File: a\n*** End Patch\n\n", False),
    (" *** Begin Patch\n*** Delete File: a\n*** End Patch", False),
    ("*** Begin Patch\n*** Delete File: a\n", False),
    ("*** Begin Patch\r\n*** Delete File: a\r\n*** End Patch", False),
]


@pytest.mark.parametrize(("text", "taken"), GRAMMAR_TAKES)
def test_the_grammar_takes_the_texts_of_the_real_one(text: str, taken: bool) -> None:
    assert (as_pattern(grammar()).fullmatch(text) is not None) == taken


def test_a_text_of_the_grammar_is_a_patch_to_the_program_but_for_an_update_that_changes_nothing() -> None:
    for text, taken in GRAMMAR_TAKES:
        if taken and "*** Move to: b\n*** End Patch" not in text and "@@ def" not in text:
            assert parse_codex_patch(text)
    with pytest.raises(PatchError):
        parse_codex_patch("*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** End Patch")


def grammar() -> str:
    tools = CodexHarness(NativeSettings()).profile.tools
    made = next(tool for tool in tools if tool["name"] == "apply_patch")["format"]
    assert (made["type"], made["syntax"]) == ("grammar", "lark")
    return str(made["definition"])


def as_pattern(definition: str) -> Any:
    """A grammar without recursion as one regular expression: each rule's name is put in its place."""
    lines = [line for line in definition.splitlines() if line and not line.startswith("%")]
    rules = dict(line.split(": ", 1) for line in lines)
    token = re.compile(r'"((?:[^"\\]|\\.)*)"|/((?:[^/\\]|\\.)*)/|([A-Za-z_]+)|([()|?+*])|\s+')

    def built(name: str) -> str:
        parts = []
        for found in token.finditer(rules[name]):
            literal, expression, rule, sign = found.groups()
            if literal is not None:
                parts.append(f"(?:{re.escape(literal)})")
            elif expression is not None:
                parts.append(f"(?:{expression})")
            elif rule == "LF":
                parts.append(r"(?:\n)")
            elif rule is not None:
                parts.append(f"(?:{built(rule)})")
            elif sign is not None:
                parts.append("(?:" if sign == "(" else sign)
        return "".join(parts)

    return re.compile(built("start"))


@pytest.mark.slow
def test_the_real_program_still_does_what_was_recorded(recorder: ModuleType) -> None:
    codex = os.environ.get("PADDOCK_CODEX", "")
    if not shutil.which(codex):
        pytest.skip("PADDOCK_CODEX names no Codex program")
    assert recorder.version(codex) == VERSION
    now = recorder.record(codex, CASES)
    assert [case["name"] for case, stored in zip(now, CASES, strict=True) if case != stored] == []
