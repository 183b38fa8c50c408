"""Sandboxes of a node on loopback beside the same provider without one, call by call; and of two nodes beside one.

Floor   the provider of this machine in this process, over the same image; pairs in the same round, medians over rounds.
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
from typing import Any

from paddock.sandbox import ExecRequest, Provider, SandboxSettings, SandboxSpec, ShellRequest, open_provider
from paddock.sandbox.doctor import probe_settings
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.tiny import tiny_image

ROUNDS = 300
CREATES = 30
AT_ONCE = 32
LIVES = 8
CONTENT = b"x" * (1 << 20)
TOKEN = "of-the-benchmark"


def run() -> dict[str, Any]:
    settings = probe_settings(SandboxSettings(runtime="bubblewrap"))
    image = tiny_image(ImageStore(settings.home, payload_id=settings.payload_id))
    with _node(settings.home) as one, _node(settings.home) as other:
        over_one, over_two = (settings.model_copy(update={"nodes": nodes}) for nodes in ((one,), (one, other)))
        return asyncio.run(_measure(settings, over_one, image)) | asyncio.run(_measure_pool(over_one, over_two, image))


def one_node() -> dict[str, Any]:
    """A command, and a life, over one node and here."""
    settings = probe_settings(SandboxSettings(runtime="bubblewrap"))
    image = tiny_image(ImageStore(settings.home, payload_id=settings.payload_id))
    with _node(settings.home) as node:
        figures = asyncio.run(_measure(settings, settings.model_copy(update={"nodes": (node,)}), image))
    return {name: figures[name] for name in ("exec", "create and destroy")}


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


async def _measure(here: SandboxSettings, there: SandboxSettings, image: str) -> dict[str, Any]:
    providers = [await open_provider(here), await open_provider(there)]
    try:
        local, remote = [await _calls(provider, image) for provider in providers]
        figures = {}
        for name, rounds in {"exec": ROUNDS, "line": ROUNDS, "read 1 MiB": ROUNDS, "stats": ROUNDS}.items():
            figures[name] = await _compare(local[name], remote[name], rounds)
        figures["create and destroy"] = await _compare(
            lambda: _life(providers[0], image), lambda: _life(providers[1], image), CREATES
        )
        figures[f"{AT_ONCE} at once"] = await _compare(
            lambda: _together(local["exec"]), lambda: _together(remote["exec"]), ROUNDS // 10
        )
        return figures
    finally:
        for provider in providers:
            await provider.close()


async def _measure_pool(one: SandboxSettings, two: SandboxSettings, image: str) -> dict[str, Any]:
    """`local` is one node here, `remote` both."""
    providers = [await open_provider(settings) for settings in (one, two)]
    try:
        over_one, over_two = [await _calls(provider, image) for provider in providers]
        return {
            "two nodes: exec": await _compare(over_one["exec"], over_two["exec"], ROUNDS),
            "two nodes: create and destroy": await _compare(
                lambda: _life(providers[0], image), lambda: _life(providers[1], image), CREATES
            ),
            f"two nodes: {LIVES} lives at once": await _compare(
                lambda: _together(lambda: _life(providers[0], image), LIVES),
                lambda: _together(lambda: _life(providers[1], image), LIVES),
                CREATES // 3,
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
    local: Callable[[], Awaitable[Any]], remote: Callable[[], Awaitable[Any]], rounds: int
) -> dict[str, float]:
    times_s: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for call, taken in zip((local, remote), times_s, strict=True):
            started = time.perf_counter()
            await call()
            taken.append(time.perf_counter() - started)
    here, there = (median(taken) * 1e3 for taken in times_s)
    return {"local_ms": here, "remote_ms": there, "over_ms": there - here}
