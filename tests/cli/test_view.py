"""Claims about `paddock view` as a command: what it prints, who may look, how it ends."""

import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from paddock.cli import main
from paddock.collect.folder import ROLLOUTS


@pytest.mark.cli
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_an_address_that_brings_its_token_and_ends_in_order(tmp_path: Path, number: int) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / ROLLOUTS).touch()
    command = [sys.executable, "-m", "paddock", "view", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        base, _, token = process.stdout.readline().strip().partition("/#token=")
        assert base.startswith("http://127.0.0.1:")
        assert httpx.get(f"{base}/api/runs").status_code == 401
        reply = httpx.get(f"{base}/api/runs", headers={"authorization": f"Bearer {token}"})
        assert [run["id"] for run in reply.json()["runs"]] == [f"{tmp_path.name}/one"]
        process.send_signal(number)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""


def test_a_folder_that_is_not_there_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(tmp_path / "none")]) == 2
    assert "there is no such folder" in capsys.readouterr().err


def test_beyond_loopback_a_token_is_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(tmp_path), "--host", "0.0.0.0"]) == 2
    assert "token" in capsys.readouterr().err
