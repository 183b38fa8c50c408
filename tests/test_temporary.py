"""Claims about folders of turns and of programs: those of the dead are removed by whoever starts next, no others."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.processes import running

from paddock.temporary import Hold, hold, hold_existing, is_private

SWEEP = "import sys; from paddock.temporary import sweep; print(*sweep(sys.argv[1:]))"
HOLDER = """
import sys
from paddock.tokens import TurnStoreSettings
store = TurnStoreSettings().open(sys.argv[1], "text")
(store.folder / "secret.jsonl").write_text("a prompt")
print("held", flush=True)
sys.stdin.read()
"""
CLOSER = """
from paddock.temporary import sweep
from paddock.tokens import TurnStoreSettings
store = TurnStoreSettings().open("mine", "text")
print(sweep(), store.folder.is_dir())
store.close()
print(store.folder.exists())
"""
RUNTIME = """
import asyncio, sys
from pathlib import Path
from paddock.config import load
from paddock.server.runtime import open_runtime
from paddock.temporary import turns_root

async def main(file):
    for listen in (True, False):
        async with open_runtime(load([Path(file)]), listen=listen):
            print(*sorted(str(one.relative_to(turns_root())) for one in turns_root().rglob("*.jsonl")))

asyncio.run(main(sys.argv[1]))
"""
RUNNER = """
import asyncio, sys
from paddock.harness.outside.process import OutsideProcess

async def main():
    async with OutsideProcess(["sh", "-c", "touch code; echo there; exec sleep 600"], {}) as ran:
        await ran.reader.readline()
        print(ran.pid, ran.home, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""
CONFIG = "other: {models_servers: {openai: {base_url: 'http://127.0.0.1:9', model: m}}}\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Of the programs that `env` is given to."""
    own = tmp_path / f"paddock-{os.geteuid()}"
    own.mkdir(mode=0o700)
    (own / "turns").mkdir()
    return own / "turns"


def env(root: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(root.parent.parent)}


def said(root: Path, program: str, *words: str | Path) -> str:
    """What a program wrote whose temporary folder is the test's."""
    command = [sys.executable, "-c", program, *map(str, words)]
    return subprocess.run(command, env=env(root), stdout=subprocess.PIPE, text=True, check=True).stdout


def swept(root: Path, *kept: str) -> list[str]:
    return said(root, SWEEP, *kept).split()


def killed(root: Path, name: str) -> None:
    """A program that had a rollout's turns, and its end."""
    command = [sys.executable, "-c", HOLDER, name]
    with subprocess.Popen(command, env=env(root), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert swept(root) == []
        process.send_signal(signal.SIGKILL)


def left(root: Path, name: str) -> Path:
    """What a killed program leaves."""
    folder = root / name
    folder.mkdir()
    (folder / "secret.jsonl").write_text("a prompt")
    return folder


def test_turns_of_a_killed_program_go_whatever_its_name(root: Path) -> None:
    killed(root, "one")
    assert swept(root) == ["one"]
    assert list(root.iterdir()) == []


@pytest.mark.slow
def test_the_folder_of_a_program_goes_with_who_comes_next_where_its_keeper_was_killed_too(root: Path) -> None:
    command = [sys.executable, "-c", RUNNER]
    with subprocess.Popen(command, env=env(root), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        keeper, home = process.stdout.readline().split()
        assert Path(home).parent == root.parent / "scratch"
        assert swept(root) == [] and (Path(home) / "code").exists()
        process.send_signal(signal.SIGSTOP)
        os.kill(int(keeper), signal.SIGKILL)
        process.send_signal(signal.SIGKILL)
    assert (Path(home) / "code").exists()
    assert swept(root) == [Path(home).name]
    assert not Path(home).exists()


@pytest.mark.slow
def test_a_runtime_removes_them_when_it_starts(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    left(root, "gone")
    left(root, "other")
    # The first serves others, who may come back for its own.
    assert said(root, RUNTIME, file).splitlines() == ["other/secret.jsonl", ""]


@pytest.mark.cli
@pytest.mark.slow
def test_turns_of_a_server_that_died_are_its_successors(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"{CONFIG}serve: {{restart_wait_s: 30}}\n")
    folder = left(root, "other")
    with running("paddock", "serve", file, "--isolate", env=env(root)) as command:
        command.line("http://")
        (child,) = command.family()
        child.kill()
        command.line("restart 1 of")
        assert swept(root) == []
        assert (folder / "secret.jsonl").exists()
    assert swept(root) == ["other"]


def test_what_is_held_stays_and_the_last_holder_removes_it_when_it_is_empty(root: Path) -> None:
    first = hold(root / "shared")
    second = hold_existing(root / "shared")
    assert isinstance(second, Hold)
    assert swept(root) == []
    first.release()
    assert swept(root) == []
    assert (root / "shared").is_dir()
    second.release()
    second.release()
    assert not (root / "shared").exists()
    assert hold_existing(root / "shared") is None


def test_a_stores_folder_is_held_while_it_is_open(root: Path) -> None:
    assert said(root, CLOSER).splitlines() == ["[] True", "False"]


def test_nothing_is_touched_that_is_open_to_others(root: Path) -> None:
    folder, own = left(root, "theirs"), root.parent
    own.chmod(0o755)
    assert not is_private(own)
    assert swept(root) == []
    assert folder.exists()
    own.chmod(0o700)
    (root / "link").symlink_to(folder)
    assert swept(root, "theirs") == []
    assert folder.exists()
