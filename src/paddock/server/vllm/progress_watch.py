"""Whether a vLLM still samples: one whose engine hangs takes requests, answers none, and says that it is healthy.

Asked   for one token, four times in `timeout_s`. It is stalled when that does not come and its counters of tokens
        (`/metrics`) stand still for three quarters of that: a queue, or a long prompt, moves them. So no request waits
        for a vLLM that hangs longer than `timeout_s` before it is given up.
Pause   while it is paused or sleeps on purpose it is not asked, and no time counts.
Unknown one without these counters (`--disable-log-stats`) is never stalled; one that does not answer `/metrics` is.
"""

import asyncio
from contextlib import suppress
from typing import Any

import aiohttp

from paddock.errors import PaddockError
from paddock.server.engine_client import EngineClient
from paddock.types import JsonObject

COUNTERS = ("vllm:generation_tokens_total", "vllm:prompt_tokens_total", "vllm:iteration_tokens_total_count")
PROBES = 4
"""In `timeout_s`."""
LOOKS = 4
"""At its counters, between two probes."""
_PAUSES, _RESUMES = ("pause", "sleep"), ("resume", "wake_up")
_PROMPT = [1, 2, 3]


class ProgressWatch:
    """Watches one vLLM from `start` to `stop`."""

    def __init__(self, client: EngineClient, model: str, timeout_s: float) -> None:
        self.stalled: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why it counts as one that hangs, when it does."""
        self._client = client
        self._model = model
        self._timeout_s = timeout_s
        self._may_sample = asyncio.Event()
        self._may_sample.set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """May be called again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def begins(self, call: str, body: JsonObject) -> None:
        """A trainer's call is passed on to it now. With the last part of it awake it samples."""
        if call in _RESUMES and body.get("tags") in (None, "kv_cache"):
            self._may_sample.set()

    def ended(self, call: str) -> None:
        """It has answered the call well."""
        if call in _PAUSES:
            self._may_sample.clear()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._timeout_s / PROBES)
            await self._may_sample.wait()
            probe = asyncio.create_task(self._probe())
            try:
                if await self._is_stalled(probe):
                    said = f"no token came for {self._timeout_s:g} s (`launch.stall_timeout_s`), though it is healthy"
                    self.stalled.set_result(said)
                    return
            finally:
                probe.cancel()
                await asyncio.gather(probe, return_exceptions=True)

    async def _is_stalled(self, probe: "asyncio.Task[None]") -> bool:
        """Wait for the probe's answer; True where nothing moves meanwhile for too long."""
        loop, look_s = asyncio.get_running_loop(), self._timeout_s / PROBES / LOOKS
        seen, moved_at = await self._counters(look_s), loop.time()
        while not probe.done():
            await asyncio.wait({probe}, timeout=look_s)
            counters = await self._counters(look_s)
            if counters == [] or not self._may_sample.is_set() or (counters is not None and counters != seen):
                seen, moved_at = counters if counters is not None else seen, loop.time()
            elif loop.time() - moved_at >= self._timeout_s * (1 - 1 / PROBES) - look_s and not probe.done():
                return True
        return False

    async def _probe(self) -> None:
        # Its errors are those of its health check, which says more of them.
        with suppress(PaddockError):
            body = {"model": self._model, "prompt": _PROMPT, "max_tokens": 1, "temperature": 1.0}
            await self._client.post("/v1/completions", body, self._timeout_s * 2)

    async def _counters(self, timeout_s: float) -> list[bytes] | None:
        """The lines of its counters of tokens; None: it did not answer."""
        try:
            async with asyncio.timeout(timeout_s):
                reply: Any = await self._client.send("GET", "/metrics", None, timeout_s)
        except (TimeoutError, aiohttp.ClientError):
            return None
        return [line for line in reply.content.splitlines() if line.decode(errors="replace").startswith(COUNTERS)]
