"""Namespaces, the overlay, and the runtime over it; then joining what the runtime made.

Uid     where we are root, everything from here on runs as the payload's uid: it is the only uid of the user namespace,
        seen inside as 0, without any capability there. Root of the host is not mapped.
Trace   the payload's processes have this process's uid: before any child of it is among them it forbids tracing, which
        would hand them its descriptors.
Order   cgroups are joined and their files opened before the uid changes; the parent-death signal is set after, because
        a change of uid clears it.
"""

import contextlib
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from . import clock, idmap, network, pid1, programs, settle, shortage, syscalls

_NAMESPACES = (
    ("user", syscalls.CLONE_NEWUSER),
    ("cgroup", syscalls.CLONE_NEWCGROUP),
    ("ipc", syscalls.CLONE_NEWIPC),
    ("uts", syscalls.CLONE_NEWUTS),
    ("net", syscalls.CLONE_NEWNET),
    ("pid", syscalls.CLONE_NEWPID),
    ("mnt", syscalls.CLONE_NEWNS),
)
_NEUTRAL = ("/media", "/mnt", "/srv")
"""Folders of the host with neutral names; the first that is there is used."""


class RuntimeStart(NamedTuple):
    """What a runtime says of a start."""

    command: "list[str]" = []
    """Up to what it runs; `{merged}` stands for the overlay, below the folder that it starts in; `{folder}` for that
    folder."""
    environment: "dict[str, str]" = {}
    """`{folder}` as above."""
    container: "tuple[int, str, str] | None" = None
    """Of what a container engine has started (see `adopt`): process, program, the engine's own layer."""
    upper: "str | None" = None
    """Where that engine keeps the sandbox's writes; None: below the sandbox's folder."""


class StartPlan(NamedTuple):
    """The start message."""

    layers: "list[str]"
    """Lowest first."""
    upper: str
    work: str
    merged: str
    uid: int
    """Uid of the payload."""
    stored_uid: int
    """Uid that its files have on the disk."""
    hostname: str
    blackhole: bool
    shm_bytes: int
    process_limits: "dict[str, int]"
    """Limits of each process of a command, by their names in `resource`; `RLIMIT_NOFILE` is the runtime's, too."""
    timeout_s: float
    spawn_timeout_s: float
    """Seconds for a child to become its command."""
    programs: "list[str]"
    """Folders of the host, each below the name that it is seen by."""
    cgroups: "list[str]"
    """Files to write a process's id to."""
    runtime: RuntimeStart
    cgroup_fds: "list[int]" = []
    """`cgroups`, opened by the keeper."""


class OuterInit(NamedTuple):
    """The first process of the outer pid namespace, and the pipes of the sandbox's own first process."""

    pid: int
    output: int
    """Pipe with its output."""
    lifeline: int
    """It ends when this is closed."""


class JoinedSandbox(NamedTuple):
    """The sandbox that this process has joined. Process ids are the host's."""

    pid: int
    """The sandbox's first process: see `pid1`."""
    init: int
    """Its end is the sandbox's."""
    pid_ns: int
    """Inode of the pid namespace that commands are in."""
    pidfd: int
    """Pidfd of `init`: readable when that has ended."""
    end: "Callable[[], None]"
    """Kill all of it, and wait until it is gone."""


class FirstProcess(NamedTuple):
    """The sandbox's first process, as the host sees it."""

    pid: int
    pid_ns: int
    """Inode of its pid namespace."""
    namespaces: list[tuple[int, int]]
    """Descriptor and kind of each that differs from ours."""
    root: int
    leftovers: list[settle.LeftoverPath]


def launch(plan: StartPlan) -> JoinedSandbox:
    """Make a sandbox and enter it."""
    init = start(plan)
    try:
        pidfd = os.pidfd_open(init.pid)
        mounts = programs.detached_mounts(plan.programs)
        inside = wait_until_ready(plan, init)
        join(plan, inside)
        programs.attach(mounts)
    except BaseException:
        end(init)
        raise
    return JoinedSandbox(inside.pid, init.pid, inside.pid_ns, pidfd, lambda: end(init))


