"""Claims about limits of the machine: what is too little is said in one line before anything is started."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from paddock import limits
from paddock.errors import ConfigError
from paddock.sandbox import SandboxSettings
from paddock.sandbox.settings import check_home

ROOT = Path(__file__).parents[1]


def run(*arguments: str, **soft: int) -> "subprocess.CompletedProcess[str]":
    """A command under limits, by their names."""

    def set_limits() -> None:
        for name, value in soft.items():
            resource.setrlimit(getattr(resource, name), (value, value))

    words = [sys.executable, "-m", "paddock", *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT, preexec_fn=set_limits)


def test_the_soft_limit_of_open_files_is_raised_to_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        assert limits.raise_open_files() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert limits.raise_open_files() >= min(hard, limits.OPEN_FILES_MAX)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
@pytest.mark.cli
def test_too_few_open_files_are_refused_before_anything_is_started(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["eval", "configs/demo.yaml", "--oracle", "--repeats", "100", "--concurrency", "100", "--out", str(out)]
    done = run(*words, RLIMIT_NOFILE=96)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "paddock eval: needs about 132 open files for concurrency 100, has 96: raise it with `ulimit -n`, "
        "or lower --concurrency to 64"
    )
    assert not out.exists()


@pytest.mark.cli
@pytest.mark.parametrize("mib", [60, 100])
def test_too_little_address_space_is_said_in_one_line(mib: int) -> None:
    done = run("eval", "configs/demo.yaml", RLIMIT_AS=mib << 20)
    needs = f"paddock: needs at least 150 MiB of address space, has {mib}: raise it with `ulimit -v`\n"
    assert (done.returncode, done.stderr) == (2, needs)


def test_too_few_processes_are_named_with_what_sets_them() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (40, hard))
    try:
        assert limits.lack_of_processes(16, 2) is None
        lacks = limits.lack_of_processes(17, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
    assert lacks is not None
    assert lacks.startswith("needs about 42 processes for concurrency 17: `ulimit -u` is 40;")


def test_workers_need_files_each_and_processes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "raise_open_files", lambda: 96)
    assert limits.lack_of_open_files(64, 2, workers=2) is None
    lacks = limits.lack_of_open_files(66, 2, workers=2)
    assert lacks is not None
    assert lacks.startswith("needs about 98 open files in each of 2 workers for concurrency 66, has 96: ")
    assert lacks.endswith(", or lower --concurrency to 64")
    monkeypatch.setattr(limits, "_cgroup_maxima", lambda: iter([(Path("pids.max"), 40)]))
    needs = limits.PROCESSES_BASE + 3 * limits.PROCESSES_OF_WORKER
    assert needs < 40
    assert limits.lack_of_processes(40 - needs, 1, workers=3) is None
    lacks = limits.lack_of_processes(41 - needs, 1, workers=3)
    assert lacks is not None
    assert lacks.startswith(f"needs about 41 processes for concurrency {41 - needs} in 3 workers: pids.max is 40; ")
    assert lacks.endswith("lower --concurrency or --workers")


def test_a_disk_without_room_is_named_with_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "yet"
    assert limits.lack_of_disk(folder, 0) is None
    lacks = limits.lack_of_disk(folder, 1 << 40)
    assert lacks is not None
    assert lacks.startswith(f"{folder}: ")
    settings = SandboxSettings(home=tmp_path, min_free_disk_mib=1 << 40)
    with pytest.raises(ConfigError, match=r"MiB are free on its disk, .* \(sandbox.min_free_disk_mib, PADDOCK_HOME\)"):
        check_home(settings.home, settings.min_free_disk_mib)
