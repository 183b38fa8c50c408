"""Which rollouts run, since when, and in which stage, so that progress can name the slowest.

Stage   is known only of agents in this process; of others the agent's name is shown.
Units   seconds on the monotonic clock.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from paddock.collect.results import MemberKey
from paddock.server.rollout import StageWatch, watch_stage


class InFlight:
    """The attempts that run."""

    def __init__(self) -> None:
        self._running: dict[MemberKey, tuple[str, StageWatch]] = {}

    @contextmanager
    def attempt(self, key: MemberKey, agent: str, secret: str) -> Iterator[StageWatch]:
        """Register one attempt while the block runs."""
        with watch_stage(secret) as watch:
            self._running[key] = agent, watch
            try:
                yield watch
            finally:
                del self._running[key]

    def slowest(self, most: int = 3) -> str:
        """`3-0 in model for 32 s, 5-1 in sandbox for 9 s and 2 more`: the longest first; empty: nothing runs."""
        now = time.monotonic()
        running = sorted(self._running.items(), key=lambda item: item[1][1].began)
        texts = [
            f"{key.group_id}-{key.member} {f'in {watch.stage}' if watch.stage else f'at {agent}'} "
            f"for {now - watch.since:.0f} s"
            for key, (agent, watch) in running[:most]
        ]
        more = f" and {len(running) - most} more" if len(running) > most else ""
        return ", ".join(texts) + more
