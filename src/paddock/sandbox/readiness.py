"""Whether sandboxes can be started here at this moment.

Law     a sandbox that was started for a caller counts as proof. Where none was started lately, the smallest sandbox is
        started and ended, once for all callers that ask meanwhile.
Errors  none: the reason is returned as text.
"""

import asyncio
import time

from paddock.errors import PaddockError
from paddock.sandbox.doctor.image import probe_image, probe_settings
from paddock.sandbox.images import ImageStore
from paddock.sandbox.local import LocalProvider

FRESH_S = 30.0
"""For so long one start is proof that the next would succeed."""
FAILED_FRESH_S = 3.0
"""For so long a failed trial is the answer to all who ask."""
TRIAL_TIMEOUT_S = 8.0


class Readiness:
    """Of one provider."""

    def __init__(self, provider: LocalProvider) -> None:
        self._provider = provider
        self._lock = asyncio.Lock()
        self._failed_at = float("-inf")
        self._why_not = ""

    async def why_not(self) -> str | None:
        """Why no sandbox can be started; None: one could be, within the last `FRESH_S`."""
        async with self._lock:
            now = time.monotonic()
            if now - self._provider.started_at < FRESH_S:
                return None
            if now - self._failed_at < FAILED_FRESH_S:
                return self._why_not
            try:
                async with asyncio.timeout(TRIAL_TIMEOUT_S):
                    await self._try()
            except TimeoutError:
                self._why_not = f"no sandbox started within {TRIAL_TIMEOUT_S:g} s"
            except (PaddockError, OSError) as error:
                self._why_not = f"no sandbox can be started: {error}"
            else:
                return None
            self._failed_at = time.monotonic()
            return self._why_not

    async def _try(self) -> None:
        settings = probe_settings(self._provider.settings)
        name = await asyncio.to_thread(probe_image, settings)
        await self._provider.try_start(ImageStore(settings.home, payload_id=settings.payload_id).get(name))
