"""Runs the editor cases on the real editor: `python record_editor.py cases.json` prints them with what it answered.

Needs    a Python that has openhands-tools, and nothing of this project.
Case     `before`: files by path below the root; `calls`: arguments of the tool; `answers`: the texts, `!`
         before those that are errors; `after`: the files that are then others. A file is its text, `{"base64": ...}`,
         or `{"repeat": ..., "times": ...}`, where `{n}` counts from 0. A folder's path ends in a slash.
Differs  the real editor names a temporary file, by chance, where it can't write: here it is the file itself.
"""

import base64
import importlib
import importlib.metadata
import json
import logging
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = "/tmp/codeact-editor-root"
"""Real while a case runs: some texts depend on its length."""
_TEMPORARY = re.compile(r"'([^']*/)\.([^/']*)\.[a-z0-9_]{8}\.tmp'")


def content(given: Any) -> bytes:
    """A file's bytes, from a case."""
    if isinstance(given, str):
        return given.encode()
    if "base64" in given:
        return base64.b64decode(given["base64"])
    return "".join(given["repeat"].replace("{n}", str(n)) for n in range(given["times"])).encode()


def lay_out(root: Path, files: dict[str, Any]) -> None:
    """Make the files of a case."""
    root.mkdir(parents=True, exist_ok=True)
    for name, given in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(content(given))


def changed(root: Path, before: dict[str, Any]) -> dict[str, Any]:
    """The files that are not as before, for a case."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        if path.is_file():
            name, data = str(path.relative_to(root)), path.read_bytes()
            if name in before and content(before[name]) == data:
                continue
            try:
                found[name] = data.decode()
            except UnicodeDecodeError:
                found[name] = {"base64": base64.b64encode(data).decode()}
    return found


def recorded(case: dict[str, Any]) -> dict[str, Any]:
    """A case with what the real editor does."""
    tools = importlib.import_module("openhands.tools.file_editor")
    impl = importlib.import_module("openhands.tools.file_editor.impl")
    root = Path(ROOT)
    shutil.rmtree(root, ignore_errors=True)
    try:
        lay_out(root, case["before"])
        editor = impl.FileEditorExecutor(workspace_root=ROOT)
        answers = []
        for call in case["calls"]:
            said = editor(tools.FileEditorAction(**call))
            answers.append(("!" if said.is_error else "") + _TEMPORARY.sub(r"'\1\2'", said.text))
        return {**case, "answers": answers, "after": changed(root, case["before"])}
    finally:
        shutil.rmtree(root, ignore_errors=True)


def main() -> None:
    os.environ.update(OPENHANDS_SUPPRESS_BANNER="1", LITELLM_LOCAL_MODEL_COST_MAP="True")
    logging.disable(logging.CRITICAL)
    table = json.loads(Path(sys.argv[1]).read_text())
    version = importlib.metadata.version("openhands-tools")
    lines = [json.dumps(recorded(case), ensure_ascii=False) for case in table["cases"]]
    head = f'{{"program": "openhands-tools", "version": "{version}", "cases": ['
    sys.stdout.write("\n".join([head, ",\n".join(lines), "]}", ""]))


if __name__ == "__main__":
    main()
