"""An owner's folder is its own while it lives, however it ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from paddock.sandbox.owner import OwnerFolder, is_alive, owners, sandboxes, try_lock

HOLD = "import sys; from pathlib import Path; from paddock.sandbox.owner import OwnerFolder; o = OwnerFolder(Path(sys.argv[1])); print(o.id, flush=True); input()"  # noqa: E501 - a program


def test_an_owner_that_lives_is_not_taken_for_dead(tmp_path: Path) -> None:
    owner = OwnerFolder(tmp_path)
    (owner.folder / "box").mkdir()
    assert owners(tmp_path) == [owner.folder]
    assert sandboxes(owner.folder) == [owner.folder / "box"]
    assert is_alive(owner.folder)
    with try_lock(owner.folder) as dead:
        assert not dead
    owner.close()
    assert owners(tmp_path) == []


def test_two_owners_of_one_home_do_not_meet(tmp_path: Path) -> None:
    one, two = OwnerFolder(tmp_path), OwnerFolder(tmp_path)
    assert one.folder != two.folder
    one.close()
    assert owners(tmp_path) == [two.folder]
    assert is_alive(two.folder)
    two.close()


def test_a_killed_owner_is_dead_at_once_and_held_by_one_alone(tmp_path: Path) -> None:
    words = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        folder = tmp_path / "state" / process.stdout.readline().strip()
        assert is_alive(folder)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert owners(tmp_path) == [folder]
    with try_lock(folder) as dead, try_lock(folder) as dead_too:
        assert dead
        assert not dead_too
    assert not is_alive(folder)


def test_a_home_without_sandboxes_has_no_owners(tmp_path: Path) -> None:
    assert owners(tmp_path / "none") == []
