"""Chooses a container runtime that works here, and opens a provider over it.

Law     a runtime is used when it has passed its trial (`doctor.try_runtime`) since this machine started; `auto` takes
        the first that does. Nothing is ever run without isolation.
"""

import asyncio

from paddock.sandbox.cgroups import find_cgroups
from paddock.sandbox.doctor.trial import has_passed, remember, try_runtime
from paddock.sandbox.failures import RuntimeMissing
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.runtimes import RUNTIMES
from paddock.sandbox.settings import SandboxSettings, check_home


async def open_provider(settings: SandboxSettings | None = None) -> LocalProvider:
    """A provider of sandboxes on this machine; RuntimeMissing says what was tried and what to install."""
    settings = settings or SandboxSettings()
    check_home(settings.home, settings.min_free_disk_mib)
    cgroups = await asyncio.to_thread(find_cgroups)
    failures = []
    for runtime in (make() for make in RUNTIMES):
        if settings.runtime not in ("auto", runtime.name):
            continue
        if not await asyncio.to_thread(has_passed, runtime, settings):
            trial = await try_runtime(runtime, settings, cgroups)
            if not trial.works:
                failures.append(f"\n  {runtime.name}: {trial.why_not}")
                continue
            await asyncio.to_thread(remember, runtime, settings)
        return LocalProvider(settings, runtime, cgroups)
    raise RuntimeMissing(f"no sandbox runtime works here:{''.join(failures)}", kind="runtime_missing")
