"""The host's users that sandboxes run as, where we are root: each its own, gradings of another range than agents.

Why     some limits of the kernel are a user's, whatever its namespaces: inotify instances and watches, bytes of POSIX
        message queues, pages of pipes, descriptors on their way through unix sockets.
Lock    a byte of one file of the machine for each uid, whatever home a provider has. It belongs to an open file that
        the sandbox's keeper holds, and is free when that has ended, however it ends.
Stored  files of layers and sandboxes belong to `payload_id` on the disk whoever has them (`keeper.idmap`).
Trial   a home where it works is not tried again until the machine is started anew: `<home>/passed/uids`.
"""

import contextlib
import errno
import fcntl
import itertools
import os
import secrets
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from paddock.sandbox.failures import SandboxError
from paddock.sandbox.keeper import shortage
from paddock.sandbox.owner import state_folder
from paddock.sandbox.records import Purpose
from paddock.sandbox.runtimes import ContainerRuntime
from paddock.sandbox.settings import SandboxSettings, UidRanges

LOCKS = Path("/run/paddock/uids")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_GUESSES = 64
"""Uids that are drawn at random before the range is searched."""
_FLOCK = struct.Struct("hhqqi4x")
"""struct flock: type, whence, start, length, pid."""
_TRY = "import sys; sys.path.insert(0, sys.argv[1]); from keeper import launch; launch.try_uid(*sys.argv[2:])"
_TRY_TIMEOUT_S = 10.0


class Uid(NamedTuple):
    """What a sandbox runs as."""

    number: int
    lock: list[int]
    """Descriptors that keep it, while any copy of them is open; none of a uid that is shared."""


@contextlib.contextmanager
def draw_uid(ranges: UidRanges, purpose: Purpose) -> Iterator[Uid]:
    """A uid that no sandbox of this machine has; taken for the block, and while any process has the lock's descriptor.

    SandboxError `uids_used_up` where there is none.
    """
    try:
        lock = _open_locks()
    except OSError as error:
        raise SandboxError(f"no uid for a sandbox: {shortage.explain(error)}", kind="start_failed") from error
    try:
        yield Uid(_lock_free_uid(lock, ranges, purpose), [lock])
    finally:
        os.close(lock)


def why_shared(settings: SandboxSettings, runtime: type[ContainerRuntime]) -> str | None:
    """Why sandboxes of this runtime share one uid here; None: each has its own. Blocks."""
    if os.geteuid() != 0:
        return "only root can give each its own"
    if settings.uids is None:
        return "sandbox.uids is null"
    if not runtime.own_uids:
        return f"{runtime.name} mounts its layers itself"
    try:
        os.close(_open_locks())
        return _refusal(settings.home, settings.payload_id, settings.uids.first)
    except OSError as error:
        return str(error)


def _open_locks() -> int:
    LOCKS.parent.mkdir(mode=0o755, exist_ok=True)
    return os.open(LOCKS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _lock_free_uid(lock: int, ranges: UidRanges, purpose: Purpose) -> int:
    """A free uid, locked."""
    uids = ranges.of(purpose)
    # At random, so that a uid whose sandbox has just ended is seldom the next.
    for uid in itertools.chain((secrets.choice(uids) for _ in range(_GUESSES)), uids):
        try:
            fcntl.fcntl(lock, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, uid, 1, 0))
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
        else:
            return uid
    field = f"sandbox.uids.{'gradings' if purpose == 'grading' else 'agents'}"
    raise SandboxError(
        f"all {len(uids)} uids from {uids.start} on are in use by sandboxes of this machine: raise {field}",
        kind="uids_used_up",
    )


def _refusal(home: Path, stored: int, uid: int) -> str | None:
    """The kernel's error for an overlay in that home for another user than the stored one; None: it works."""
    state, layers = state_folder(home), home / "layers"
    for folder in (state, layers):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o711)
    passed_file = home / "passed/uids"
    mark = f"{_BOOT.read_text().strip()} {stored} {[folder.stat().st_dev for folder in (state, layers)]}\n"
    with contextlib.suppress(OSError):
        if passed_file.read_text() == mark:
            return None
    why_not = _trial_failure(state, layers, stored, uid)
    if why_not is None:
        passed_file.parent.mkdir(exist_ok=True)
        passed_file.write_text(mark)
    return why_not


def _trial_failure(state: Path, layers: Path, stored: int, uid: int) -> str | None:
    # With a dot, as in `owner`: swept later where we are killed.
    with tempfile.TemporaryDirectory(prefix=".uids-", dir=state) as folder:
        for path in (Path(folder), *(Path(folder) / name for name in ("upper", "work", "merged"))):
            path.mkdir(exist_ok=True)
            os.chown(path, stored, stored)
        words = [sys.executable, "-S", "-E", "-s", "-c", _TRY, str(Path(__file__).parent)]
        try:
            done = subprocess.run(
                [*words, folder, str(layers), str(stored), str(uid)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TRY_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"a mount of its own did not come within {_TRY_TIMEOUT_S:g} s"
    if done.returncode == 0:
        return None
    return done.stderr.strip().rpartition("\n")[2] or f"a trial ended with {done.returncode}"
