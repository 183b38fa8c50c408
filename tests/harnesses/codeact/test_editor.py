"""Claims about the file editor: in every recorded case it says and does what the real editor said and did."""

import asyncio
import importlib.util
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from paddock.harness import ExecOutput
from paddock.harnesses.codeact.editor import Editor, EditorCall
from paddock.harnesses.codeact.errors import EditorError

HERE = Path(__file__).parent
TABLE = json.loads((HERE / "editor_cases.json").read_text())
REAL = "PADDOCK_OPENHANDS_PYTHON"
"""Names a Python that has openhands-tools."""


def _recorder() -> Any:
    spec = importlib.util.spec_from_file_location("record_editor", HERE / "record_editor.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RECORDER = _recorder()
ROOT: str = RECORDER.ROOT


class EditorWorkspace:
    """A folder of this machine as a workspace whose paths are below `ROOT`."""

    workdir = ROOT

    def __init__(self, place: Path) -> None:
        self._place = place

    def _at(self, path: str) -> Path:
        assert path == ROOT or path.startswith(f"{ROOT}/"), path
        return Path(f"{self._place}{path.removeprefix(ROOT)}")

    async def exec(self, argv: list[str], **_: object) -> ExecOutput:
        here = [str(self._at(word)) if word.startswith(ROOT) else word for word in argv]
        done = await asyncio.to_thread(subprocess.run, here, capture_output=True, check=False)
        return ExecOutput(done.returncode, done.stdout)

    async def read(self, path: str) -> bytes:
        return self._at(path).read_bytes()

    async def write(self, path: str, data: bytes) -> None:
        self._at(path).write_bytes(data)


def editor_of(place: Path) -> Editor:
    return Editor(EditorWorkspace(place), max_chars=16_000, max_undo=10)  # type: ignore[arg-type]  # it opens no shell


async def said(editor: Editor, call: dict[str, Any]) -> str:
    """As the cases have it: errors with a mark."""
    try:
        return await editor.run(EditorCall(**call))
    except EditorError as error:
        return f"!{error.text}"


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: case["name"])
async def test_a_recorded_case_is_answered_as_the_real_editor_answered_it(case: dict[str, Any], tmp_path: Path) -> None:
    place = tmp_path / "root"
    RECORDER.lay_out(place, case["before"])
    editor = editor_of(place)
    assert [await said(editor, call) for call in case["calls"]] == case["answers"]
    assert RECORDER.changed(place, case["before"]) == case["after"]


def test_there_are_sixty_cases_and_each_has_a_name_of_its_own() -> None:
    names = [case["name"] for case in TABLE["cases"]]
    assert len(set(names)) == len(names) >= 60


@pytest.mark.long
def test_the_real_editor_still_answers_as_recorded() -> None:
    python = os.environ.get(REAL)
    if not python:
        pytest.skip(f"{REAL} names no Python that has openhands-tools")
    command = [python, str(HERE / "record_editor.py"), str(HERE / "editor_cases.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    if "No package metadata was found for openhands-tools" in done.stderr:
        pytest.skip(f"{python} has no openhands-tools")
    assert done.returncode == 0, done.stderr[-2000:]
    again = json.loads(done.stdout)
    assert again["cases"] == TABLE["cases"], f"recorded with {TABLE['version']}, now {again['version']}"
