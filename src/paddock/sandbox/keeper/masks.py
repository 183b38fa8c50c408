"""Masks of the entries of `/proc` that would show the machine and others on it.

Law     what names this machine (its disks, modules, how it was started) is not seen, nor what moves with the work of
        others: by that, code could tell whether something else runs, such as its own audit. Whatever a kernel has in
        `/proc` is covered unless it is in `VISIBLE`; of its settings, those in `MASKS` are.
Not     files of each process (`/proc/PID/...`), which can't be covered before it is there; what system calls tell, most
        of all sysinfo(2): load averages, number of processes, free memory.
How     each is a file or an empty folder of one read-only tmpfs, bound over it, and the same in every sandbox.
Source  proc(5).
"""

import contextlib
import os
from typing import NamedTuple

from . import syscalls


class Mask(NamedTuple):
    """A text that stands in the place of a file of `/proc`."""

    text: str
    why: str


VISIBLE = {
    "cpuinfo": "programs choose instructions, and how many threads they start, by it",
    "filesystems": "the same on all machines with this kernel; programs tell disks from pseudo file systems by it",
    "meminfo": "programs size what they hold by it: of a machine without free memory they would ask for nothing",
    "stat": "programs count processors by it, and divide by differences of its times",
    "sys": "settings, which can't be written: programs read limits there",
    "sysvipc": "of the sandbox's own IPC namespace",
    "tty": "kinds of terminals, by which `ps` names them; what drivers have counted is root's",
    "uptime": "counts from the sandbox's start: see `clock`",
}
"""Entries of `/proc` that are left, each with the reason; links lead to what is a process's own."""
MASKS = {
    "cgroups": Mask("#subsys_name\thierarchy\tnum_cgroups\tenabled\n", "how many cgroups, and so sandboxes, there are"),
    "loadavg": Mask("0.00 0.00 0.00 1/1 1\n", "how much others do"),
    "version": Mask("Linux version {release}\n", "who built this kernel; its release is uname(2)'s as well"),
    "vmstat": Mask("pgpgin 0\npgpgout 0\npswpin 0\npswpout 0\n", "counts of the memory of all"),
    "sys/dev": Mask("", "drives by name"),
    "sys/fs/aio-nr": Mask("0\n", "requests of all"),
    "sys/fs/dentry-state": Mask("0\t0\t45\t0\t0\t0\n", "names of files that all have used"),
    "sys/fs/file-nr": Mask("0\t0\t9223372036854775807\n", "files that all have open"),
    "sys/fs/inode-nr": Mask("0\t0\n", "files that all have used"),
    "sys/fs/inode-state": Mask("0\t0\t0\t0\t0\t0\t0\n", "the same"),
    "sys/kernel/core_pattern": Mask("core\n", "programs of the host; no core files are written"),
    "sys/kernel/pty/nr": Mask("0\n", "terminals, and so shells, of all"),
    "sys/kernel/random/boot_id": Mask("00000000-0000-4000-8000-000000000000\n", "which machine it is, since when"),
}
"""Below `/proc`, of the form that their readers know; what is covered and not here is empty."""


def mask_text(path: str) -> str:
    """The text that stands in the place of a covered file."""
    text = MASKS[path].text if path in MASKS else ""
    return text.replace("{release}", os.uname().release)


def mount_masks() -> None:
    """Cover all of it in the `/proc` of this mount namespace, whose `/proc/sys` is as it is to stay."""
    syscalls.mount("tmpfs", _FOLDER, "tmpfs", _FLAGS, "mode=0555")
    folder, empty = f"{_FOLDER}/folder", f"{_FOLDER}/empty"
    os.mkdir(folder)
    os.chmod(folder, 0o555)  # noqa: S103 - whatever the umask is
    _write(empty, "")
    files = {path: f"{_FOLDER}/{os.path.basename(path)}" for path in MASKS}
    for path, file in files.items():
        _write(file, mask_text(path))
    syscalls.mount("none", _FOLDER, "", syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_RDONLY | _FLAGS)
    with os.scandir("/proc") as entries:
        names = [
            entry.name for entry in entries if not (entry.name in VISIBLE or entry.name.isdigit() or entry.is_symlink())
        ]
    for path in (*names, *(path for path in MASKS if "/" in path)):
        target = f"/proc/{path}"
        with contextlib.suppress(FileNotFoundError):
            if target != _FOLDER:
                source = folder if os.path.isdir(target) else files.get(path, empty)
                syscalls.mount(source, target, "", syscalls.MS_BIND)
    syscalls.mount(folder, _FOLDER, "", syscalls.MS_BIND)


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
    try:
        os.write(fd, text.encode())
        os.fchmod(fd, 0o444)
    finally:
        os.close(fd)


_FOLDER = "/proc/fs"
"""In every kernel; the tmpfs is below what covers it: to unmount one takes as long as the kernel takes to be sure that
nobody uses it, many milliseconds of a machine at work."""
_FLAGS = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
