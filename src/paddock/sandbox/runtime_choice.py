"""Opens a provider: a class of one's own, of a node, or over a container runtime that works here.

Law     a runtime is used when it has passed its trial (`doctor.try_runtime`) since this machine started; `auto` and
        `quickest` take the first that does, each in its order. Nothing is ever run without isolation.
"""

import asyncio
from typing import TYPE_CHECKING

from paddock.config.plugins import resolve_class
from paddock.errors import ConfigError
from paddock.linux import INSTEAD, require_linux
from paddock.sandbox.failures import RuntimeMissing
from paddock.sandbox.protocol import Provider
from paddock.sandbox.settings import SandboxSettings, check_home

if TYPE_CHECKING:
    from paddock.sandbox.local import LocalProvider

KIND = "sandboxes"
"""What a provider of one's own has as its `KIND`."""


async def open_provider(settings: SandboxSettings | None = None) -> Provider:
    """A provider of sandboxes: the class or the nodes that the settings name, else this machine's."""
    settings = settings or SandboxSettings()
    if settings.provider is not None:
        provider: Provider = resolve_class(settings.provider, KIND)(settings)
        return provider
    if not settings.nodes:
        return await open_local_provider(settings)
    # Imported here: sandboxes of this machine need no HTTP client.
    from paddock.sandbox.remote.client import RemoteProvider

    return RemoteProvider(settings)


async def open_local_provider(settings: SandboxSettings) -> "LocalProvider":
    """One of sandboxes on this machine; RuntimeMissing says what was tried and what to install. ConfigError where the
    settings name a node."""
    if settings.elsewhere is not None:
        message = f"sandbox.nodes, sandbox.provider: {settings.elsewhere}: this needs"
        raise ConfigError(f"{message} the images and sandboxes of this machine", kind="nodes_unusable")
    require_linux("sandboxes are made by", INSTEAD)
    # Imported here: a server whose config only has settings of sandboxes need not load what makes and tries them.
    from paddock.sandbox.cgroups import find_cgroups
    from paddock.sandbox.doctor.trial import has_passed, remember, try_runtime
    from paddock.sandbox.local import LocalProvider
    from paddock.sandbox.runtimes import QUICKEST, RUNTIMES

    check_home(settings.home, settings.min_free_disk_mib)
    cgroups = await asyncio.to_thread(find_cgroups)
    failures = []
    classes = QUICKEST if settings.runtime == "quickest" else RUNTIMES
    for runtime in (make() for make in classes):
        if settings.runtime not in ("auto", "quickest", runtime.name):
            continue
        if not await asyncio.to_thread(has_passed, runtime, settings):
            trial = await try_runtime(runtime, settings, cgroups)
            if not trial.works:
                failures.append(f"\n  {runtime.name}: {trial.why_not}")
                continue
            await asyncio.to_thread(remember, runtime, settings)
        return LocalProvider(settings, runtime, cgroups)
    raise RuntimeMissing(f"no sandbox runtime works here:{''.join(failures)}", kind="runtime_missing")
