"""Facts about this machine that sandboxes depend on, for people, each with advice where it is not as it should be."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from paddock.sandbox.cgroups import Cgroups
from paddock.sandbox.keeper import clock, seccomp
from paddock.sandbox.runtimes import Bubblewrap
from paddock.sandbox.settings import SandboxSettings
from paddock.sandbox.uids import why_shared
from paddock.types import Record

_LOW_DISK_GIB = 10
_USERNS = Path("/proc/sys/user/max_user_namespaces")
_USERNS_RESTRICTED = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_USERNS_CLONE = Path("/proc/sys/kernel/unprivileged_userns_clone")


class MachineFact(Record):
    """One thing about this machine."""

    name: str
    value: str
    advice: str | None = None
    """What to do about it; None: nothing."""


def facts(settings: SandboxSettings, cgroups: Cgroups | None) -> list[MachineFact]:
    makers: list[Callable[[], MachineFact]] = [
        _user_namespaces,
        lambda: _payload(settings),
        _system_calls,
        _seen_inside,
        lambda: _cgroups(cgroups),
        lambda: _disk(settings),
        _apt,
    ]
    return [fact() for fact in makers]


def _user_namespaces() -> MachineFact:
    most = _text(_USERNS)
    if most in ("", "0"):
        return MachineFact(
            name="user namespaces",
            value=most or "not in this kernel",
            advice="sysctl -w user.max_user_namespaces=65536",
        )
    for file, bad in ((_USERNS_RESTRICTED, "1"), (_USERNS_CLONE, "0")):
        if os.geteuid() != 0 and _text(file) == bad:
            key = ".".join(file.parts[3:])
            return MachineFact(
                name="user namespaces", value=f"{key} = {bad}", advice=f"as root: sysctl -w {key}={1 - int(bad)}"
            )
    return MachineFact(name="user namespaces", value=f"allowed ({most} at most)")


def _payload(settings: SandboxSettings) -> MachineFact:
    name = "payload's user"
    why_not = why_shared(settings, Bubblewrap)
    if settings.uids and why_not is None:
        uids = settings.uids.whole
        value = f"one for each sandbox, uid {uids[0]} to {uids[-1]}; with docker uid {settings.payload_id} for all"
        return MachineFact(name=name, value=value)
    uid = settings.payload_id if os.geteuid() == 0 else os.geteuid()
    return MachineFact(name=name, value=f"uid {uid} for all sandboxes, which share its limits: {why_not}")


def _system_calls() -> MachineFact:
    try:
        seccomp.check()
    except OSError as error:
        return MachineFact(name="system calls", value=f"not filtered: {error}", advice="no sandbox can start here")
    return MachineFact(name="system calls", value=f"filtered ({os.uname().machine})")


def _seen_inside() -> MachineFact:
    """What no runtime can keep from a payload here."""
    seen = ["load, memory and CPU time of the machine", "its kernel's release", "room on the disk"]
    if not clock.NAMESPACE:
        seen.append("its uptime")
    return MachineFact(name="seen inside", value=f"{', '.join(seen)}; with docker, the storage driver's folders")


def _cgroups(cgroups: Cgroups | None) -> MachineFact:
    if cgroups is None:
        return MachineFact(
            name="cgroups",
            value="none that we may write",
            advice="no hard memory limit: the watchdog alone acts; run as root, or delegate a v2 subtree",
        )
    return MachineFact(name="cgroups", value=cgroups.describe())


def _disk(settings: SandboxSettings) -> MachineFact:
    home = settings.home
    folder = next(path for path in (home, *home.parents) if path.exists())
    free_gib = shutil.disk_usage(folder).free / 2**30
    kind = _file_system(folder)
    value = f"{free_gib:.0f} GiB free at {home} ({kind or 'unknown file system'})"
    if kind in ("tmpfs", "ramfs", "overlay"):
        return MachineFact(
            name="disk", value=value, advice="set PADDOCK_HOME to a folder on a local disk (ext4, xfs, btrfs)"
        )
    low = free_gib < _LOW_DISK_GIB
    return MachineFact(name="disk", value=value, advice="set PADDOCK_HOME to a larger disk" if low else None)


def _file_system(path: Path) -> str:
    device = path.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in _text(Path("/proc/self/mountinfo")).splitlines():
        left, _, right = line.partition(" - ")
        if left.split()[2] == wanted:
            return right.split()[0]
    return ""


def _apt() -> MachineFact:
    if not shutil.which("apt-get"):
        return MachineFact(
            name="apt-get", value="not here", advice="install bubblewrap with this system's package manager"
        )
    return MachineFact(name="apt-get", value="here" if os.geteuid() == 0 else "here, for root")


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
