"""Exchanges with the judge's endpoints: bounded in time and number, tried again while that may help.

Retry   failures that may pass are tried again, at another endpoint at once and at the same after waits that double, for
        `retry_for_s` from the first failure on. Whoever does not wait any more cancels: that ends it earlier.
Bounds  one wall clock per exchange; `max_concurrency` exchanges at once, a wait between tries not among them.
Errors  those of `paddock.server.upstream_failures` and of `endpoints`.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from paddock.models_servers.genrm.config import GenrmModelConfig
from paddock.models_servers.genrm.endpoints import JudgeEndpoints
from paddock.server.upstream_exchange import EndpointSession, WholeAnswer, json_headers, retry_wait_s
from paddock.server.upstream_failures import UpstreamError, upstream_errors

T = TypeVar("T")


class JudgeClient:
    """Posts requests to the endpoints of a judge in turn."""

    def __init__(self, config: GenrmModelConfig, endpoints: JudgeEndpoints) -> None:
        self.exchanges = 0
        """How many exchanges were begun."""
        self._config = config
        self._session = EndpointSession(config.max_concurrency)
        self._slots = asyncio.Semaphore(config.max_concurrency)
        self._headers = json_headers(config.key, config.default_headers)
        self._endpoints = endpoints

    async def close(self) -> None:
        await self._session.close()

    async def ask(self, body: bytes, read: Callable[[WholeAnswer], T]) -> T:
        """What `read` makes of the judge's answer to `body`; tried again as the module says."""
        failures, ends_at = 0, float("inf")
        while True:
            try:
                async with self._slots:
                    return await self._exchange(body, read, failures)
            except UpstreamError as error:
                failures += 1
                now = asyncio.get_running_loop().time()
                if failures == 1:
                    ends_at = now + self._config.retry_for_s
                wait_s = max(0.0, self._endpoints.available_at - now)
                if failures >= len(self._endpoints.all):
                    wait_s = max(wait_s, self._wait_s(error, failures))
                if now + wait_s > ends_at:
                    raise
            await asyncio.sleep(wait_s)

    async def _exchange(self, body: bytes, read: Callable[[WholeAnswer], T], failures: int) -> T:
        endpoint, url = self._endpoints.next_endpoint()
        self.exchanges += 1
        limit_s = self._config.timeout_s
        try:
            with upstream_errors(url.host, limit_s):
                answer = read(await self._session.post_whole(url, body, self._headers, limit_s))
        except UpstreamError as error:
            endpoint.skipped_until = asyncio.get_running_loop().time() + self._wait_s(error, failures + 1)
            endpoint.last_error = error.message
            raise
        endpoint.skipped_until, endpoint.last_error = 0.0, ""
        return answer

    def _wait_s(self, failure: UpstreamError, failures: int) -> float:
        config = self._config
        return retry_wait_s(failure, failures, first_s=config.first_retry_s, longest_s=config.max_retry_s)
