"""An engine and a trainer take turns on one GPU: who has its memory when, and what becomes of that after a fault."""

import pytest
from tests.server.vllm.weights.test_sender import WEIGHTS, ScriptedReplica, Site

from paddock.errors import InfraError
from paddock.server.vllm.weights.sender import INCOMPLETE


def shared(n_replicas: int = 1) -> Site:
    return Site([ScriptedReplica(f"http://replica-{nth}") for nth in range(n_replicas)], colocated=True)


def test_an_engine_sleeps_while_the_trainer_computes_and_has_its_weights_before_it_samples() -> None:
    made = shared()
    (only,) = made.replicas
    made.send(0)
    only.calls.clear()
    made.sender.sleep_engines()
    assert only.paused
    assert only.asleep == {"weights", "kv_cache"}
    sent = made.send(1)
    assert (sent.replicas, sent.failed) == (("policy-0",), {})
    assert (only.received, only.label, only.paused, only.asleep) == ([WEIGHTS, WEIGHTS], "1", False, set())
    assert [call.removeprefix("POST ") for call in only.calls if "POST" in call] == [
        "/sleep?level=1&mode=keep",
        "/sleep?level=1&mode=keep",
        "/wake_up?tags=weights",
        "/update_weight_version",
        "/wake_up",
        "/resume",
    ]


def test_the_trainer_leaves_when_the_engine_has_its_weights_and_before_it_takes_its_cache() -> None:
    made = shared()
    (only,) = made.replicas
    made.send(0)
    made.sender.sleep_engines()
    seen: list[tuple[str, set[str]]] = []
    made.send(1, leave=lambda: seen.append((only.label, set(only.asleep))))
    assert seen == [("1", {"kv_cache"})]
    only.faults = {"transfer": "500 once"}
    made.send(2, leave=lambda: seen.append((only.label, set(only.asleep))))
    assert seen[1:] == [(INCOMPLETE, {"kv_cache"})]


def test_a_trainer_that_can_not_leave_keeps_no_engine_asleep() -> None:
    made = shared()
    (only,) = made.replicas
    with pytest.raises(MemoryError):
        made.send(0, leave=_full)
    assert (only.paused, only.asleep) == (False, set())


def _full() -> None:
    raise MemoryError


def test_an_engine_whose_transfer_breaks_wakes_up_under_no_version() -> None:
    made = shared()
    (only,) = made.replicas
    made.send(0)
    made.sender.sleep_engines()
    only.faults = {"transfer": "500 once"}
    assert "closed by peer" in made.send(1).failed["policy-0"]
    assert (only.label, only.paused, only.asleep) == (INCOMPLETE, False, set())
    assert made.send(1).failed == {}
    assert (only.label, only.links) == ("1", 2)


def test_a_dead_engine_does_not_keep_the_trainer_from_the_gpu() -> None:
    made = shared()
    made.send(0)
    made.replicas[0].faults = {"/health": "500"}
    made.sender.sleep_engines()
    assert not made.replicas[0].asleep


def test_an_engine_that_keeps_its_memory_is_an_error() -> None:
    made = shared()
    made.send(0)
    made.replicas[0].faults = {"/sleep": "500"}
    with pytest.raises(InfraError, match="policy-0 has not given its memory back") as failed:
        made.sender.sleep_engines()
    assert failed.value.kind == "engine_awake"


def test_an_engine_that_does_not_wake_up_is_named_and_tried_again() -> None:
    made = shared()
    made.send(0)
    made.sender.sleep_engines()
    made.replicas[0].faults = {"/wake_up": "500 once"}
    assert "/wake_up answered 500" in made.send(1).failed["policy-0"]
    assert made.send(1).failed == {}
    assert not made.replicas[0].asleep
