"""Stages and locks: nothing half-done stays, nobody's living work is touched."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.build.stage import name_lock, new_stage

HOLDER = """
import asyncio, os, sys, time
from pathlib import Path
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.build.stage import name_lock, new_stage
store = ImageStore(Path(sys.argv[1]), payload_id=59734)
async def main():
    async with name_lock(store, "a"):
        with new_stage(store) as stage:
            (stage.tree / "half").touch()
            (stage.root / "pid").write_text(str(os.getpid()))
            print(stage.root, flush=True)
            time.sleep(60)
asyncio.run(main())
"""


@pytest.fixture
def here(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "home", payload_id=59734)


def building(store: ImageStore) -> list[Path]:
    return sorted((store.home / "building").iterdir())


def test_a_stage_is_gone_at_its_end_whatever_the_end(here: ImageStore) -> None:
    with pytest.raises(KeyError), new_stage(here) as stage:
        closed = stage.work / "work"
        closed.mkdir()
        closed.chmod(0)
        raise KeyError
    assert building(here) == []


@pytest.fixture
def holder(here: ImageStore) -> Iterator[Path]:
    """The stage of another process, which also holds the lock `a`; the process is killed at the end."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(here.home)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield Path(process.stdout.readline().strip())
    process.kill()
    process.wait()
    process.stdout.close()


def hold(store: ImageStore, timeout_s: float) -> None:
    async def main() -> None:
        async with asyncio.timeout(timeout_s), name_lock(store, "a"):
            pass

    asyncio.run(main())


def test_a_living_builder_keeps_its_stage_and_its_lock(here: ImageStore, holder: Path) -> None:
    with new_stage(here):
        assert (holder / "fs" / "half").exists()
    with pytest.raises(TimeoutError):
        hold(here, 0.3)


def test_what_a_killed_builder_left_is_swept(here: ImageStore, holder: Path) -> None:
    pid = int((holder / "pid").read_text())
    os.kill(pid, signal.SIGKILL)
    hold(here, 5)
    with new_stage(here):
        assert not holder.exists()
    assert building(here) == []


async def test_tasks_of_one_process_wait_for_each_other(here: ImageStore) -> None:
    inside: list[int] = []

    async def work() -> None:
        async with name_lock(here, "a"):
            inside.append(1)
            assert sum(inside) == 1
            await asyncio.sleep(0.01)
            inside.append(-1)

    await asyncio.gather(*(work() for _ in range(4)))
    assert len(inside) == 8
