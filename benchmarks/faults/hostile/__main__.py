"""`python -m benchmarks.faults.hostile SEED SECONDS`: some roles at a time, each in a process of its own."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from random import Random

from benchmarks.faults.hostile import attacks, exhaustion, floods

Role = Callable[[Random], None]
ROLES: dict[Role, float] = {
    **dict.fromkeys((exhaustion.forks, exhaustion.threads, exhaustion.memory, exhaustion.writes), 2.0),
    **dict.fromkeys((exhaustion.inodes, exhaustion.sparse, exhaustion.deep, exhaustion.links, exhaustion.names), 1.0),
    **dict.fromkeys((exhaustion.deleted, exhaustion.terminals, exhaustion.flips), 1.0),
    **dict.fromkeys((floods.output, floods.tunnel, floods.processors), 2.0),
    **dict.fromkeys((floods.pipes, floods.sockets, floods.in_flight, floods.watches, floods.queues), 1.0),
    **dict.fromkeys((floods.timers, floods.epolls, floods.locks, floods.calls), 1.0),
    **dict.fromkeys((attacks.stopping, attacks.starts), 0.7),
    **dict.fromkeys((attacks.tracing, attacks.denied, attacks.escapes, attacks.priority), 1.0),
    **dict.fromkeys((attacks.killing, exhaustion.vandalism), 0.3),
}
"""With the share of each: what ends the others, or the sandbox, is rarer."""
AT_ONCE = (1, 2, 3, 5)
LONGEST_S = 8
"""How long one role may last."""


def main(seed: int, seconds: float) -> None:
    chance = Random(seed)
    end = time.monotonic() + seconds
    running: set[int] = set()
    wanted = chance.choice(AT_ONCE)
    while time.monotonic() < end:
        while len(running) < wanted:
            role = chance.choices(list(ROLES), list(ROLES.values()))[0]
            with contextlib.suppress(OSError):
                running.add(_start_role(role, Random(chance.getrandbits(64)), chance.randint(1, LONGEST_S)))
            time.sleep(0.01)
        with contextlib.suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                running.discard(pid)
        time.sleep(0.05)


def _start_role(role: Role, chance: Random, seconds: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    signal.alarm(seconds)
    try:
        role(chance)
    finally:
        os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
