"""Claims about `paddock harness drift` before anything starts: a mistake is said, with what would be right."""

from pathlib import Path

import pytest

from paddock.cli import main


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["codex"], "our own code"),
        (["codex_clii"], "nearest: `codex_cli`"),
        (["codex_cli"], "paddock harness install codex_cli"),
        (["codex_cli", "--version", "0.63.0"], "paddock harness install codex_cli --version 0.63.0"),
    ],
)
def test_what_can_not_be_played_is_said(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["harness", "drift", *words, "--home", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
