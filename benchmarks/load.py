"""A load generator: many keep-alive connections that send one request each after the other, and time every answer.

Raw asyncio, so that the generator costs little beside the server it measures. Answers must carry Content-Length.
Units   seconds; requests per second over the whole round; CPU seconds of the serving processes, from the system.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import quantiles
from urllib.parse import urlsplit

import psutil


@dataclass(frozen=True)
class Round:
    """One measured round."""

    requests_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    """CPU milliseconds of the serving processes per request."""


def request_bytes(url: str, body: bytes) -> bytes:
    parts = urlsplit(url)
    head = (
        f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def measure(
    url: str, bodies: Sequence[bytes], *, connections: int, seconds: float, processes: Iterable[int]
) -> Round:
    """Loads `url` for about `seconds`; each connection cycles through `bodies`, from a place of its own."""
    messages = [request_bytes(url, body) for body in bodies]
    served = [psutil.Process(pid) for pid in processes]
    latencies: list[float] = []
    cpu = _cpu_s(served)
    started = time.perf_counter()
    workers = [_client(url, messages, index, started + seconds, latencies) for index in range(connections)]
    await asyncio.gather(*workers)
    elapsed = time.perf_counter() - started
    cpu = _cpu_s(served) - cpu
    cuts = quantiles(latencies, n=100) if len(latencies) > 1 else [latencies[0]] * 99
    return Round(len(latencies) / elapsed, cuts[49] * 1e3, cuts[98] * 1e3, cpu * 1e3 / len(latencies))


async def _client(url: str, messages: Sequence[bytes], index: int, until: float, latencies: list[float]) -> None:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 24)
    try:
        while True:
            started = time.perf_counter()
            writer.write(messages[index % len(messages)])
            await writer.drain()
            await _answer(reader)
            now = time.perf_counter()
            latencies.append(now - started)
            index += 1
            if now >= until:
                return
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        status = head.split(b"\r\n", 1)[0]
        raise RuntimeError(f"answer: {status!r}")
    lower = head.lower()
    start = lower.index(b"content-length:") + len(b"content-length:")
    await reader.readexactly(int(lower[start : lower.index(b"\r\n", start)]))


def _cpu_s(processes: Iterable[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)
