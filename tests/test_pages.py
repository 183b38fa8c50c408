"""The pages are true: parsers take their commands, models their configs, Python runs, and links lead on.

`python scripts/check_wheel.py` does what `WALKED` say, from an empty folder; `make docs` holds links and anchors.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
import yaml
from tests.support.pages import NOT_RUN, ROOT, WALKED, PageBlock, blocks, commands, paddock_words, walk

import paddock
from paddock.cli import COMMANDS, command_parser, main

README = ROOT / "README.md"
PAGES = [
    README,
    ROOT / "CONTRIBUTING.md",
    ROOT / "harnesses" / "README.md",
    *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in ("settings.md", "commands.md")),
    *sorted((ROOT / "training").glob("**/README.md")),
]
ASKED_FOR = {
    "start": "Start here",
    "evaluation": "A model",
    "programs": "A real program",
    "write_environment": "A resources server",
    "write_harness": "A harness",
    "own_repository": "SWE rows from your repository",
    "trainers": "Run inside your trainer",
    "cluster": "Cores and machines",
    "rewards": "What a reward means",
    "security": "Security",
    "settings": "Every config key",
    "commands": "Every command",
    "wire": "The wire",
    "glossary": "Glossary",
}
"""Pages of which a reader is sure that they are there, by their title in the site's list."""
WITH_CONFIGS = [page for page in PAGES if page.parent.name == "docs" and "```yaml" in page.read_text()]
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def test_the_readme_is_one_screen() -> None:
    lines = README.read_text().splitlines()
    assert len(lines) <= 60
    assert len(README.read_text().split()) <= 900
    assert max(map(len, lines)) <= 120


def test_the_site_lists_the_pages_that_readers_look_for() -> None:
    class Loader(yaml.SafeLoader):
        """Reads the names of emoji functions as text."""

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda _loader, suffix, _node: suffix)
    nav = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)["nav"]

    def titles(entries: list[dict[str, object]]) -> Iterator[tuple[str, str]]:
        for entry in entries:
            for title, target in entry.items():
                yield from titles(target) if isinstance(target, list) else [(str(target), title)]

    listed = dict(titles(nav))
    assert {name: listed.get(f"docs/{name}.md") for name in ASKED_FOR} == ASKED_FOR
    unlisted = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")} - listed.keys()
    assert unlisted == set()


def test_links_lead_somewhere() -> None:
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text())]
    assert len(links) > 100
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []


@by_page
def test_commands_are_such_as_the_parsers_take(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = []
    for words in (words for block in blocks(page.read_text()) for words in commands(block)):
        ours = paddock_words(words)
        if ours is None:
            continue
        try:
            _parse(ours)
        except SystemExit as end:
            if end.code:
                wrong.append(f"{' '.join(words)}: {capsys.readouterr().err}")
    assert wrong == []


@by_page
def test_commands_and_flags_in_the_text_are_there(page: Path) -> None:
    texts = re.findall(r"`paddock ([a-z][^`]*)`", page.read_text())
    assert [text for text in texts if (words := text.split()) and not _is_known(words)] == []


@by_page
def test_python_compiles_and_takes_from_the_package_what_it_has(page: Path) -> None:
    for block in blocks(page.read_text()):
        if block.language == "python":
            compile(block.text, str(page), "exec")
            assert set(re.findall(r"\bpaddock\.(\w+)", block.text)) - {*paddock.__all__, *_MODULES} == set()
        elif block.language == "json":
            assert [json.loads(line) for line in _documents(block)]


@pytest.mark.parametrize("page", WITH_CONFIGS, ids=lambda page: page.name)
def test_configs_are_such_as_the_models_take(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [block for block in blocks(page.read_text()) if block.language == "yaml"]
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/v1")
    for number, block in enumerate(found):
        file = tmp_path / f"{page.stem}_{number}.yaml"
        file.write_text(block.text)
        own = [] if "config_paths" in block.text else ["configs/openai.yaml"]
        # A class of the page's own is tried where the page is walked through.
        words = ["serve", str(file), *own, "--dry-run"]
        assert block.title or main(words) == 0, capsys.readouterr().err


def test_the_readmes_script_prints_the_rollouts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (script,) = (block for block in blocks(README.read_text()) if block.language == "python")
    monkeypatch.chdir(tmp_path)
    assert main(["eval", "configs/demo.yaml", "--oracle", "--limit", "3", "--out", "runs/mine", "--quiet"]) == 0
    capsys.readouterr()
    exec(compile(script.text, "README.md", "exec"), {})
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[-3:] for line in shown] == [["single_step", "completed", "1.0"]] * 3


def test_the_smallest_plugin_passes_its_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(orjson.dumps({"responses_create_params": {"input": "q"}, "answer": "the word"}))
    monkeypatch.syspath_prepend(ROOT)
    page = (ROOT / "docs" / "plugins.md").read_text()
    (plugin,) = re.findall(r"paddock check (resources_server:examples\S+) --rows", page)
    assert main(["check", plugin, "--rows", str(rows)]) == 0


def test_a_walk_does_what_a_page_says_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    file, script = '```python title="mine.py"\nprint(1)\n```', "```python\nimport mine\n```"
    shell = "    pip install x\n    paddock init run \\\n        first   # here"
    page.write_text(f"Text.\n\n{file}\n\n{shell}\n\n{script}\n")
    assert walk(page, tmp_path, Path(sys.executable), os.environ) == 2
    assert (tmp_path / "first" / "first.yaml").is_file()
    page.write_text("Text.\n\n    python -c 'raise SystemExit(3)'\n")
    with pytest.raises(RuntimeError, match="exit 3"):
        walk(page, tmp_path, Path(sys.executable), os.environ)
    page.write_text("Text.\n\n    other words\n")
    with pytest.raises(ValueError, match="no rule for `other words`"):
        walk(page, tmp_path, Path(sys.executable), os.environ)


def test_what_a_walk_leaves_to_the_reader_is_little() -> None:
    for name in WALKED:
        every = [words for block in blocks((ROOT / name).read_text()) for words in commands(block)]
        assert every
        assert {words[0] for words in every} <= {"paddock", "python", *NOT_RUN}


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


_MODULES = {path.stem for path in (ROOT / "src" / "paddock").iterdir()}


def _parse(words: list[str]) -> None:
    parser = command_parser(words[0])
    nested = any(isinstance(action, argparse._SubParsersAction) for action in parser._actions)
    parser.parse_args(words[1:]) if nested else parser.parse_intermixed_args(words[1:])


def _is_known(words: list[str]) -> bool:
    if words[0] not in COMMANDS:
        return words[0] == "COMMAND"
    parser = command_parser(words[0])
    rest = words[1:]
    inner = next((action for action in parser._actions if isinstance(action, argparse._SubParsersAction)), None)
    if inner is not None and rest and not rest[0].startswith("-"):
        if rest[0].rstrip(",") not in inner.choices:
            return rest[0].isupper()
        parser, rest = inner.choices[rest[0].rstrip(",")], rest[1:]
    flags = {word.partition("=")[0].rstrip(",") for word in rest if word.startswith("--")}
    return flags <= {*parser._option_string_actions}


def _documents(block: PageBlock) -> list[str]:
    return block.text.splitlines() if block.title.endswith(".jsonl") else [block.text]
