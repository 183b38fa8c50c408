"""What a build's step may have of memory and processes, with this machine's cgroups and without any."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from paddock.processes.command import CommandResult
from paddock.sandbox.cgroups import find_cgroups
from paddock.sandbox.failures import ImageInvalid
from paddock.sandbox.images import ImageLimits, ImageStore, LocalImage
from paddock.sandbox.images.build.bounds import first_process
from paddock.sandbox.images.build.inside import run_inside
from paddock.sandbox.images.build.stage import new_stage

pytestmark = pytest.mark.sandbox

WORDS = f"sleep 4712.{os.getpid()}"
"""Nobody else's on this machine."""
FORKS = f"while :; do {WORDS} & done"
SMALL = {"build_memory_mib": 128, "build_pids": 64}
PIDS = r"more processes and threads at once than its 64; .*\{build_pids: N\}.*--build-pids N"
MEMORY = r"used up its 128 MiB of memory.*\{build_memory_mib: N\}.*--build-memory-mib N"


@pytest.fixture(params=["cgroup", "looks"])
def means(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "looks":
        monkeypatch.setattr("paddock.sandbox.images.build.bounds.find_cgroups", lambda: None)
    elif find_cgroups() is None:
        pytest.skip("no cgroup with a memory limit can be made here (version 1 needs root, version 2 delegation)")
    return str(request.param)


async def build(store: ImageStore, image: LocalImage, script: str) -> CommandResult:
    with new_stage(store) as stage:
        async with asyncio.timeout(120):
            return await run_inside(
                stage,
                image.layers,
                script,
                payload_id=store.payload_id,
                limits=ImageLimits(**SMALL),
                env=image.record.env,
            )


def groups() -> list[str]:
    """Owners of cgroups that are this process's."""
    cgroups = find_cgroups()
    return [owner for owner in (cgroups.owners() if cgroups else []) if owner.startswith(f"{os.getpid()}-")]


def test_what_bubblewrap_has_said_in_part_is_not_read_yet(tmp_path: Path) -> None:
    line = '{ "child-pid": 10372, "mnt-namespace": 4026532177 }\n'
    status = tmp_path / "status"
    for n in range(len(line)):
        status.write_text(line[:n])
        assert first_process(status) is None
    status.write_text(line + '{ "exit-code": 0')
    assert first_process(status) == 10372


@pytest.mark.usefixtures("means")
@pytest.mark.parametrize(
    ("script", "told"),
    [
        pytest.param(FORKS, PIDS, id="forks"),
        pytest.param(f"({FORKS}) & sleep 100 & wait", PIDS, id="forks-behind"),
        pytest.param("tail /dev/zero", MEMORY, id="memory"),
        pytest.param("tail /dev/zero || true; sleep 100", MEMORY, id="memory-and-on"),
        pytest.param("head -c 200M /dev/zero > /tmp/large; sleep 100", MEMORY, id="files-in-memory"),
    ],
)
async def test_a_step_that_passes_a_limit_ends_with_what_raises_it_and_leaves_nothing(
    script: str, told: str, store: ImageStore, base: LocalImage
) -> None:
    before = groups()
    with pytest.raises(ImageInvalid, match=told) as caught:
        await build(store, base, script)
    assert caught.value.kind == "build_limit"
    async with asyncio.timeout(60):
        while await asyncio.to_thread(_lives):
            await asyncio.sleep(0.1)
    assert groups() == before
    assert list((store.home / "building").iterdir()) == []


@pytest.mark.usefixtures("means")
async def test_a_step_within_its_limits_is_let_be(store: ImageStore, base: LocalImage) -> None:
    before = groups()
    script = f"for i in $(seq 20); do sleep 0.5 & done; head -c 20M /dev/zero > /tmp/some; wait; {WORDS} & echo well"
    assert (await build(store, base, script)) == CommandResult(0, "well\n")
    assert groups() == before


async def test_many_steps_at_once_are_each_bounded(store: ImageStore, base: LocalImage) -> None:
    scripts = ["sleep 0.3; echo well", "tail /dev/zero", "sleep 0.3; echo well", FORKS]
    ends = await asyncio.gather(*(build(store, base, script) for script in scripts), return_exceptions=True)
    assert [type(end) for end in ends] == [CommandResult, ImageInvalid, CommandResult, ImageInvalid]


def _lives() -> bool:
    return bool(subprocess.run(["pgrep", "-f", f"^{WORDS}$"], capture_output=True, check=False).stdout)
