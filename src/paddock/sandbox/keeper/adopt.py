"""Entering what a container engine has started: its namespaces are joined, the rest is made as in every sandbox.

Needs   root: the engine's namespaces belong to the host's user namespace. The container itself runs as the payload's
        user; this process becomes that user too, as uid 0 of a user namespace of its own, before the first command.
First   the process that the engine names has to run our program: of a container with a kernel of its own (gVisor, Kata)
        it is that kernel, or what starts it, and whoever joins its namespaces runs on the host's kernel, perhaps among
        the host's own mounts.
Root    engines lay a layer of their own between image and sandbox (mount points, owned by root): what of it the image
        does not have is removed, what the image has belongs to the payload again.
"""

import contextlib
import os
import select
import signal
import stat
import time

from . import child, clock, launch, network, pid1, programs, settle, syscalls

FIRST_S = 5.0
"""For a container's first process to have become our program."""


def adopt(plan: "launch.StartPlan") -> "launch.JoinedSandbox":
    assert plan.runtime.container is not None
    pid, program, engine_layer = plan.runtime.container
    pidfd = os.pidfd_open(pid)
    _wait_for_ours(pid, program)
    namespaces = [*launch.foreign_namespaces(pid), (_cgroup_namespace(plan.cgroup_fds), syscalls.CLONE_NEWCGROUP)]
    pid_ns = os.stat(f"/proc/{pid}/ns/pid").st_ino
    # The engine has made a file to mount the first process's program on.
    leftovers = [*settle.leftover_paths(engine_layer, plan.layers), settle.LeftoverPath(pid1.PATH, is_dir=False)]
    shared = _shared_folders(engine_layer, plan.layers)
    mounts = programs.detached_mounts(plan.programs)
    # Ours, which shows this process: the container's `/proc` does not.
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for fd, kind in namespaces:
        syscalls.setns(fd, kind)
        os.close(fd)
    os.chdir("/")
    settle.settle(plan.shm_bytes, leftovers)
    for path, mode in shared:
        if path == "/" or not os.path.ismount(path):
            os.chown(path, plan.uid, plan.uid)
            os.chmod(path, mode)
    programs.attach(mounts, plan.uid)
    network.loopback_up()
    if plan.blackhole:
        network.blackhole()
    _become_payload(plan.uid, proc)
    os.close(proc)
    return launch.JoinedSandbox(pid, pid, pid_ns, pidfd, lambda: _end(pidfd))


def _wait_for_ours(pid: int, program: str) -> None:
    deadline = time.monotonic() + FIRST_S
    while not os.path.samefile(f"/proc/{pid}/exe", program):
        if time.monotonic() > deadline:
            other = os.readlink(f"/proc/{pid}/exe")
            raise OSError(
                f"the container's first process runs {other}, not {pid1.PATH}: a container with a kernel of its own "
                "(gVisor, Kata) can't be entered: give the engine runc or crun as its default runtime"
            )
        time.sleep(0.01)


def _cgroup_namespace(cgroup_fds: "list[int]") -> int:
    """Descriptor of one in which cgroup paths begin at the sandbox's own cgroups."""

    def enter() -> None:
        for fd in cgroup_fds:
            os.write(fd, b"0")
        syscalls.unshare(syscalls.CLONE_NEWCGROUP)

    with child.child_after(enter) as pid:
        return os.open(f"/proc/{pid}/ns/cgroup", os.O_RDONLY | os.O_CLOEXEC)


def _shared_folders(engine_layer: str, layers: "list[str]") -> "list[tuple[str, int]]":
    """Folders that both the engine and the image have, with the image's mode."""
    folders = []
    for folder, _, _ in os.walk(engine_layer):
        inside = os.path.relpath(folder, engine_layer)
        for layer in reversed(layers):
            path = os.path.join(layer, inside)
            if os.path.isdir(path) and not os.path.islink(path):
                folders.append((os.path.normpath("/" + inside), stat.S_IMODE(os.stat(path).st_mode)))
                break
    return folders


def _become_payload(uid: int, proc: int) -> None:
    launch.become(uid)
    syscalls.unshare(syscalls.CLONE_NEWUSER | clock.NAMESPACE)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {uid} 1")):
        _write(f"self/{name}", text, proc)
    if clock.NAMESPACE:
        _write(f"self/{clock.FILE}", clock.offsets(), proc)
    syscalls.forbid_tracing()
    # See `launch`: no user namespaces below this one.
    with contextlib.suppress(OSError):
        _write("sys/user/max_user_namespaces", "0", proc)


def _write(path: str, text: str, folder: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _end(pidfd: int) -> None:
    """Its first process runs as the same user as we do."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    while True:
        # Commands are ours to reap; the container's first process ends when all in its pid namespace are.
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if select.select([pidfd], [], [], 0.01)[0]:
            return
