"""Exchanges with the judge's endpoints: bounded in time and number, tried again while that may help.

Retry   failures that may pass are tried again, elsewhere at once and at the same place after waits that double, for
        `retry_for_s` from the first failure on. Whoever does not wait any more cancels: that ends it earlier.
Bounds  one wall clock per exchange; `max_concurrency` exchanges at once, a wait between tries not among them.
Errors  those of `paddock.server.upstream_failures` and of `endpoints`.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from paddock.http.transport import make_client
from paddock.models_servers.genrm.config import GenrmModelConfig
from paddock.models_servers.genrm.endpoints import JudgeEndpoints
from paddock.server.upstream_exchange import WholeAnswer, json_headers, post_whole, retry_wait_s
from paddock.server.upstream_failures import UpstreamError, host_of, upstream_errors

T = TypeVar("T")


class JudgeClient:
    """Asks whichever place's turn it is."""

    def __init__(self, config: GenrmModelConfig, places: JudgeEndpoints) -> None:
        self.tries = 0
        """Exchanges that were begun."""
        self._config = config
        self._client = make_client(max_connections=config.max_concurrency)
        self._slots = asyncio.Semaphore(config.max_concurrency)
        self._headers = json_headers(config.key, config.default_headers)
        self._places = places

    async def close(self) -> None:
        await self._client.aclose()

    async def ask(self, body: bytes, read: Callable[[WholeAnswer], T]) -> T:
        """What `read` makes of the answer."""
        failed, ends_at = 0, float("inf")
        while True:
            try:
                async with self._slots:
                    return await self._try(body, read, failed)
            except UpstreamError as error:
                failed += 1
                now = asyncio.get_running_loop().time()
                if failed == 1:
                    ends_at = now + self._config.retry_for_s
                wait_s = max(0.0, self._places.rested_at - now)
                if failed >= len(self._places.all):
                    wait_s = max(wait_s, self._wait_s(error, failed))
                if now + wait_s > ends_at:
                    raise
            await asyncio.sleep(wait_s)

    async def _try(self, body: bytes, read: Callable[[WholeAnswer], T], failed: int) -> T:
        place, url = self._places.turn()
        self.tries += 1
        limit_s = self._config.timeout_s
        try:
            with upstream_errors(host_of(url), limit_s):
                found = read(await post_whole(self._client, url, body, self._headers, limit_s))
        except UpstreamError as error:
            place.rests_until = asyncio.get_running_loop().time() + self._wait_s(error, failed + 1)
            place.why = error.message
            raise
        place.rests_until, place.why = 0.0, ""
        return found

    def _wait_s(self, failure: UpstreamError, failed: int) -> float:
        config = self._config
        return retry_wait_s(failure, failed, first_s=config.first_retry_s, longest_s=config.max_retry_s)
