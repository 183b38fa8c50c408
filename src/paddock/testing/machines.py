"""Machines on one machine: each in namespaces of its own, for tests of what runs on several and of their failures.

A machine has its own network (an address on a bridge, a loopback of its own), processes, host name, `/tmp`, `/dev/shm`
and disk: a folder that the others can't see. The rest of the file system, the kernel and its cgroups are shared.

    with machines(3) as (driver, first, second):
        serving = first.start(["paddock", "sandbox", "serve", "--host", first.address])
        first.cut(); first.mend(); first.kill()

Needs   root, iproute2, util-linux. Errors: OSError or subprocess.CalledProcessError where a machine can't be made.
Law     all of it ends with the block, and with this process, however that ends; a bridge that a killed process left is
        removed by the next one.
"""

import itertools
import os
import re
import shutil
import signal
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import psutil

PREFIX = "pk"
"""Of the names of bridges; their owner's process id and a letter follow: 15 characters is all that a name may have."""
START_TIMEOUT_S = 20.0
MAX_MACHINES = 250
_TMP = "/tmp"  # noqa: S108 - each machine has its own
_FREEZER = Path("/sys/fs/cgroup/freezer")
_letters = itertools.cycle(string.ascii_lowercase)
# Runs as the first process of a machine: $1 its name, $2 its disk, $3 the folder with all disks; then what of /tmp it
# sees. Bash collects orphans.
_INIT = """
set -e
hostname "$1"
mount --make-rprivate /
mount -t tmpfs -o size=2g,mode=1777 shm /dev/shm
mount --bind "$2" /mnt
mount -t tmpfs -o mode=711 disks "$3"
mkdir "$2"
mount --bind /mnt "$2"
umount /mnt
mount --bind "$2/hosts" /etc/hosts
own=$2/tmp
shift 3
for folder; do
    mkdir -p "$own/${folder#/tmp/}"
    mount --bind "$folder" "$own/${folder#/tmp/}"
done
mount --rbind "$own" /tmp
echo ready
while :; do sleep 1000 & wait; done
"""


class Machine:
    """One of them."""

    def __init__(self, name: str, number: int, network: "_Network", disks: Path) -> None:
        self.name = name
        self.address = network.address(number)
        self.disk = disks / name
        """A folder that only this machine sees. A sandbox's user can pass it."""
        self.home = self.disk / "home"
        """Its PADDOCK_HOME."""
        self._link = f"{network.bridge}n{number}"
        self._network = network
        self._processes: list[MachineProcess] = []
        (self.disk / "tmp").mkdir(parents=True)
        self.disk.chmod(0o711)
        (self.disk / "tmp").chmod(0o1777)
        self.home.mkdir(mode=0o711)
        (self.disk / "hosts").write_text(network.hosts)
        self.boot()

    def boot(self) -> None:
        """Switch it on, with the disk that it had before."""
        self._init, self._first_pid = _start_init(self.name, self.disk)
        self._network.connect(self._link, self._first_pid, self.address)

    def start(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any) -> "MachineProcess":
        """Start a command there. `env`: beside this process's environment; `options`: of `subprocess.Popen`."""
        command = ["nsenter", "-t", str(self._first_pid), "-n", "-m", "-u", "-p", "--", *argv]
        own = {**os.environ, "PADDOCK_HOME": str(self.home), "TMPDIR": _TMP, **(env or {})}
        process = MachineProcess(command, env=own, **options)
        self._processes = [*(other for other in self._processes if other.poll() is None), process]
        return process

    def run(self, argv: Sequence[str], *, timeout_s: float = 60.0, **options: Any) -> str:
        """Run a command there to its end: its output; CalledProcessError where it fails."""
        with self.start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options) as process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.kill_inside()
                raise
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, list(argv), out, err)
        return str(out)

    @property
    def is_on(self) -> bool:
        return self._init.poll() is None

    def kill(self) -> None:
        """A power cut: every process of it is gone when this returns. Idempotent."""
        with self._init:
            self._init.kill()
        # The first process inside ends after it, and when all others have.
        with suppress(psutil.NoSuchProcess):
            _wait_for_the_last(psutil.Process(self._first_pid))
        for process in self._processes:
            with process:
                process.kill()
        self._processes = []

    def cut(self) -> None:
        """Pull its network cable."""
        _run("ip", "link", "set", self._link, "down")

    def mend(self) -> None:
        """Put the cable back."""
        _run("ip", "link", "set", self._link, "up")


class MachineProcess(subprocess.Popen[Any]):
    """A process on a machine, behind the nsenter that started it."""

    def signal_inside(self, number: int) -> None:
        """Send a signal to the command itself."""
        for process in psutil.Process(self.pid).children():
            process.send_signal(number)

    def kill_inside(self) -> None:
        self.signal_inside(signal.SIGKILL)


