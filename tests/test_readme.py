"""The README is true: short, and its Python runs as it stands."""

import re
from pathlib import Path

import orjson
import pytest

from paddock.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_it_is_short() -> None:
    assert README.count("\n") < 150


def test_the_server_that_it_names_passes_its_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(orjson.dumps({"responses_create_params": {"input": "q"}, "answer": "the word"}))
    monkeypatch.syspath_prepend(ROOT)
    (plugin,) = re.findall(r"paddock check (resources_server:\S+) --rows", README)
    assert main(["check", plugin, "--rows", str(rows)]) == 0


def test_its_script_prints_a_verdict(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (source,) = (block for block in BLOCKS if "paddock.connect" in block)
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    exec(compile(source, "README.md", "exec"), names)
    names["connection"].close()  # type: ignore[attr-defined]
    assert capsys.readouterr().out.startswith("reward 0, call_expected (semantic)")
