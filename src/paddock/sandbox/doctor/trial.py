"""One runtime's trial, and the record that it passed.

Record  `<home>/probe/passed/<runtime>`: this machine's boot, the runtime's program, the payload's user. Any of them
        changed, it is tried again; a failure is never recorded.
"""

import asyncio
import contextlib
import hashlib
import os
import subprocess
import time
from pathlib import Path

from paddock.sandbox.cgroups import Cgroups
from paddock.sandbox.doctor.image import probe_image, probe_settings
from paddock.sandbox.doctor.probe import ProbeCheck, probe
from paddock.sandbox.failures import SandboxError
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.records import RuntimeName
from paddock.sandbox.runtimes import ContainerRuntime
from paddock.sandbox.settings import SandboxSettings
from paddock.types import Record
from paddock.whole_file import write_whole

TRIAL_TIMEOUT_S = 20.0
"""A trial takes a second on an idle machine, ten where ten processes share a core: that is no fault of a runtime."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Trial(Record):
    """The result of trying a runtime."""

    runtime: RuntimeName
    missing: str | None = None
    """Why it was not tried at all."""
    checks: list[ProbeCheck] = []
    duration_s: float = 0.0

    @property
    def works(self) -> bool:
        return self.missing is None and bool(self.checks) and all(check.wrong is None for check in self.checks)

    @property
    def why_not(self) -> str:
        wrong = [f"{check.name}: {check.wrong}" for check in self.checks if check.wrong is not None]
        return self.missing or "; ".join(wrong) or ("" if self.checks else "not tried")


async def try_runtime(
    runtime: ContainerRuntime, settings: SandboxSettings, cgroups: Cgroups | None, *, memory: bool = False
) -> Trial:
    """Never raises for what the runtime does; the time it may take is bounded."""
    started = time.monotonic()
    missing = await asyncio.to_thread(runtime.missing)
    if missing is not None:
        return Trial(runtime=runtime.name, missing=missing)
    settings = probe_settings(settings)
    checks: list[ProbeCheck] = []
    try:
        async with asyncio.timeout(TRIAL_TIMEOUT_S):
            image = await asyncio.to_thread(probe_image, settings)
            provider = LocalProvider(settings, runtime, cgroups)
            try:
                checks = await probe(provider, image, memory=memory)
            finally:
                await asyncio.shield(provider.close())
    except TimeoutError:
        checks.append(ProbeCheck(name="time", wrong=f"the trial took more than {TRIAL_TIMEOUT_S:g} s"))
    except (OSError, SandboxError) as error:
        checks.append(ProbeCheck(name="set-up", wrong=str(error)))
    return Trial(runtime=runtime.name, checks=checks, duration_s=time.monotonic() - started)


def has_passed(runtime: ContainerRuntime, settings: SandboxSettings) -> bool:
    """And its program is still there. Blocks: an engine is asked."""
    try:
        mark = _record(runtime, settings).read_text()
        return runtime.missing() is None and mark == _mark(runtime, settings)
    except (OSError, subprocess.SubprocessError):
        return False


def remember(runtime: ContainerRuntime, settings: SandboxSettings) -> None:
    record = _record(runtime, settings)
    # What can't be kept is tried again next time.
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        record.parent.mkdir(parents=True, exist_ok=True)
        write_whole(record, _mark(runtime, settings))


def _record(runtime: ContainerRuntime, settings: SandboxSettings) -> Path:
    return probe_settings(settings).home / "passed" / runtime.name


def _mark(runtime: ContainerRuntime, settings: SandboxSettings) -> str:
    """What a passed trial depends on; this package too, because another version of it starts runtimes differently."""
    code = hashlib.sha256()
    package = Path(__file__).parent.parent
    for folder in ("keeper", "runtimes", "doctor"):
        for file in sorted((package / folder).glob("*.py")):
            code.update(file.read_bytes())
    boot = _BOOT.read_text().strip()
    return f"{boot}\n{runtime.version()}\n{os.geteuid()} {settings.payload_id} {settings.uids}\n{code.hexdigest()}\n"
