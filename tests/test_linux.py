"""Claims about what only Linux has."""

import os
import threading

import pytest

from paddock.linux import batch_scheduling

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="this system has no such policy")


def test_a_block_of_batch_scheduling_ends_with_the_policy_before() -> None:
    before, seen = os.sched_getscheduler(0), []
    with batch_scheduling():
        thread = threading.Thread(target=lambda: seen.append(os.sched_getscheduler(0)))
        thread.start()
        thread.join()
        assert [os.sched_getscheduler(0), *seen] == [os.SCHED_BATCH, os.SCHED_BATCH]
    assert os.sched_getscheduler(0) == before


def test_blocks_may_end_in_the_order_in_which_they_began() -> None:
    before = os.sched_getscheduler(0)
    first, second = batch_scheduling(), batch_scheduling()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert os.sched_getscheduler(0) == os.SCHED_BATCH
    second.__exit__(None, None, None)
    assert os.sched_getscheduler(0) == before


def test_a_refused_policy_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    before = os.sched_getscheduler(0)
    with batch_scheduling():
        assert os.sched_getscheduler(0) == before
