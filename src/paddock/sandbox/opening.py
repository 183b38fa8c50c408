"""Picking a runtime and opening a provider over it."""

import asyncio

from paddock.sandbox.cgroups import find_cgroups
from paddock.sandbox.failures import RuntimeMissing
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.runtimes import Bubblewrap, Runtime
from paddock.sandbox.settings import SandboxSettings

RUNTIMES: tuple[type[Runtime], ...] = (Bubblewrap,)
"""In the order that `auto` tries them."""


async def open_provider(settings: SandboxSettings | None = None) -> LocalProvider:
    """A provider of sandboxes on this machine; RuntimeMissing says what was tried and what to install."""
    settings = settings or SandboxSettings()
    tried = []
    for runtime in (make() for make in RUNTIMES):
        if settings.runtime not in ("auto", runtime.name):
            continue
        reason = runtime.missing()
        if reason is None:
            return LocalProvider(settings, runtime, await asyncio.to_thread(find_cgroups))
        tried.append(f"{runtime.name}: {reason}")
    raise RuntimeMissing(f"no sandbox runtime works here: {'; '.join(tried)}", kind="runtime_missing")