def start(plan: StartPlan) -> OuterInit:
    """Leave the host's namespaces and start init; from here on this process is in the sandbox's user namespace."""
    output_read, output_write = os.pipe2(os.O_CLOEXEC)
    lifeline_read, lifeline_write = os.pipe2(os.O_CLOEXEC)
    leave(plan.uid, plan.stored_uid, plan.layers, os.path.dirname(plan.merged))
    syscalls.sethostname(plan.hostname)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _init(plan, parent, lifeline_read, output_write)
    os.close(output_write)
    os.close(lifeline_read)
    return OuterInit(pid, output_read, lifeline_write)


def leave(uid: int, stored_uid: int, layers: "list[str]", folder: str) -> None:
    """Leave the host's namespaces for new ones of `uid`, which owns what the layers and the folder hold there."""
    mounts = idmap.idmapped_mounts(stored_uid, uid, layers, folder) if uid != stored_uid else []
    become(uid)
    gid, uid = os.getegid(), os.geteuid()
    syscalls.unshare(
        syscalls.CLONE_NEWUSER
        | syscalls.CLONE_NEWNS
        | syscalls.CLONE_NEWPID
        | syscalls.CLONE_NEWNET
        | syscalls.CLONE_NEWIPC
        | syscalls.CLONE_NEWUTS
        | clock.NAMESPACE
    )
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"0 {uid} 1")
    _write("/proc/self/gid_map", f"0 {gid} 1")
    if clock.NAMESPACE:
        _write(f"/proc/self/{clock.FILE}", clock.offsets())
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    idmap.attach(mounts)


def mount_overlay(layers: "list[str]", upper: str, work: str, merged: str) -> None:
    """Mount the overlay at `merged`; the working folder is then the one that `merged` is in."""
    # By descriptors: mount options can be read inside, and are to show nothing of the host, nor which image it is.
    os.chdir(os.path.dirname(merged))
    fds = [os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for path in (*reversed(layers), upper, work)]
    *lowerdirs, upperdir, workdir = (f"/proc/self/fd/{fd}" for fd in fds)
    options = f"userxattr,lowerdir={':'.join(lowerdirs)},upperdir={upperdir},workdir={workdir}"
    syscalls.mount("overlay", merged, "overlay", syscalls.MS_NOSUID | syscalls.MS_NODEV, options)
    for fd in fds:
        os.close(fd)


def try_uid(folder: str, layer: str, stored_uid: str, uid: str) -> None:
    """OSError where this machine can't mount a sandbox's file system for another user than the stored one."""
    leave(int(uid), int(stored_uid), [layer], folder)
    mount_overlay([layer], *(os.path.join(folder, name) for name in ("upper", "work", "merged")))


def become(uid: int) -> None:
    """Change to the payload's user for good, where we are root."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        syscalls.be_dumpable()


def _init(plan: StartPlan, parent: int, lifeline: int, output: int) -> NoReturn:
    code = 70
    try:
        signal.set_wakeup_fd(-1)
        syscalls.die_with_parent(signal.SIGKILL)
        _close_all_but({lifeline, output, *plan.cgroup_fds})
        for fd in plan.cgroup_fds:
            os.write(fd, b"0")
        # Its own, so that the keeper goes on seeing the host's processes: some runtimes look for themselves in `/proc`.
        # Cgroup paths, too, begin here for whoever is inside.
        syscalls.unshare(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWCGROUP)
        syscalls.mount("proc", "/proc", "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
        mount_overlay(plan.layers, plan.upper, plan.work, plan.merged)
        pid1.write(plan.merged + pid1.PATH)
        _hide_folder(os.path.dirname(plan.merged))
        runtime = os.fork()
        if runtime == 0:
            _exec_runtime(plan, lifeline, output)
        # `lifeline` and `output` belong to the sandbox's first process alone: its end must show at the other side.
        os.close(lifeline)
        os.close(output)
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid == runtime:
                # As a shell reports it: 128 + n for signal n.
                code = os.waitstatus_to_exitcode(status)
                code = code if code >= 0 else 128 - code
                break
    except BaseException as error:  # noqa: BLE001 - reported by the only pipe there is
        os.write(output, f"{shortage.describe(error)}\n".encode())
    os._exit(code)


def _hide_folder(folder: str) -> None:
    """Go on in the sandbox's folder by a neutral name: runtimes show inside where they started."""
    neutral = next((path for path in _NEUTRAL if os.path.isdir(path)), None)
    if neutral is not None:
        syscalls.mount(folder, neutral, "", syscalls.MS_BIND | syscalls.MS_REC)
        os.chdir(neutral)


