"""How long to wait before a process that died is started again."""

LONGEST_WAIT_S = 60.0
_MAX_DOUBLINGS = 60
"""Of any wait these give the longest; twice as many doublings are no float any more."""


def restart_wait_s(restart: int, first_s: float) -> float:
    """Seconds before a restart, counted from 1: `first_s`, then twice as long each time, up to `LONGEST_WAIT_S`."""
    return min(LONGEST_WAIT_S, first_s * 2.0 ** min(restart - 1, _MAX_DOUBLINGS))
