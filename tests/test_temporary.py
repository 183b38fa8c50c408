"""Claims about folders of turns: a dead program's are removed by whoever starts next, a living one's by nobody."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.config import load
from paddock.server.runtime import open_runtime
from paddock.temporary import Hold, hold, hold_existing, is_private, own_root, sweep, turns_root
from paddock.testing.processes import running
from paddock.tokens import TurnStoreSettings

HOLDER = """
import sys
from paddock.tokens import TurnStoreSettings
store = TurnStoreSettings().open(sys.argv[1], "text")
(store.folder / "secret.jsonl").write_text("a prompt")
print("held", flush=True)
sys.stdin.read()
"""
CONFIG = "other: {models_servers: {openai: {base_url: 'http://127.0.0.1:9', model: m}}}\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    own_root().mkdir(mode=0o700)
    turns_root().mkdir()
    yield turns_root()


def killed(name: str) -> None:
    """A program that had a rollout's turns, and its end."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert sweep() == []
        process.send_signal(signal.SIGKILL)


def left(name: str) -> Path:
    """What a killed program leaves."""
    folder = turns_root() / name
    folder.mkdir()
    (folder / "secret.jsonl").write_text("a prompt")
    return folder


def test_turns_of_a_killed_program_go_whatever_its_name(root: Path) -> None:
    killed("one")
    assert sweep() == ["one"]
    assert list(root.iterdir()) == []


async def test_a_runtime_removes_them_when_it_starts(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    gone, own = left("gone"), left("other")
    async with open_runtime(load([file]), listen=True):
        assert not gone.exists()
        assert (own / "secret.jsonl").exists()  # it serves others, who may come back for them
    async with open_runtime(load([file])):
        assert not (own / "secret.jsonl").exists()


@pytest.mark.cli
@pytest.mark.slow
def test_turns_of_a_server_that_died_are_its_successors(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"{CONFIG}serve: {{restart_wait_s: 30}}\n")
    folder = left("other")
    with running("paddock", "serve", file, "--isolate") as command:
        command.line("http://")
        (child,) = command.family()
        child.kill()
        command.line("restart 1 of")
        assert sweep() == []
        assert (folder / "secret.jsonl").exists()
    assert sweep() == ["other"]


def test_what_is_held_stays_and_the_last_holder_removes_it_when_it_is_empty(root: Path) -> None:
    first = hold(root / "shared")
    second = hold_existing(root / "shared")
    assert isinstance(second, Hold)
    assert sweep() == []
    first.release()
    assert sweep() == []
    assert (root / "shared").is_dir()
    second.release()
    second.release()
    assert not (root / "shared").exists()
    assert hold_existing(root / "shared") is None


def test_a_stores_folder_is_held_while_it_is_open(root: Path) -> None:
    store = TurnStoreSettings().open("mine", "text")
    assert sweep() == []
    assert store.folder.is_dir()
    store.close()
    assert not store.folder.exists()


def test_nothing_is_touched_that_is_open_to_others(root: Path) -> None:
    folder = left("theirs")
    own_root().chmod(0o755)
    assert not is_private(own_root())
    assert sweep() == []
    assert folder.exists()
    own_root().chmod(0o700)
    (root / "link").symlink_to(folder)
    assert sweep(["theirs"]) == []
    assert folder.exists()