class _Network:
    """A bridge in this process's network, with an address for each machine."""

    def __init__(self, names: Sequence[str]) -> None:
        letter = next(_letters)
        self.bridge = f"{PREFIX}{os.getpid():x}{letter}"
        subnet = os.getpid() * 8 + string.ascii_lowercase.index(letter)
        self._subnet = f"10.{64 + subnet // 256 % 64}.{subnet % 256}"
        lines = [f"{self.address(number)} {name}" for number, name in enumerate(names, 1)]
        self.hosts = "\n".join(["127.0.0.1 localhost", *lines, ""])
        _run("ip", "link", "add", self.bridge, "type", "bridge")
        try:
            _run("ip", "addr", "add", f"{self.address(254)}/24", "dev", self.bridge)
            _run("ip", "link", "set", self.bridge, "up")
        except BaseException:
            self.remove()
            raise

    def address(self, number: int) -> str:
        return f"{self._subnet}.{number}"

    def connect(self, link: str, pid: int, address: str) -> None:
        """Join the network of a process to the bridge."""
        # A machine that boots again keeps its card: neighbours remember its hardware address for half a minute.
        card = "02:00:" + IPv4Address(address).packed.hex(":")
        _run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "address", card, "netns", str(pid))
        _run("ip", "link", "set", link, "master", self.bridge, "up")
        inside = ("nsenter", "-t", str(pid), "-n", "ip")
        _run(*inside, "addr", "add", f"{address}/24", "dev", "eth0")
        for name in ("lo", "eth0"):
            _run(*inside, "link", "set", name, "up")

    def remove(self) -> None:
        _run("ip", "link", "del", self.bridge)


def why_no_machines() -> str | None:
    """Why none can be made here; None: they can."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "nsenter", "setpriv", "unshare"))):
        return "needs root, iproute2 and util-linux"
    name = f"{PREFIX}{os.getpid():x}"
    try:
        _run("ip", "link", "add", name, "type", "bridge")
        _run("ip", "link", "del", name)
    except (OSError, subprocess.SubprocessError) as error:
        return f"no bridge can be made here: {error}"
    return None


@contextmanager
def machines(count: int) -> Iterator[list[Machine]]:
    """Machines `m1`, `m2`, ... until the block ends. This process reaches them, and they it at the address .254."""
    if not 1 <= count <= MAX_MACHINES:
        raise ValueError(f"{count} machines: from 1 to {MAX_MACHINES}")
    _remove_bridges_of_dead_owners()
    names = [f"m{number}" for number in range(1, count + 1)]
    # On a disk: temporary folders may be in memory, where overlays do not work.
    disks = Path(tempfile.mkdtemp(prefix="paddock-machines-", dir="/var/tmp"))
    disks.chmod(0o711)
    network = _Network(names)
    made: list[Machine] = []
    try:
        for number, name in enumerate(names, 1):
            made.append(Machine(name, number, network, disks))
        yield made
    finally:
        for machine in made:
            machine.kill()
        network.remove()
        _remove(disks)


def _start_init(name: str, disk: Path) -> "tuple[subprocess.Popen[bytes], int]":
    """The process whose end is the machine's, and the id of the first process inside."""
    unshare = ["unshare", "-n", "-m", "-u", "-p", "-f", "--mount-proc", "--kill-child"]
    command = ["setpriv", "--pdeathsig", "KILL", *unshare, "bash", "-c", _INIT, "init"]
    words = [name, str(disk), str(disk.parent), *_programs_below_tmp()]
    init = subprocess.Popen([*command, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert init.stdout is not None
    if init.stdout.readline() != b"ready\n":
        raise OSError(f"a machine did not start: exit code {init.wait(START_TIMEOUT_S)}")
    (first,) = psutil.Process(init.pid).children()
    return init, first.pid


def _wait_for_the_last(first: psutil.Process) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        # One of them may freeze others with its last breath.
        _thaw(first.children(recursive=True))
        try:
            first.wait(0.2)
            return
        except psutil.TimeoutExpired:
            if time.monotonic() > deadline:
                raise


def _thaw(processes: Sequence[psutil.Process]) -> None:
    """Wake what control groups of version 1 have frozen: only then does it die of the signal that it has."""
    for process in processes:
        with suppress(OSError):
            groups = Path(f"/proc/{process.pid}/cgroup").read_text()
            for path in re.findall(r"^\d+:freezer:/(.+)$", groups, re.MULTILINE):
                (_FREEZER / path / "freezer.state").write_text("THAWED")


def _programs_below_tmp() -> list[str]:
    """The folders that Python and this project run from, where a machine's own `/tmp` would hide them."""
    folders = {Path(sys.prefix), Path.cwd(), *(Path(entry) for entry in sys.path if entry)}
    below = sorted(folder for folder in folders if Path(_TMP) in folder.parents)
    return [str(folder) for folder in below if not any(other in folder.parents for other in below)]


def _remove(disks: Path) -> None:
    # The mounts of a machine end a moment after its last process.
    deadline = time.monotonic() + START_TIMEOUT_S
    while disks.exists():
        shutil.rmtree(disks, ignore_errors=time.monotonic() < deadline)


def _remove_bridges_of_dead_owners() -> None:
    for link in Path("/sys/class/net").iterdir():
        match = re.fullmatch(rf"{PREFIX}([0-9a-f]+)[a-z]", link.name)
        if match and not psutil.pid_exists(int(match[1], 16)):
            _run("ip", "link", "del", link.name)


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, timeout=START_TIMEOUT_S)
