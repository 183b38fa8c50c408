"""Claims about `paddock fidelity` as a command: tables, figures, exit codes, mistakes."""

from pathlib import Path

import orjson
import pytest

from paddock.cli import main
from paddock.sandbox.settings import HOME_VARIABLE
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import write_model_folder


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["fidelity", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_one_harness_over_one_template(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    code, out, _ = asked(capsys, "codex", "--template", "thinking", "--json", str(file), "--require", "exact")
    assert code == 0
    (row,) = (line.split() for line in out.splitlines() if "harness:codex" in line)
    assert row == ["harness:codex", "responses", "thinking", "exact", "100.0%", "0", "0.0%", "0.0%", "1.00", row[-1]]
    assert float(row[-1].removesuffix("x")) < 1
    assert "1 combinations, 13 runs in" in out
    assert "re-spells compact, escaped arguments of calls" in out
    found = orjson.loads(file.read_bytes())
    (one,) = found["combinations"]
    assert (one["subject"], one["template"], one["verdict"], len(one["runs"])) == (
        "harness:codex",
        "thinking",
        "exact",
        13,
    )
    assert found["templates"][0]["traits"]["reformats_arguments"] == ["compact", "escaped"]


def test_what_is_worse_than_required_is_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    naive = ["client:mini_swe_agent", "--template", "chatml", "--scenario", "uncommon_ids", "--naive"]
    code, out, err = asked(capsys, *naive, "--require", "exact")
    assert (code, err) == (1, "1 combinations are worse than exact\n")
    assert "split" in out
    assert "uncommon_ids" in out
    assert asked(capsys, *naive, "--require", "split")[0] == 0
    assert asked(capsys, *naive)[0] == 0


def test_a_template_that_refuses_is_said_and_found_neither_exact_nor_inexact(
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused = ["client:codex_cli", "--template", "instruct", "--scenario", "loop"]
    code, out, err = asked(capsys, *refused, "--require", "exact")
    assert (code, err) == (3, "nothing was measured: each run was refused\n")
    assert "client:codex_cli over instruct: chat template: user and assistant must take turns (loop)" in out
    assert "1 combinations, 1 runs in" in out
    assert "1 refused" in out
    assert asked(capsys, *refused)[0] == 3
    assert asked(capsys, *refused, "--template", "chatml", "--require", "exact")[0] == 0, "the other one is exact"


def test_a_refusal_hides_nothing_inexact(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["client:mini_swe_agent", "client:codex_cli", "--scenario", "uncommon_ids", "--naive"]
    code, _, err = asked(capsys, *words, "--template", "instruct", "--template", "chatml", "--require", "exact")
    assert code == 1
    assert "worse than exact" in err


def test_a_models_own_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write_model_folder(tmp_path / "mine", marks="headers", chat_template=TEMPLATES["headers"].source)
    code, out, _ = asked(capsys, "client:pi", "--model", str(tmp_path / "mine"), "--scenario", "loop")
    assert code == 0
    assert [line.split()[:4] for line in out.splitlines() if "client:pi" in line] == [
        ["client:pi", "responses", "mine", "exact"],
        ["client:pi", "chat", "mine", "exact"],
    ]


def test_programs_that_are_not_installed_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    code, out, err = asked(capsys, "--programs")
    assert (code, out) == (2, "")
    assert "nothing to try" in err
    assert "paddock harness install codex_cli" in err
    assert "paddock harness install opencode_cli" in err
    few = ["codex", "--template", "chatml", "--scenario", "cut"]
    code, out, _ = asked(capsys, *few, "--programs", "--json", str(tmp_path / "f.json"))
    assert code == 0
    assert "program:codex_cli: skipped: " in out
    assert "1 combinations, 1 runs in" in out
    assert "program:codex_cli" in orjson.loads((tmp_path / "f.json").read_bytes())["skipped"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nosuch"], "nosuch"),
        (["gold", "--template", "chatml"], "asks no model"),
        (["client:nosuch"], "client 'nosuch': there is none"),
        (["--template", "nosuch.jinja"], "there is no such file"),
        (["--scenario", "nosuch"], "scenario 'nosuch': there is none"),
        (["--model", "/nonexistent"], "no such file"),
        (["codex", "--template", "chatml", "--scenario", "cut", "--json", "/nonexistent/f.json"], "can't be written"),
    ],
)
def test_mistakes_are_exit_2(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    code, out, err = asked(capsys, *arguments)
    assert (code, out) == (2, "")
    assert words in err
