"""How long until the next look: a pure function of how near a sandbox is to its limit, and how fast it grows."""

CLOSE_SHARE = 0.5
"""Of the limit: with less room than this the period shrinks in proportion, whatever the growth."""
LOOKS_AHEAD = 4
"""At the present growth, there are this many looks before the limit is met."""


def next_period(
    rest_s: float, *, used: float, limit: float | None, growth_per_s: float = 0.0, finest_share: float = 0.05
) -> float:
    """Seconds, from `rest_s * finest_share` to `rest_s`; `used` and `limit` in any one unit, `limit` None: no limit."""
    if limit is None:
        return rest_s
    room = limit - used
    if limit <= 0 or room <= 0:
        return rest_s * finest_share
    period = rest_s * min(1.0, room / (CLOSE_SHARE * limit))
    if growth_per_s > 0:
        period = min(period, room / growth_per_s / LOOKS_AHEAD)
    return max(rest_s * finest_share, period)


class Growth:
    """Units per second, from readings: the newest, or half of what it was where that is more, so that a pause between
    two bursts is not taken for rest."""

    __slots__ = ("_at", "_used", "per_s")

    def __init__(self) -> None:
        self.per_s = 0.0
        self._at: float | None = None
        self._used = 0.0

    def read(self, used: float, now: float) -> float:
        if self._at is not None and now > self._at:
            self.per_s = max((used - self._used) / (now - self._at), self.per_s / 2, 0.0)
        self._used, self._at = used, now
        return self.per_s
