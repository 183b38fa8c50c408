"""Control groups on this machine's kernel, whichever version it lets us use."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from paddock.sandbox.cgroups import Cgroup, Cgroups
from paddock.sandbox.failures import SandboxError
from paddock.sandbox.records import SandboxLimits

MIB = 2**20
LIMITS = SandboxLimits(memory_mib=64, pids=16)
Run = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def group(here: Cgroups, owner: str) -> Cgroup:
    return here.make(owner, "one", LIMITS)


@pytest.fixture
def run() -> Iterator[Run]:
    """Start a command inside a group."""
    started: list[subprocess.Popen[bytes]] = []

    def start(group: Cgroup, *argv: str) -> "subprocess.Popen[bytes]":
        enter = "".join(f"echo 0 > {path}; " for path in group.procs_files)
        command = ["/bin/sh", "-c", f'{enter}"$@"; echo "ended $?"; read -r wait', "sh", *argv]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdin and process.stdout
        process.stdin.close()
        process.stdout.close()


def _python(code: str) -> tuple[str, ...]:
    return sys.executable, "-S", "-c", code


def _line(process: "subprocess.Popen[bytes]") -> str:
    assert process.stdout
    return process.stdout.readline().decode().strip()


def _until(claim: Callable[[], Any]) -> None:
    due = time.monotonic() + 60
    while not claim():
        assert time.monotonic() < due, "it did not come true"
        time.sleep(0.01)


def test_the_kernel_kills_the_hog_and_the_shell_lives(group: Cgroup, run: Run) -> None:
    shell = run(group, *_python('hog = bytearray(b"x") * (200 << 20)'))
    assert _line(shell) == "ended 137"
    assert group.oom_kills() == 1
    assert group.limit_hits() > 0
    assert shell.poll() is None
    assert shell.pid in group.members()


def test_a_kill_for_a_limit_above_is_not_told_as_one_of_its_own(here: Cgroups, owner: str, run: Run) -> None:
    group = here.make(owner, "below", SandboxLimits(memory_mib=1024))
    [limit] = [
        path for name in ("memory.limit_in_bytes", "memory.max") if (path := group.folders[0].parent / name).exists()
    ]
    limit.write_text(str(64 * MIB))
    shell = run(group, *_python('hog = bytearray(b"x") * (200 << 20)'))
    assert _line(shell) == "ended 137"
    assert (group.oom_kills(), group.limit_hits()) == (1, 0)


def test_memory_is_what_processes_hold_and_not_page_cache(group: Cgroup, run: Run, tmp_path: Path) -> None:
    code = f"""
        open({str(tmp_path / "cached")!r}, "wb").write(b"c" * (20 << 20))
        block = bytearray(b"x") * (30 << 20); print("held", flush=True); import time; time.sleep(60)"""
    shell = run(group, *_python("\n".join(line.strip() for line in code.strip().splitlines())))
    assert _line(shell) == "held"
    assert 30 * MIB <= group.memory() < 48 * MIB
    assert group.pids() == 2
    assert group.cpu_s() > 0
    group.kill_all()
    _until(lambda: group.memory() < 2 * MIB)
    assert group.peak >= 30 * MIB


def test_files_in_memory_count(group: Cgroup, run: Run) -> None:
    code = 'import mmap, time; m = mmap.mmap(-1, 20 << 20); m.write(b"x" * (20 << 20)); '
    assert _line(run(group, *_python(code + 'print("held", flush=True); time.sleep(60)'))) == "held"
    assert group.memory() >= 20 * MIB


def test_a_fork_bomb_ends_at_the_process_limit(group: Cgroup, run: Run) -> None:
    code = """
import os
n = 0
try:
    while True:
        if os.fork() == 0:
            os.read(0, 1)
            os._exit(0)
        n += 1
except BlockingIOError:
    print("stopped", n, flush=True)
