"""Claims about `paddock completion`: real shells read the script, and complete what a user has begun."""

import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from paddock.cli import COMMANDS, main
from paddock.cli.completion import SHELLS


@pytest.fixture
def script(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The script for the shell that the test names; skipped where that shell is not here."""
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    assert main(["completion", shell]) == 0
    path = tmp_path / f"paddock.{shell}"
    path.write_text(capsys.readouterr().out)
    return path


@pytest.mark.parametrize("script", SHELLS, indirect=True)
def test_the_shell_reads_the_script(script: Path) -> None:
    subprocess.run([script.suffix[1:], "-n", script], check=True)


def completed(script: Path, line: str, folder: Path) -> list[str]:
    """What bash offers after a line, whose last word is being written."""
    words = line.split(" ")
    call = [
        f"source {script}",
        f"COMP_WORDS=({' '.join(repr(word) for word in words)})",
        f"COMP_CWORD={len(words) - 1} COMP_LINE={line!r} COMP_POINT={len(line)}",
        '_shtab_paddock paddock "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"',
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    done = subprocess.run(
        ["bash", "--norc", "-c", "\n".join(call)], check=True, capture_output=True, text=True, cwd=folder
    )
    assert done.stderr == ""
    return sorted(done.stdout.split())


@pytest.mark.parametrize("script", ["bash"], indirect=True)
def test_commands_options_choices_and_files_are_offered(script: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").touch()
    assert set(COMMANDS) <= set(completed(script, "paddock ", tmp_path))
    assert completed(script, "paddock ev", tmp_path) == ["eval"]
    assert completed(script, "paddock runs re", tmp_path) == ["repair"]
    assert completed(script, "paddock eval --max-at", tmp_path) == ["--max-attempts"]
    assert completed(script, "paddock completion z", tmp_path) == ["zsh"]
    assert completed(script, "paddock eval --rows mi", tmp_path) == ["mine.yaml"]
    assert completed(script, "paddock eval mi", tmp_path) == ["mine.yaml"]


@pytest.mark.parametrize("script", ["bash"], indirect=True)
def test_a_tab_completes_in_a_terminal(script: Path, tmp_path: Path) -> None:
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
    try:
        os.write(terminal, f"bind 'set enable-bracketed-paste off'; source {script}; PS1=ready\n".encode())
        read_until(terminal, "ready$")
        os.write(terminal, b"paddock eval --max-at\t")
        read_until(terminal, "paddock eval --max-attempts ")
    finally:
        os.close(terminal)
        os.waitpid(process, 0)


def read_until(terminal: int, pattern: str, timeout_s: float = 10.0) -> str:
    said, ends_at = "", time.monotonic() + timeout_s
    while time.monotonic() < ends_at:
        if select.select([terminal], [], [], 0.1)[0]:
            said += os.read(terminal, 4096).decode()
        if re.search(pattern, said):
            return said
    raise AssertionError(f"no {pattern!r} in {said!r}")