def _exec_runtime(plan: StartPlan, lifeline: int, output: int) -> NoReturn:
    try:
        os.setsid()
        os.dup2(lifeline, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        syscalls.default_signals()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        syscalls.limit(resource.RLIMIT_NOFILE, plan.process_limits["RLIMIT_NOFILE"])
        here, merged = os.getcwd(), os.path.basename(plan.merged)
        argv = [word.replace("{merged}", merged).replace("{folder}", here) for word in plan.runtime.command]
        env = {name: value.replace("{folder}", here) for name, value in plan.runtime.environment.items()}
        os.execvpe(argv[0], [*argv, pid1.PATH], env)
    except BaseException as error:  # noqa: BLE001 - as above
        os.write(2, f"{shortage.describe(error)}\n".encode())
    os._exit(71)


def wait_until_ready(plan: StartPlan, init: OuterInit) -> FirstProcess:
    """The sandbox's first process, once it is ready; OSError with the runtime's output where it does not become so."""
    deadline = time.monotonic() + plan.timeout_s
    received = b""
    while pid1.READY not in received:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([init.output], [], [], left)[0]:
            raise OSError(f"the runtime was not ready in {plan.timeout_s:g} s; it said: {_text(received)}")
        chunk = os.read(init.output, 4096)
        if not chunk:
            raise OSError(f"the runtime ended before it was ready; it said: {_text(received)}")
        received += chunk
    pid = _find_first(init.pid)
    namespaces = foreign_namespaces(pid)
    root = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    leftovers = settle.leftover_paths(plan.upper, plan.layers)
    return FirstProcess(pid, os.stat(f"/proc/{pid}/ns/pid").st_ino, namespaces, root, leftovers)


def foreign_namespaces(pid: int) -> list[tuple[int, int]]:
    """Descriptor and kind of those of a process that are not ours."""
    namespaces = []
    for name, kind in _NAMESPACES:
        path = f"/proc/{pid}/ns/{name}"
        if os.stat(path).st_ino != os.stat(f"/proc/self/ns/{name}").st_ino:
            namespaces.append((os.open(path, os.O_RDONLY | os.O_CLOEXEC), kind))
    return namespaces


def join(plan: StartPlan, inside: FirstProcess) -> None:
    """Enter the sandbox for good; children of this process are now born in its pid namespace."""
    syscalls.forbid_tracing()
    _forbid_nesting()
    for fd, kind in inside.namespaces:
        syscalls.setns(fd, kind)
        os.close(fd)
    os.fchdir(inside.root)
    os.chroot(".")
    os.close(inside.root)
    settle.settle(plan.shm_bytes, inside.leftovers)
    network.loopback_up()
    if plan.blackhole:
        network.blackhole()


def end(init: OuterInit) -> None:
    """Kill the outer pid namespace, and wait until it is gone.

    Its first process ends only when all in it are reaped; the commands are ours to reap.
    """
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(init.pid, signal.SIGKILL)
        while os.waitpid(-1, 0)[0] != init.pid:
            pass


def _forbid_nesting() -> None:
    """No user namespaces below this one: inside them the payload would have capabilities over kernel interfaces."""
    try:
        _write("/proc/sys/user/max_user_namespaces", "0")
    except OSError:
        return


def _close_all_but(keep: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _find_first(init: int) -> int:
    """The first process below init in a pid namespace that is not init's."""
    outer = os.stat(f"/proc/{init}/ns/pid").st_ino
    pids = [init]
    for pid in pids:
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}/ns/pid").st_ino != outer:
                return pid
            with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
                pids += [int(child) for child in file.read().split()]
    raise OSError("the sandbox's first process is ready, but can't be found")


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _text(received: bytes) -> str:
    return received.decode(errors="replace").strip()[-2000:] or "nothing"
