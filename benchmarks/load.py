"""A load generator: many keep-alive connections that send one request each after the other, and time every answer.

Raw asyncio, so that the generator costs little beside the server it measures. Answers must carry Content-Length.
Units   seconds; requests per second over the whole round; CPU seconds of the serving processes, from the system.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import quantiles

import psutil

from benchmarks.raw_http import RawConnection, message


@dataclass(frozen=True)
class LoadRound:
    """One measured round."""

    requests_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    """CPU milliseconds of the serving processes per request."""


async def measure(
    url: str, bodies: Sequence[bytes], *, connections: int, seconds: float, processes: Iterable[int]
) -> LoadRound:
    """Loads `url` for about `seconds`; each connection cycles through `bodies`, from a place of its own."""
    messages = [message(url, body) for body in bodies]
    served = [psutil.Process(pid) for pid in processes]
    latencies: list[float] = []
    cpu = _cpu_s(served)
    started = time.perf_counter()
    workers = [_client(url, messages, index, started + seconds, latencies) for index in range(connections)]
    await asyncio.gather(*workers)
    elapsed = time.perf_counter() - started
    cpu = _cpu_s(served) - cpu
    cuts = quantiles(latencies, n=100) if len(latencies) > 1 else [latencies[0]] * 99
    return LoadRound(len(latencies) / elapsed, cuts[49] * 1e3, cuts[98] * 1e3, cpu * 1e3 / len(latencies))


async def _client(url: str, messages: Sequence[bytes], index: int, until: float, latencies: list[float]) -> None:
    async with RawConnection(url) as connection:
        while True:
            started = time.perf_counter()
            await connection.exchange(messages[index % len(messages)])
            now = time.perf_counter()
            latencies.append(now - started)
            index += 1
            if now >= until:
                return


def _cpu_s(processes: Iterable[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)
