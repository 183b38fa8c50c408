"""A step of a build, run inside: no network, own process, mount and ipc namespaces, no capabilities, the payload's uid.

Root    the overlay of the layers below and the layer in the making, or that layer alone; `/tmp` and `/mnt` are in
        memory, folders of the host are readable below `/mnt`.
Law     the environment is what is given, nothing of ours. A step that outlives its builder is killed.
StepBounds  of memory and processes: `bounds`.
Disk    what the step has written is counted while it runs and when it has ended, by the limits of an image: blocks, and
        files, folders and links, of the one layer. What is deleted and still open counts to the free disk alone.
Errors  RuntimeMissing: no bubblewrap or no user namespaces. ImageInvalid `image_too_large`: it was killed for what it
        wrote, `build_limit`: it passed its bounds; InfraError `disk_full`. The step's exit code is the caller's.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from paddock.errors import InfraError
from paddock.processes.command import CommandResult, run
from paddock.sandbox.failures import RuntimeMissing
from paddock.sandbox.images.build.bounds import StepBounds, bounds_of
from paddock.sandbox.images.build.stage import BuildStage
from paddock.sandbox.images.unpack.limits import Budget, ImageLimits
from paddock.sandbox.watchdog.disk import disk_use

LOOK_S = 0.5
"""Between two looks at what a step has written, at least; three times what the last one took, if that is longer."""
_FIRST_LOOKS_S = 0.05
"""Until its first process is known."""
GIVEN = "/mnt/given"
"""Where a build's step sees what it is given."""
_MOUNT = """
m=$1 o=$2; shift 2
if [ -n "$o" ]; then mount -t overlay overlay -o "$o" "$m" || exit 1; fi
exec "$@"
"""


async def run_inside(
    stage: BuildStage,
    below: Sequence[Path],
    script: str,
    *,
    payload_id: int,
    limits: ImageLimits,
    env: Mapping[str, str],
    folders: Mapping[str, Path] | None = None,
    timeout_s: float = 1800.0,
) -> CommandResult:
    """Run a bash script within `limits`; what it writes lands in `stage.tree`. `folders`: host folders by name below
    `/mnt`."""
    for program in ("bwrap", "unshare"):
        if not shutil.which(program):
            raise RuntimeMissing(
                f"building an image needs {program}: apt-get install bubblewrap util-linux", kind="runtime_missing"
            )
    options = ""
    root = stage.tree
    if below:
        root = stage.folder("merged")
        lower = ":".join(str(path) for path in reversed(below))
        options = f"userxattr,lowerdir={lower},upperdir={stage.tree},workdir={stage.work}"
    status = stage.root / "status"
    with status.open("wb") as pipe:
        argv: list[str | Path] = [*_as_payload(payload_id), "unshare", "-Urm", "sh", "-c", _MOUNT, "sh", root, options]
        argv += _bubblewrap(root, env, folders or {}, pipe.fileno())
        argv += ["bash", "--norc", "--noprofile", "-euc", script]
        # mount(8) of newer systems cuts long option strings unless told to use the old call.
        env = {"LIBMOUNT_FORCE_MOUNT2": "always"}
        async with bounds_of(limits) as bounds:
            running = run(bounds.inside(argv), env=env, timeout_s=timeout_s, pass_fds=[pipe.fileno()])
            done = await _within(limits, bounds, stage.tree, status, running)
    if "exit-code" not in status.read_text():
        raise InfraError(f"no sandbox for the build:\n{done.tail}", kind="build_sandbox", retryable=False)
    return done


async def _within(
    limits: ImageLimits, bounds: StepBounds, tree: Path, status: Path, running: Coroutine[Any, Any, CommandResult]
) -> CommandResult:
    task, pause_s = asyncio.ensure_future(running), _FIRST_LOOKS_S
    try:
        while True:
            ended = await bounds.wait(task, pause_s)
            await bounds.look(status)
            since = time.monotonic()
            await asyncio.to_thread(_look, limits, tree)
            pause_s = max(LOOK_S if bounds.watching else _FIRST_LOOKS_S, 3 * (time.monotonic() - since))
            if ended:
                return task.result()
    finally:
        task.cancel()
        await asyncio.wait([task])
        # What it wrote is said first: its own error has been seen, and is not logged as lost.
        _ = task.cancelled() or task.exception()


def _look(limits: ImageLimits, tree: Path) -> None:
    use = disk_use(tree, most_files=limits.entries)
    Budget(limits, str(tree)).hold(use.bytes, use.files, whole=use.whole)


def _as_payload(payload_id: int) -> list[str]:
    if os.geteuid() != 0:
        return []
    who = str(payload_id)
    return ["setpriv", "--reuid", who, "--regid", who, "--clear-groups", "--"]


def _bubblewrap(root: Path, env: Mapping[str, str], folders: Mapping[str, Path], status: int) -> list[str | Path]:
    words: list[str | Path] = ["bwrap", "--bind", root, "/", "--dev", "/dev", "--proc", "/proc"]
    words += ["--perms", "1777", "--tmpfs", "/tmp", "--tmpfs", "/mnt"]  # noqa: S108 - the sandbox's own
    for name, path in folders.items():
        words += ["--ro-bind", path, f"/mnt/{name}"]
    words += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += ["--json-status-fd", str(status)]
    words += ["--hostname", "build", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    for name, value in env.items():
        words += ["--setenv", name, value]
    return [*words, "--chdir", "/"]


def open_to_all(given: Path) -> None:
    """Let the payload's uid read what it is given, whatever our umask."""
    for folder, _names, files in os.walk(given):
        Path(folder).chmod(0o755)
        for file in files:
            Path(folder, file).chmod(0o644)
