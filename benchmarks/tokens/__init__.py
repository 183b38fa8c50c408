"""What exact tokens cost: rollouts beside a bare loop, the hop that they add to a call, memory, joined requests."""

from typing import Any

from benchmarks.tokens import joined_requests, memory, proxy, rollouts


def run() -> dict[str, Any]:
    return {
        "rollouts": rollouts.measure(),
        "proxy": proxy.measure(),
        "memory": memory.measure(),
        "joining": joined_requests.measure(),
    }
