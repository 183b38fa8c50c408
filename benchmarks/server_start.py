"""Start of the whole pivot set until every server is healthy, and the memory of all its processes.

Both ways: all servers in one process, and `--isolate`. Floor: one bare FastAPI app under uvicorn. Target: under 2 s and
under 200 MiB in one process.
"""

import time
from statistics import median
from typing import Any

from benchmarks.processes import footprint, running
from paddock.ports import free_port

ROUNDS = 5
CONFIGS = ("resources_servers/pivot/configs/pivot.yaml", "models_servers/openai/configs/openai.yaml")
SERVERS = {
    "pivot": "resources_servers.pivot",
    "pivot_agent": "agents.single_step",
    "policy_model": "models_servers.openai",
}


def run() -> dict[str, Any]:
    one, many, floor = [], [], []
    for _ in range(ROUNDS):
        one.append(_start())
        many.append(_start("--isolate"))
        floor.append(_floor())
    return {
        "one_process": _summary(one),
        "isolate": _summary(many),
        "floor": _summary(floor),
        "ratio_s": median(ours["seconds"] / bare["seconds"] for ours, bare in zip(one, floor, strict=True)),
    }


def _summary(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {key: median(item[key] for item in rounds) for key in rounds[0]}


def _start(*flags: str) -> dict[str, float]:
    ports = {name: free_port() for name in SERVERS}
    overrides = [f"{name}.{where}.port={ports[name]}" for name, where in SERVERS.items()]
    policy = ["policy_base_url=http://127.0.0.1:9/v1", "policy_api_key=none", "policy_model_name=none"]
    health = [f"http://127.0.0.1:{port}/healthz" for port in ports.values()]
    return _measure(["paddock", "serve", *CONFIGS, *policy, *overrides, *flags], *health)


def _floor() -> dict[str, float]:
    port = free_port()
    return _measure(
        ["benchmarks.floor_server", "--port", str(port), "--comparator", "compat"], f"http://127.0.0.1:{port}/docs"
    )


def _measure(command: list[str], *health: str) -> dict[str, float]:
    started = time.perf_counter()
    with running(command, *health) as process:
        seconds = time.perf_counter() - started
        used = footprint(process.pid)
    return {"seconds": seconds, "rss_mib": used.rss_mib, "processes": float(used.processes)}
