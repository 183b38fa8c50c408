"""Sandboxes up, used and down, beside the runtime's own command over an overlay mounted by hand.

Floor   the same overlay in `unshare`, then `bwrap` or `apptainer exec` over it, with a folder made and removed; for
        lines in a session, a shell on pipes outside. Ratios are of pairs in the same round, medians over rounds.
Targets a line in a live session under 2 ms over the bare shell's; 64 sandboxes up and down within 1.5 times the bare
        command's time at the same concurrency. Memory is the proportional share (PSS) of all processes but ours.
"""

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil

from paddock.sandbox import ExecRequest, Provider, SandboxSettings, SandboxSpec, ShellRequest, open_provider
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.tiny import tiny_image
from paddock.sandbox.layers import remove_tree
from paddock.sandbox.runtimes import Apptainer, Bubblewrap

ONE_ROUNDS = 15
LINES = 300
SCALES = (32, 64)
SCALE_ROUNDS = 3
READY = "echo ready; read -r never"
MOUNT = 'mount -t overlay overlay -o userxattr,lowerdir="$1",upperdir=u,workdir=w m && shift && { "$@"; exit $?; }'
BARE = {
    "bubblewrap": "bwrap --bind m / --dev /dev --proc /proc --unshare-pid --unshare-net --unshare-ipc --unshare-uts "
    "--die-with-parent --new-session --clearenv --cap-drop ALL --chdir /",
    "apptainer": "apptainer -s exec -C -e --no-privs --net --network none --no-mount bind-paths,sys --writable m",
}


class SandboxBench(NamedTuple):
    settings: SandboxSettings
    image: str
    layer: Path
    user: int


def run() -> dict[str, Any]:
    figures: dict[str, Any] = {}
    with _home() as home:
        store = ImageStore(home, payload_id=SandboxSettings().payload_id)
        image = tiny_image(store)
        for runtime in (Bubblewrap(), Apptainer()):
            if missing := runtime.missing():
                figures[runtime.name] = missing
                continue
            settings = SandboxSettings(home=home, runtime=runtime.name)
            bench = SandboxBench(settings, image, store.get(image).layers[0], store.payload_id)
            for name, part in asyncio.run(_measure(bench)).items():
                figures[f"{runtime.name} {name}"] = part
    return figures


async def _measure(bench: SandboxBench) -> dict[str, Any]:
    provider = await open_provider(bench.settings)
    try:
        figures: dict[str, Any] = {"one": await _one(bench, provider), "line": await _lines(bench, provider)}
        for count in SCALES:
            figures[f"{count} at once"] = await _many(bench, provider, count)
        return figures
    finally:
        await provider.close()


async def _one(bench: SandboxBench, provider: Provider) -> dict[str, float]:
    """Create, one command, destroy."""

    async def ours() -> None:
        sandbox = await _create(bench, provider)
        await _true(provider, sandbox)
        await provider.destroy(sandbox)

    async def floor() -> None:
        bare = await _bare(bench, "true")
        await bare.wait()

    await ours()
    pairs = [(await _seconds(ours), await _seconds(floor)) for _ in range(ONE_ROUNDS)]
    return _compare(pairs)


async def _lines(bench: SandboxBench, provider: Provider) -> dict[str, float]:
    """A builtin and a program in a live session."""
    sandbox = await _create(bench, provider)
    shell = await provider.open_shell(sandbox, ShellRequest())
    figures: dict[str, float] = {}
    with _pipe_shell() as say:
        for name, line in (("builtin", "true"), ("program", "/bin/true")):
            ours, floors = [], []
            for _ in range(LINES):
                started = time.perf_counter()
                await provider.shell_run(sandbox, shell, line)
                middle = time.perf_counter()
                say(line)
                ours.append(middle - started)
                floors.append(time.perf_counter() - middle)
            figures[f"{name}_ms"] = median(ours) * 1e3
            figures[f"{name}_floor_ms"] = median(floors) * 1e3
            figures[f"{name}_over_ms"] = (median(ours) - median(floors)) * 1e3
    started = time.perf_counter()
    for _ in range(LINES):
        await _true(provider, sandbox)
    figures["exec_ms"] = (time.perf_counter() - started) / LINES * 1e3
    await provider.destroy(sandbox)
    return figures


