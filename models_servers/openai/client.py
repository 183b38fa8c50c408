"""Exchanges with the endpoint: whole or streamed, bounded in time, number and tries.

Retry   failures that may pass are tried again within the call's deadline, with waits that double and are spread at
        random; `Retry-After` is honoured up to `max_retry_s`. A stream is tried again until its first parts are there.
Bounds  one wall clock per exchange; `max_concurrency` exchanges at once. Cancelling a call closes its connection; a
        stream that nobody reads is closed when its time is over.
Errors  those of `paddock.server.upstream_failures`.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar

from paddock.http import Call
from paddock.models_servers.openai.config import OpenAIConfig
from paddock.models_servers.openai.streaming import Reader, Stream
from paddock.server.upstream_exchange import EndpointSession, EndpointUrl, WholeAnswer, json_headers, retry_wait_s
from paddock.server.upstream_failures import UpstreamError, upstream_errors

T = TypeVar("T")
PATHS = {"responses": "/responses", "chat": "/chat/completions"}


class EndpointClient:
    """Exchanges with the endpoint of one config."""

    def __init__(self, config: OpenAIConfig) -> None:
        self._config = config
        self._session = EndpointSession(config.max_concurrency)
        self._slots = asyncio.Semaphore(config.max_concurrency)
        self._turn = count()
        self._urls = [EndpointUrl(url + PATHS[config.upstream_api]) for url in config.urls]
        self._headers = json_headers(config.key, config.default_headers)

    async def close(self) -> None:
        await self._session.close()

    async def whole(self, body: bytes, read: Callable[[WholeAnswer], T], call: Call, secret: str | None) -> T:
        """What `read` makes of the endpoint's whole answer to `body`."""
        url = self._url(secret)

        async def attempt() -> T:
            async with self._slots:
                limit_s = self._limit_s(call)
                with upstream_errors(url.host, limit_s):
                    return read(await self._session.post_whole(url, body, self._headers, limit_s))

        return await self._with_retries(attempt, call)

    async def stream(self, body: bytes, make_reader: Callable[[], Reader], call: Call, secret: str | None) -> Stream:
        """An open stream whose first parts have come."""
        url = self._url(secret)

        async def attempt() -> Stream:
            await self._slots.acquire()
            limit_s = self._limit_s(call)
            with upstream_errors(url.host, limit_s):
                return await self._open(url, body, make_reader(), limit_s)

        return await self._with_retries(attempt, call)

    async def tokenize(self, body: bytes, call: Call, secret: str | None) -> WholeAnswer:
        """What the endpoint's `/tokenize` (vLLM's, beside `/v1`) says of a chat request; tried once."""
        chat = str(self._url(secret).parsed)
        url = EndpointUrl(chat.removesuffix(PATHS["chat"]).removesuffix("/v1") + "/tokenize")
        limit_s = self._limit_s(call)
        with upstream_errors(url.host, limit_s):
            return await self._session.post_whole(url, body, self._headers, limit_s)

    def _url(self, secret: str | None) -> EndpointUrl:
        # A rollout keeps to one endpoint: its prefix is in that one's cache.
        number = next(self._turn) if secret is None else int.from_bytes(hashlib.sha256(secret.encode()).digest())
        return self._urls[number % len(self._urls)]

    def _limit_s(self, call: Call) -> float:
        remaining = call.remaining_s
        return self._config.timeout_s if remaining is None else min(self._config.timeout_s, remaining)

    async def _with_retries(self, attempt: Callable[[], Awaitable[T]], call: Call) -> T:
        failures = 0
        while True:
            try:
                return await attempt()
            except UpstreamError as error:
                failures += 1
                wait_s = self._wait_s(error, failures)
                late = call.remaining_s is not None and call.remaining_s <= wait_s
                if late or failures >= self._config.attempts:
                    raise
            await asyncio.sleep(wait_s)

    def _wait_s(self, failure: UpstreamError, failures: int) -> float:
        config = self._config
        return retry_wait_s(failure, failures, first_s=config.first_retry_s, longest_s=config.max_retry_s)

    async def _open(self, url: EndpointUrl, body: bytes, reader: Reader, limit_s: float) -> Stream:
        """Open a stream; the caller's slot is the stream's until it is closed."""
        deadline = asyncio.get_running_loop().time() + limit_s
        stream: Stream | None = None
        try:
            async with asyncio.timeout_at(deadline):
                response = await self._session.post(url, body, self._headers)
                stream = Stream(response, reader, url.host, limit_s, deadline, self._slots.release)
            await stream.begin()
        except BaseException:
            if stream is None:
                self._slots.release()
            else:
                await stream.aclose()
            raise
        return stream
