"""When ids were sent, told by the ids: microseconds of the monotonic clock, in base 1000, three ids to a stamp."""

import time

BASE = 1000


def stamp() -> list[int]:
    now = time.monotonic_ns() // 1000
    return [now // BASE**2 % BASE, now // BASE % BASE, now % BASE]


def age_ms(ids: list[int], now_ns: int) -> float:
    """The age of the first stamp among the ids; `now_ns` is by the same clock."""
    then = (ids[0] * BASE + ids[1]) * BASE + ids[2]
    return (now_ns // 1000 - then) % BASE**3 / 1e3