async def _many(bench: SandboxBench, provider: Provider, count: int) -> dict[str, float]:
    """So many up, a command in each, and down."""
    memory = [0.0, 0.0]

    async def ours() -> None:
        sandboxes = await asyncio.gather(*(_create(bench, provider) for _ in range(count)))
        await asyncio.gather(*(_true(provider, sandbox) for sandbox in sandboxes))
        memory[0] = await _pss_mib()
        await asyncio.gather(*(provider.destroy(sandbox) for sandbox in sandboxes))

    async def floor() -> None:
        gate = asyncio.Semaphore(bench.settings.starts_at_once)

        async def start() -> _BareSandbox:
            async with gate:
                bare = await _bare(bench, READY)
                await bare.ready()
                return bare

        bares = await asyncio.gather(*(start() for _ in range(count)))
        memory[1] = await _pss_mib()
        await asyncio.gather(*(bare.kill() for bare in bares))

    idle = await _pss_mib()
    pairs = [(await _seconds(ours), await _seconds(floor)) for _ in range(SCALE_ROUNDS)]
    each = {"mib_each": (memory[0] - idle) / count, "floor_mib_each": (memory[1] - idle) / count}
    return {**_compare(pairs), **each}


class _BareSandbox:
    """The runtime's own command over an overlay."""

    def __init__(self, folder: Path, process: asyncio.subprocess.Process) -> None:
        self._folder = folder
        self._process = process

    async def ready(self) -> None:
        assert self._process.stdout
        line = await self._process.stdout.readline()
        if line != b"ready\n":
            raise RuntimeError(f"the bare command says {line!r}")

    async def wait(self) -> None:
        if code := await self._process.wait():
            raise RuntimeError(f"the bare command ended with {code}")
        await asyncio.to_thread(remove_tree, self._folder)

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()
        await asyncio.to_thread(remove_tree, self._folder)


async def _bare(bench: SandboxBench, script: str) -> _BareSandbox:
    folder = Path(tempfile.mkdtemp(prefix="bare-", dir=bench.settings.home))
    for path in (folder, *(folder / name for name in "uwm")):
        path.mkdir(exist_ok=True)
        os.chown(path, bench.user, bench.user)
    words = ["unshare", "-Urmpf", "--mount-proc", "--kill-child=KILL", "sh", "-c", MOUNT, "x", str(bench.layer)]
    words += [*BARE[bench.settings.runtime].split(), "/bin/sh", "-c", script]
    rights: dict[str, Any] = {}
    if os.geteuid() == 0:
        rights = {"user": bench.user, "group": bench.user, "extra_groups": []}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, cwd=folder, **rights)
    return _BareSandbox(folder, process)


async def _create(bench: SandboxBench, provider: Provider) -> str:
    handle = await provider.create(SandboxSpec(image=bench.image), request_id=uuid.uuid4().hex)
    return handle.sandbox_id


async def _true(provider: Provider, sandbox: str) -> None:
    result = await provider.exec(sandbox, ExecRequest(argv=["true"]), request_id=uuid.uuid4().hex)
    if not result.ok:
        raise RuntimeError(f"true ended as {result}")


async def _seconds(act: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    await act()
    return time.perf_counter() - started


def _compare(pairs: list[tuple[float, float]]) -> dict[str, float]:
    return {
        "ms": median(ours for ours, _ in pairs) * 1e3,
        "floor_ms": median(floor for _, floor in pairs) * 1e3,
        "ratio": median(ours / floor for ours, floor in pairs),
    }


async def _pss_mib() -> float:
    """Proportional memory of all processes below this one."""

    def add() -> float:
        total = 0
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                total += process.memory_full_info().pss
        return total / 2**20

    return await asyncio.to_thread(add)


@contextmanager
def _home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="paddock-bench-", dir="/var/tmp"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def _pipe_shell() -> Iterator[Callable[[str], None]]:
    """Runs a line in a shell of the host, and waits for its status."""
    command = ["bash" if shutil.which("bash") else "sh"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:

        def say(line: str) -> None:
            assert process.stdin and process.stdout
            process.stdin.write(f"{line}; echo $?\n".encode())
            process.stdout.read(64)

        try:
            yield say
        finally:
            process.kill()
