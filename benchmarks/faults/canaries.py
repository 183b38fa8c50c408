"""What of the host must come to no harm: processes of several users, files, a socket that nobody calls, image layers.

Process each signal is blocked, so that one that is sent stays pending, where the kernel shows it; that it lives, runs,
        and has its limits, niceness and processors is looked at too.
Listens on a port of loopback and an abstract unix name: a connection is one from a sandbox, whose network is another.
"""

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

USERS = (0, 1000, 65534)
"""Beside those of sandboxes."""
SETTLED = ("SigPnd", "ShdPnd", "TracerPid", "Uid", "Cpus_allowed_list")
"""Lines of `/proc/PID/status` that must stay as they are."""


class Canaries:
    """Made and put away by `canaries`."""

    def __init__(self, folder: Path, users: Sequence[int], layers: Sequence[Path]) -> None:
        self.folder = folder
        self.name = f"canary-{os.getpid()}"
        """The name of the abstract socket."""
        self._listening = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)]
        self._listening[1].bind(f"\0{self.name}")
        self._listening[1].listen()
        for one in self._listening:
            one.settimeout(0.0)
        self.port: int = self._listening[0].getsockname()[1]
        for user, mode in ((0, 0o600), *((user, 0o600) for user in users), (65534, 0o666)):
            path = folder / ("everybody" if mode == 0o666 else str(user))
            path.write_text("untouched")
            os.chown(path, user, user)
            path.chmod(mode)
        self.processes = [_process(user) for user in (*USERS, *users)]
        self._before = [_state(process.pid) for process in self.processes]
        self._layers = layers
        self._connected: list[str] = []
        self._files = self._digest()

    def harm(self) -> list[str]:
        """What has come to harm, in words."""
        harm = []
        for process, before in zip(self.processes, self._before, strict=True):
            if process.poll() is not None:
                harm.append(f"the process {process.pid} has ended with {process.returncode}")
            else:
                now = _state(process.pid)
                harm += [f"the process {process.pid}: {line}" for line in now if line not in before]
        for one in self._listening:
            with contextlib.suppress(BlockingIOError):
                one.accept()[0].close()
                self._connected.append(f"somebody has connected to {one.getsockname()!r}")
        harm += self._connected
        if self._digest() != self._files:
            harm.append(f"files of {self.folder} or of an image's layers have changed")
        return harm

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        for one in self._listening:
            one.close()

    def _digest(self) -> str:
        digest = hashlib.blake2b()
        for top in (self.folder, *self._layers):
            for folder, folders, names in os.walk(top):
                folders.sort()
                for name in sorted((*folders, *names)):
                    now = Path(folder, name).lstat()
                    digest.update(repr((folder, name, now.st_mode, now.st_uid, now.st_size, now.st_mtime_ns)).encode())
        for path in sorted(self.folder.iterdir()):
            digest.update(path.read_bytes())
        return digest.hexdigest()


@contextlib.contextmanager
def canaries(home: Path, users: Sequence[int], layers: Sequence[Path]) -> Iterator[Canaries]:
    """`users`: of sandboxes. `layers`: folders of images, which sandboxes read and nobody writes."""
    folder = Path(tempfile.mkdtemp(prefix="canary-", dir=home))
    folder.chmod(0o755)
    try:
        guard = Canaries(folder, users, layers)
        try:
            yield guard
        finally:
            guard.close()
    finally:
        shutil.rmtree(folder)


def _process(user: int) -> "subprocess.Popen[bytes]":
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        return subprocess.Popen(["sleep", "infinity"], user=user, group=user, extra_groups=[], start_new_session=True)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _state(pid: int) -> list[str]:
    """What must stay as it is."""
    proc = Path(f"/proc/{pid}")
    lines = [line for line in (proc / "status").read_text().splitlines() if line.startswith(SETTLED)]
    fields = (proc / "stat").read_text().rpartition(")")[2].split()
    stopped, nice = fields[0] in "TtZX", fields[16]
    limits = (proc / "limits").read_text().splitlines()
    return [*lines, *limits, f"stopped {stopped}", f"nice {nice}", f"oom {(proc / 'oom_score_adj').read_text()}"]
