"""Claims about the waits before restarts."""

from itertools import pairwise

import pytest

from paddock.processes.restarts import LONGEST_WAIT_S, restart_wait_s


@pytest.mark.parametrize("first_s", [0.0, 1e-9, 0.5, 100.0])
def test_waits_double_up_to_the_longest_however_often_a_server_dies(first_s: float) -> None:
    waits = [restart_wait_s(restart, first_s) for restart in range(1, 3000)]
    assert waits[0] == min(first_s, LONGEST_WAIT_S)
    assert all(after == min(LONGEST_WAIT_S, 2 * before) for before, after in pairwise(waits))
    assert waits[-1] == (LONGEST_WAIT_S if first_s else 0.0)
