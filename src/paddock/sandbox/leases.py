"""Leases of things that the servers of one process share: a provider, an admission.

Law     the first lease makes the thing, the last release closes it; where making it fails, the next lease tries again.
        Things of one event loop are never shared with another.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

from paddock.sandbox.failures import SandboxError
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.protocol import Provider
from paddock.sandbox.readiness import Readiness
from paddock.sandbox.runtime_choice import open_local_provider, open_provider
from paddock.sandbox.settings import SandboxSettings

T = TypeVar("T")
P = TypeVar("P", bound=Provider)


class _Shared(Generic[T]):
    """A shared thing and the number of its holders."""

    def __init__(self, close: Callable[[T], Awaitable[None]]) -> None:
        self.holders = 0
        self.lock = asyncio.Lock()
        self.close = close
        self.thing: T | None = None


_shared: dict[tuple[asyncio.AbstractEventLoop, Hashable], _Shared[Any]] = {}


class Lease(Generic[T]):
    """One holder's claim on a shared thing."""

    def __init__(self, key: tuple[asyncio.AbstractEventLoop, Hashable], shared: _Shared[T], thing: T) -> None:
        self.value = thing
        self._key = key
        self._shared: _Shared[T] | None = shared

    async def release(self) -> None:
        """Idempotent; the last holder's release closes the thing."""
        shared, self._shared = self._shared, None
        if shared is not None:
            await _drop(self._key, shared)


async def lease(name: Hashable, make: Callable[[], Awaitable[T]], close: Callable[[T], Awaitable[None]]) -> Lease[T]:
    """A claim on what is shared under `name` in this loop, made where nobody holds it yet."""
    key = (asyncio.get_running_loop(), name)
    shared: _Shared[T] = _shared.setdefault(key, _Shared(close))
    shared.holders += 1
    try:
        async with shared.lock:
            if shared.thing is None:
                shared.thing = await make()
            return Lease(key, shared, shared.thing)
    except BaseException:
        await _drop(key, shared)
        raise


async def shared_provider(settings: SandboxSettings) -> Lease[Provider]:
    """The provider of these settings, which can start a sandbox; `release` it in place of closing it."""
    return await _shared_provider(settings, lambda: open_provider(settings))


async def shared_local_provider(settings: SandboxSettings) -> Lease[LocalProvider]:
    """The same, of this machine's sandboxes; ConfigError where the settings name a node."""
    return await _shared_provider(settings, lambda: open_local_provider(settings))


async def _shared_provider(settings: SandboxSettings, open_it: Callable[[], Awaitable[P]]) -> Lease[P]:
    async def make() -> P:
        provider = await open_it()
        if (why_not := await Readiness(provider).why_not()) is not None:
            await provider.close()
            raise SandboxError(why_not, kind="not_ready", retryable=False)
        return provider

    return await lease(settings, make, lambda provider: provider.close())


def live_sandboxes() -> int:
    """How many sandboxes the shared providers of this process hold."""
    things: list[Any] = [shared.thing for shared in _shared.values()]
    return sum(len(thing.live()) for thing in things if hasattr(thing, "live"))


async def _drop(key: tuple[asyncio.AbstractEventLoop, Hashable], shared: _Shared[T]) -> None:
    shared.holders -= 1
    if shared.holders:
        return
    # From here on the next lease makes its own, while this one closes.
    del _shared[key]
    thing, shared.thing = shared.thing, None
    if thing is not None:
        await shared.close(thing)
