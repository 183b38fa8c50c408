"""A streamed call through the exact server is measured to its end, at the pace that its upstream is asked for.

A rollout's seed does not reach the engine as it is, and other parameters may be changed on the way too.
"""

import json
import subprocess
import sys

import pytest

PACE_US = 2000
MEASURE = f"""
import json, sys
from benchmarks.tokens import proxy
proxy.TURNS, proxy.ROLLOUTS_ALONE, proxy.CALLS = (5,), 2, 2
proxy.CASES = [proxy.ProxyCase(turns=5, connections=1, pace_us={PACE_US})]
(figures,) = proxy.measure()
json.dump(figures, sys.stdout)
"""


@pytest.mark.slow
def test_a_stream_has_the_pace_that_is_asked_for() -> None:
    measured = subprocess.check_output([sys.executable, "-c", MEASURE], text=True, timeout=60)
    figures = json.loads(measured.splitlines()[-1])
    assert figures["first_ids_ms"] > figures["floor_ms"] > 0
    # Chunks that waited for each other would be as old as the pace.
    assert 0 < figures["chunk_added_ms"] < PACE_US / 1000
