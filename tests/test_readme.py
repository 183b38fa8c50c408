"""The README is true: short, and its Python runs as it stands; the pages lead where they say."""

import re
from pathlib import Path

import orjson
import pytest

from paddock.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PLUGINS = (ROOT / "docs" / "plugins.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_it_is_short() -> None:
    assert len(README.split()) <= 900
    assert max(map(len, README.splitlines())) <= 120


def test_its_links_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    links = [(page, link) for page in pages for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text())]
    assert len(links) > 30
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []


def test_the_server_that_it_names_passes_its_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(orjson.dumps({"responses_create_params": {"input": "q"}, "answer": "the word"}))
    monkeypatch.syspath_prepend(ROOT)
    (plugin,) = re.findall(r"paddock check (resources_server:\S+) --rows", PLUGINS)
    assert main(["check", plugin, "--rows", str(rows)]) == 0


def test_its_script_prints_a_verdict(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (source,) = (block for block in BLOCKS if "paddock.connect" in block)
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    exec(compile(source, "README.md", "exec"), names)
    names["connection"].close()  # type: ignore[attr-defined]
    assert capsys.readouterr().out.startswith("reward 0, call_expected (semantic)")


def test_the_files_that_the_pages_name_are_there() -> None:
    pages = [
        ROOT / "CONTRIBUTING.md",
        *((ROOT / "docs" / f"{name}.md") for name in ("architecture", "errors")),
    ]
    named = [
        name for page in pages for name in re.findall(r"(?<![\w./])(?:[a-z_]+/)+(?:[a-z_]+\.py)?", page.read_text())
    ]
    assert len(named) > 30
    made = {"runs/bench/"}
    places = ROOT, ROOT / "src" / "paddock"
    assert [name for name in {*named} - made if not any((at / name).exists() for at in places)] == []
