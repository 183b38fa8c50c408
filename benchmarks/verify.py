"""`/verify` against the bare FastAPI floor: requests per second, p50 and p99, CPU per request, and their ratios.

Each case runs ours and the floor in turn, several rounds; the figures are medians over rounds, the ratios medians of
the rounds' ratios. Target: at least half of the floor's requests per second for `compat` and `layered` at every size.
Also, in process: the time of one `semantic` comparison at 30 kB.
"""

import asyncio
import time
from statistics import median, quantiles
from typing import Any

import orjson

from benchmarks.bodies import verify_request
from benchmarks.floor_server import judge
from benchmarks.load import LoadRound, measure
from benchmarks.processes import family, running
from paddock.ports import free_port

SIZES = {"30kB": 30_000, "200kB": 200_000, "2MB": 2_000_000}
CONNECTIONS = (1, 64, 256)
COMPARATORS = ("compat", "layered", "semantic")
ROUNDS = 3
ROUND_S = {"30kB": 1.0, "200kB": 1.5, "2MB": 2.5}
BODIES = {"30kB": 32, "200kB": 8, "2MB": 2}
CONFIG = "resources_servers/pivot/configs/pivot.yaml"


def run() -> dict[str, Any]:
    cases = [case for comparator in COMPARATORS for case in _comparator(comparator)]
    return {"cases": cases, "semantic_alone_30kB": _alone("semantic"), "layered_alone_30kB": _alone("layered")}


def _comparator(comparator: str) -> list[dict[str, Any]]:
    ours, floor = free_port(), free_port()
    serve = ["paddock", "serve", CONFIG, "--server", "pivot"]
    # The floor asks for no token.
    overrides = [
        "serve.loopback_token=false",
        f"pivot.resources_servers.pivot.port={ours}",
        f"pivot.resources_servers.pivot.comparator={comparator}",
    ]
    with (
        running([*serve, *overrides], f"http://127.0.0.1:{ours}/healthz") as a,
        running(
            ["benchmarks.floor_server", "--port", str(floor), "--comparator", comparator],
            f"http://127.0.0.1:{floor}/docs",
        ) as b,
    ):
        return [
            _case(comparator, size, connections, (ours, family(a.pid)), (floor, family(b.pid)))
            for size in SIZES
            for connections in CONNECTIONS
        ]


def _case(
    comparator: str, size: str, connections: int, ours: tuple[int, list[int]], floor: tuple[int, list[int]]
) -> dict[str, Any]:
    bodies = [orjson.dumps(verify_request(SIZES[size], seed)) for seed in range(BODIES[size])]

    def once(where: tuple[int, list[int]]) -> LoadRound:
        url = f"http://127.0.0.1:{where[0]}/verify"
        load = measure(url, bodies, connections=connections, seconds=ROUND_S[size], processes=where[1])
        return asyncio.run(load)

    pairs = [(once(ours), once(floor)) for _ in range(ROUNDS)]
    mine, bare = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return {
        "comparator": comparator,
        "size": size,
        "connections": connections,
        "requests_per_s": median(item.requests_per_s for item in mine),
        "p50_ms": median(item.p50_ms for item in mine),
        "p99_ms": median(item.p99_ms for item in mine),
        "cpu_ms": median(item.cpu_ms for item in mine),
        "floor_requests_per_s": median(item.requests_per_s for item in bare),
        "floor_p50_ms": median(item.p50_ms for item in bare),
        "ratio": median(a.requests_per_s / b.requests_per_s for a, b in pairs),
        "cpu_ratio": median(a.cpu_ms / b.cpu_ms for a, b in pairs),
    }


def _alone(comparator: str) -> dict[str, float]:
    """Milliseconds of one comparison in process, over parsed bodies."""
    bodies = [verify_request(SIZES["30kB"], seed) for seed in range(32)]
    times = []
    for _ in range(20):
        for body in bodies:
            started = time.perf_counter()
            judge(comparator, body)
            times.append((time.perf_counter() - started) * 1e3)
    cuts = quantiles(times, n=100)
    return {"p50_ms": cuts[49], "p99_ms": cuts[98]}