"""
    assert group.pids_refused() == 0
    assert _line(run(group, *_python(code))) == "stopped 14"
    assert group.pids_refused() == 1
    assert group.pids() <= LIMITS.pids  # type: ignore[operator]


@pytest.mark.slow
def test_who_has_many_processes_and_sessions_has_no_more_of_a_processor(here: Cgroups, owner: str, run: Run) -> None:
    if not any((root / "cpu.shares").exists() or (root / "cpu.weight").exists() for root in here.roots):
        pytest.skip("sandboxes can have no cgroup of processors here")
    one, many = (here.make(owner, name, SandboxLimits(memory_mib=512, pids=64)) for name in ("one", "many"))
    burn = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n%s\nwhile True: pass"
    run(one, *_python(burn % ""))
    run(many, *_python(burn % "for _ in range(30):\n if os.fork() == 0: os.setsid(); break"))
    _until(lambda: many.pids() == 32)
    before = one.cpu_s(), many.cpu_s()
    time.sleep(2)
    used, used_by_many = one.cpu_s() - before[0], many.cpu_s() - before[1]
    assert many.kill_all()
    assert used > 0.3 * used_by_many


@pytest.mark.slow
def test_sandboxes_of_different_owners_have_the_same_of_a_processor(here: Cgroups, owner: str, run: Run) -> None:
    if not any((root / "cpu.shares").exists() or (root / "cpu.weight").exists() for root in here.roots):
        pytest.skip("sandboxes can have no cgroup of processors here")
    alone = here.make(f"{owner}-alone", "one", LIMITS)
    try:
        groups = [alone, *(here.make(owner, str(nth), LIMITS) for nth in range(4))]
        for group in groups:
            run(group, *_python("import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass"))
        _until(lambda: all(group.cpu_s() > 0.1 for group in groups))
        before = [group.cpu_s() for group in groups]
        time.sleep(2)
        used = [group.cpu_s() - was for group, was in zip(groups, before, strict=True)]
        assert used[0] < 2 * sum(used[1:]) / 4
    finally:
        here.remove_owner(f"{owner}-alone")


def test_kill_all_leaves_nothing_and_remove_removes(group: Cgroup, run: Run) -> None:
    shell = run(group, "/bin/sh", "-c", "for i in 1 2 3 4 5; do setsid sleep 69 & done; trap '' TERM; sleep 69")
    _until(lambda: group.pids() >= 7)
    assert not group.remove(timeout_s=0.05)
    assert group.kill_all()
    assert shell.wait() == -9
    assert group.remove()
    assert not any(folder.exists() for folder in group.folders)
    assert group.remove()
    with pytest.raises(OSError):
        group.memory()


def test_a_frozen_group_stands_still(group: Cgroup, run: Run) -> None:
    run(group, *_python("while True: pass"))
    _until(lambda: group.cpu_s() > 0.1)
    if not group.freeze():
        pytest.skip("no freezer here")
    before = group.cpu_s()
    time.sleep(0.15)
    assert group.cpu_s() - before < 0.02
    group.thaw()
    _until(lambda: group.cpu_s() > before + 0.05)


def test_a_dead_owners_groups_are_found_and_removed(here: Cgroups, owner: str, run: Run) -> None:
    groups = [here.make(owner, name, LIMITS) for name in ("one", "two")]
    run(groups[0], "sleep", "70")
    _until(lambda: groups[0].pids())
    assert owner in here.owners()
    assert here.remove_owner(owner)
    assert owner not in here.owners()
    assert here.remove_owner(owner)


def test_what_was_killed_frozen_goes_with_its_dead_owner_also_from_another_pid_namespace(
    here: Cgroups, owner: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = here.make(owner, "one", LIMITS)
    run(group, "sleep", "71")
    _until(lambda: len(group.members()) == 2)
    if not group.freeze():
        pytest.skip("no freezer here")
    for pid in group.members():
        os.kill(pid, signal.SIGKILL)
    # Processes of another namespace have the id 0.
    monkeypatch.setattr(Cgroup, "members", lambda _: [])
    try:
        assert here.remove_owner(owner)
    finally:
        with suppress(OSError):
            group.thaw()


def test_a_group_can_be_made_again_over_what_was_left(here: Cgroups, owner: str) -> None:
    here.make(owner, "one", LIMITS)
    assert here.make(owner, "one", SandboxLimits(memory_mib=32)).memory() == 0


def test_no_limit_is_no_limit(here: Cgroups, owner: str, run: Run) -> None:
    free = here.make(owner, "free", SandboxLimits(memory_mib=None, pids=None))
    assert _line(run(free, *_python('hog = bytearray(b"x") * (100 << 20)'))) == "ended 0"


def test_what_the_kernel_refuses_is_the_machines_failure(here: Cgroups) -> None:
    with pytest.raises(SandboxError, match="no cgroup for sandbox"):
        here.make("test-refused", "no/such", LIMITS)
    assert "test-refused" not in here.owners()


@pytest.mark.sandbox
def test_a_group_holds_what_a_pid_namespace_of_its_own_holds(group: Cgroup, run: Run) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap (bwrap) is not installed")
    bwrap = ["bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--die-with-parent"]
    run(group, *bwrap, "sh", "-c", "setsid sleep 71 & wait")
    _until(lambda: any(b"sleep\x0071" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in group.members()))
    assert group.kill_all()
