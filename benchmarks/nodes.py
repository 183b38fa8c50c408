"""Sandboxes of a node on loopback beside the same provider without one, call by call; and of two nodes beside one.

Floor   the provider of this machine in this process, over the same image; pairs of calls, each side first in turn.
        Of two nodes: the same client over one.
Targets a command over a node takes at most 2 ms more than one without; to place over two nodes costs at most 5 ms.
"""

import asyncio
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from paddock.sandbox import ExecRequest, Provider, SandboxSettings, SandboxSpec, ShellRequest, open_provider
from paddock.sandbox.doctor import probe_settings
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.tiny import tiny_image
from paddock.server.loops import loop_factory

CALLS = 300
CREATES = 40
ROUNDS = 10
AT_ONCE = 32
LIVES = 8
CONTENT = b"x" * (1 << 20)
TOKEN = "of-the-benchmark"


class NodeComparison(NamedTuple):
    """Medians of calls."""

    local_ms: float
    remote_ms: float
    over_ms: list[float]
    """How much more the remote one took, in each round."""

    def figures(self) -> dict[str, float]:
        return {"local_ms": self.local_ms, "remote_ms": self.remote_ms, "over_ms": median(self.over_ms)}


def run() -> dict[str, Any]:
    settings = probe_settings(SandboxSettings(runtime="bubblewrap"))
    image = tiny_image(ImageStore(settings.home, payload_id=settings.payload_id))
    with _node(settings.home) as one, _node(settings.home) as other:
        over_one, over_two = (settings.model_copy(update={"nodes": nodes}) for nodes in ((one,), (one, other)))
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            measured = runner.run(_measure(settings, over_one, image))
            measured |= runner.run(_measure_pool(over_one, over_two, image))
    return {name: comparison.figures() for name, comparison in measured.items()}


def one_node() -> dict[str, NodeComparison]:
    """A command, and a life, over one node and here."""
    settings = probe_settings(SandboxSettings(runtime="bubblewrap"))
    image = tiny_image(ImageStore(settings.home, payload_id=settings.payload_id))
    with _node(settings.home) as node, asyncio.Runner(loop_factory=loop_factory()) as runner:
        measured = runner.run(_measure(settings, settings.model_copy(update={"nodes": (node,)}), image))
    return {name: measured[name] for name in ("exec", "create and destroy")}


@contextmanager
def _node(home: Path) -> Iterator[str]:
    os.environ["PADDOCK_TOKEN"] = TOKEN
    command = [sys.executable, "-m", "paddock", "sandbox", "serve", "--home", str(home), "--settings", "/dev/stdin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write("runtime: bubblewrap\nadmission: {memory_per_sandbox_mib: 64}\n")
        process.stdin.close()
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


async def _measure(here: SandboxSettings, there: SandboxSettings, image: str) -> dict[str, NodeComparison]:
    providers = [await open_provider(here), await open_provider(there)]
    try:
        local, remote = [await _calls(provider, image) for provider in providers]
        figures = {}
        for name in ("exec", "line", "read 1 MiB", "stats"):
            figures[name] = await _compare(local[name], remote[name], CALLS)
        figures["create and destroy"] = await _compare(
            lambda: _life(providers[0], image), lambda: _life(providers[1], image), CREATES
        )
        figures[f"{AT_ONCE} at once"] = await _compare(
            lambda: _together(local["exec"]), lambda: _together(remote["exec"]), CALLS // 10
        )
        return figures
    finally:
        for provider in providers:
            await provider.close()


async def _measure_pool(one: SandboxSettings, two: SandboxSettings, image: str) -> dict[str, NodeComparison]:
    """`local` is one node here, `remote` both."""
    providers = [await open_provider(settings) for settings in (one, two)]
    try:
        over_one, over_two = [await _calls(provider, image) for provider in providers]
        return {
            "two nodes: exec": await _compare(over_one["exec"], over_two["exec"], CALLS),
            "two nodes: create and destroy": await _compare(
                lambda: _life(providers[0], image), lambda: _life(providers[1], image), CREATES
            ),
            f"two nodes: {LIVES} lives at once": await _compare(
                lambda: _together(lambda: _life(providers[0], image), LIVES),
                lambda: _together(lambda: _life(providers[1], image), LIVES),
                CREATES // 2,
            ),
        }
    finally:
        for provider in providers:
            await provider.close()


async def _calls(provider: Provider, image: str) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Calls of a sandbox of its own."""
    sandbox = (await provider.create(SandboxSpec(image=image), request_id=uuid.uuid4().hex)).sandbox_id
    shell = await provider.open_shell(sandbox, ShellRequest())
    await provider.write(sandbox, "/tmp/content", CONTENT)
    command = ExecRequest(argv=["/bin/true"])
    return {
        "exec": lambda: provider.exec(sandbox, command, request_id=uuid.uuid4().hex),
        "line": lambda: provider.shell_run(sandbox, shell, "true"),
        "read 1 MiB": lambda: provider.read(sandbox, "/tmp/content"),
        "stats": lambda: provider.stats(sandbox),
    }


async def _life(provider: Provider, image: str) -> None:
    handle = await provider.create(SandboxSpec(image=image), request_id=uuid.uuid4().hex)
    await provider.destroy(handle.sandbox_id)


async def _together(call: Callable[[], Awaitable[Any]], at_once: int = AT_ONCE) -> None:
    await asyncio.gather(*(call() for _ in range(at_once)))


async def _compare(
    local: Callable[[], Awaitable[Any]], remote: Callable[[], Awaitable[Any]], n_pairs: int
) -> NodeComparison:
    """Pairs of calls. Each side comes first in half of them: what the last call left behind is not the next one's."""
    sides = (local, remote)
    taken_ms: tuple[list[float], list[float]] = ([], [])
    for nth in range(n_pairs):
        for side in (0, 1) if nth % 2 else (1, 0):
            started = time.perf_counter()
            await sides[side]()
            taken_ms[side].append((time.perf_counter() - started) * 1e3)
    size = n_pairs // ROUNDS
    rounds = [slice(first, first + size) for first in range(0, size * ROUNDS, size)]
    over_ms = [median(taken_ms[1][part]) - median(taken_ms[0][part]) for part in rounds]
    return NodeComparison(median(taken_ms[0]), median(taken_ms[1]), over_ms)
