"""Whether sandboxes can be started here at this moment.

Law     a sandbox that was started for a caller counts as proof. Where none was started lately, the smallest sandbox is
        started and ended, once for all callers that ask meanwhile.
Errors  none: the reason is returned as text.
"""

import asyncio
import time
from typing import Protocol, runtime_checkable

from paddock.errors import PaddockError
from paddock.sandbox.doctor.image import probe_image, probe_settings
from paddock.sandbox.images import ImageStore
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.protocol import Provider

FRESH_S = 30.0
"""For so long one start is proof that the next would succeed."""
FAILED_FRESH_S = 3.0
"""For so long a failed trial is the answer to all who ask."""
TRIAL_TIMEOUT_S = 8.0


@runtime_checkable
class HealthReporter(Protocol):
    """A provider that knows whether it can start a sandbox."""

    async def why_not_ready(self) -> str | None: ...


class Readiness:
    """Of one provider."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._lock = asyncio.Lock()
        self._failed_at = float("-inf")
        self._why_not = ""

    async def why_not(self) -> str | None:
        """Why no sandbox can be started; None: one could be, within the last `FRESH_S`. A
        provider that says it of itself is asked; of others nothing is known."""
        if isinstance(self._provider, LocalProvider):
            return await self._why_not_here(self._provider)
        return await self._provider.why_not_ready() if isinstance(self._provider, HealthReporter) else None

    async def _why_not_here(self, provider: LocalProvider) -> str | None:
        async with self._lock:
            now = time.monotonic()
            if now - provider.started_at < FRESH_S:
                return None
            if now - self._failed_at < FAILED_FRESH_S:
                return self._why_not
            try:
                async with asyncio.timeout(TRIAL_TIMEOUT_S):
                    await _try(provider)
            except TimeoutError:
                self._why_not = f"no sandbox started within {TRIAL_TIMEOUT_S:g} s"
            except (PaddockError, OSError) as error:
                self._why_not = f"no sandbox can be started: {error}"
            else:
                return None
            self._failed_at = time.monotonic()
            return self._why_not


async def _try(provider: LocalProvider) -> None:
    settings = probe_settings(provider.settings)
    name = await asyncio.to_thread(probe_image, settings)
    await provider.try_start(ImageStore(settings.home, payload_id=settings.payload_id).get(name))
