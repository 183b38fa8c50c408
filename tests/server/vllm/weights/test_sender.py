"""Weights to several vLLMs that are scripted: whatever one of them does, it goes on, and the others have theirs."""

import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.errors import InfraError
from paddock.server.vllm.weights.control import ReplicaControl
from paddock.server.vllm.weights.replicas import ReplicaInfo, SendResult
from paddock.server.vllm.weights.sender import INCOMPLETE, WeightSender
from paddock.server.vllm.weights.settings import WeightsSettings
from paddock.server.vllm.weights.transfer import BrokenGroupError, TransferGroup, TransferTarget

WEIGHTS: Mapping[str, Any] = {"a": 1, "b": 2}


class ScriptedReplica:
    """The routes of vLLM around an update; `faults` say which of them fails, and how."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.calls: list[str] = []
        self.label = "default"
        self.paused = False
        self.asleep: set[str] = set()
        """Memory that was given back."""
        self.received: list[Mapping[str, Any]] = []
        self.links = 0
        self.answers = threading.Event()
        """Cleared: it does not answer a pause."""
        self.answers.set()
        self.faults: dict[str, str] = {}
        """Path (`connect`, `transfer`, `network` and `load` are the group's) and `500`, `hang` or, once, `500 once`."""

    def answer(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        url = urlsplit(target)
        self.calls.append(f"{method} {target}")
        if self.fails(url.path):
            return 500, {"error": "scripted"}
        match url.path:
            case "/pause":
                assert dict(parse_qsl(url.query))["mode"] == "keep"
                self.answers.wait(60.0)
                self.paused = True
            case "/resume":
                self.paused = False
            case "/sleep":
                assert dict(parse_qsl(url.query)) == {"level": "1", "mode": "keep"}
                self.paused, self.asleep = True, {"weights", "kv_cache"}
            case "/wake_up":
                self.asleep -= {tag for _, tag in parse_qsl(url.query)} or self.asleep
                self.paused = bool(self.asleep)
            case "/update_weight_version":
                self.label = body["new_version"]
            case "/get_world_size":
                return 200, {"world_size": 3}
        return 200, {}

    def fails(self, path: str) -> bool:
        how = self.faults.get(path, "")
        if how.endswith("once"):
            del self.faults[path]
        if how == "hang" and path.startswith("/"):
            raise httpx.ReadTimeout("scripted")
        return bool(how)

    def names(self) -> list[str]:
        return [urlsplit(call.split()[1]).path for call in self.calls]

    def handle(self, request: httpx.Request) -> httpx.Response:
        """In place of the network."""
        body = orjson.loads(request.content) if request.content else None
        status, reply = self.answer(request.method, request.url.raw_path.decode(), body)
        return httpx.Response(status, json=reply)


class ScriptedGroup:
    """In place of the connection with the engines: what breaks one breaks all, until they are connected anew."""

    def __init__(self, replicas: Mapping[str, ScriptedReplica]) -> None:
        self.replicas, self.closed = replicas, False
        for one in replicas.values():
            one.links += 1

    def send(self, tensors: Iterable[tuple[str, Any]], version: str | None) -> Mapping[str, BaseException]:
        assert not self.closed
        for one in self.replicas.values():
            assert one.paused, "weights change under an engine that computes"
            assert "weights" not in one.asleep, "there is no memory for them"
        weights = dict(tensors)
        broken = {name: RuntimeError("closed by peer") for name, one in self.replicas.items() if one.fails("transfer")}
        cut = [name for name, one in self.replicas.items() if one.fails("network")]
        if broken or cut:
            self.closed = True
            raise BrokenGroupError(RuntimeError("broken pipe"), broken, frozenset())
        refused = {name: KeyError("unknown") for name, one in self.replicas.items() if one.fails("load")}
        for name, one in self.replicas.items():
            if name not in refused:
                one.received.append(weights)
                one.label = str(version)
        return refused

    def close(self) -> None:
        self.closed = True


class Site:
    """Some replicas, and a sender that knows them."""

    def __init__(self, replicas: list[ScriptedReplica], timeout_s: float = 60.0, *, colocated: bool = False) -> None:
        self.replicas = replicas
        self.started = [0] * len(replicas)
        self.workers: list[list[int]] = []
        self.groups: list[ScriptedGroup] = []
        self.passes = 0
        """Over the weights."""
        self.sender = WeightSender(
            self._connect,
            WeightsSettings(timeout_s=timeout_s),
            colocated=colocated,
            control=lambda url, _: ReplicaControl(url, retry_s=0, transport=httpx.MockTransport(self._serve)),
        )

    def _serve(self, request: httpx.Request) -> httpx.Response:
        found = [one for one in self.replicas if one.url == f"http://{request.url.host}"]
        if not found:
            raise httpx.ConnectError("refused")
        return found[0].handle(request)

    def send(
        self,
        version: int,
        *,
        clear_cache: bool = True,
        urls: Mapping[int, str] | None = None,
        leave: Callable[[], None] = lambda: None,
    ) -> SendResult:
        infos = [
            ReplicaInfo(f"policy-{nth}", (urls or {}).get(nth, one.url), self.started[nth])
            for nth, one in enumerate(self.replicas)
        ]
        return self.sender.send(version, self.source, infos, clear_cache=clear_cache, leave=leave)

    def source(self) -> Iterable[tuple[str, Any]]:
        self.passes += 1
        return WEIGHTS.items()

    def _connect(self, engines: Sequence[TransferTarget]) -> TransferGroup:
        members = {engine.name: self.replicas[int(engine.name[-1])] for engine in engines}
        refusing = {name: RuntimeError("no rendezvous") for name, one in members.items() if one.fails("connect")}
        if refusing:
            raise BrokenGroupError(RuntimeError("broken"), refusing, frozenset())
        self.workers.append([engine.n_workers for engine in engines])
        self.groups.append(ScriptedGroup(members))
        return self.groups[-1]


def site(n_replicas: int = 2, timeout_s: float = 60.0) -> Site:
    return Site([ScriptedReplica(f"http://replica-{nth}") for nth in range(n_replicas)], timeout_s)


def test_each_replica_is_paused_gets_all_weights_and_goes_on() -> None:
    made = site()
    sent = made.send(7)
    assert (sent.version, sent.replicas, sent.failed) == (7, ("policy-0", "policy-1"), {})
    assert min(sent.pause_s, sent.resume_s) > 0
    for one in made.replicas:
        assert one.names() == ["/health", "/pause", "/update_weight_version", "/get_world_size", "/resume"]
        assert (one.received, one.label, one.paused) == ([WEIGHTS], "7", False)
    assert made.workers == [[3, 3]]
    assert made.passes == 1, "each weight leaves the trainer once"


@pytest.mark.parametrize("clear_cache", [True, False])
def test_the_cache_is_cleared_as_it_is_said(clear_cache: bool) -> None:
    made = site(1)
    made.send(1, clear_cache=clear_cache)
    pause = f"POST /pause?mode=keep&clear_cache={str(clear_cache).lower()}"
    assert pause in made.replicas[0].calls


def test_a_group_is_kept_until_a_replica_is_started_anew() -> None:
    made = site()
    made.send(1)
    made.send(2)
    assert [one.links for one in made.replicas] == [1, 1]
    made.started[1] += 1
    made.send(3)
    assert [one.links for one in made.replicas] == [2, 2]
    assert [one.closed for one in made.groups] == [True, False]


def test_a_replica_that_is_gone_from_the_list_is_let_go() -> None:
    made = site()
    made.send(1)
    made.sender.send(2, made.source, [ReplicaInfo("policy-0", made.replicas[0].url, 0)], clear_cache=True)
    assert [one.closed for one in made.groups] == [True, False]
    assert made.workers == [[3, 3], [3]]


def test_a_replica_that_hangs_in_a_call_is_left_out_until_it_has_answered() -> None:
    made = site(timeout_s=0.5)
    made.send(1)
    slow = made.replicas[0]
    slow.answers.clear()
    try:
        began = time.monotonic()
        sent = made.send(2)
        assert time.monotonic() - began < 10.0
        assert (sent.replicas, list(sent.failed)) == (("policy-1",), ["policy-0"])
        assert "has not answered yet" in sent.failed["policy-0"]
        n_calls = len(slow.calls)
        assert "has not answered yet" in made.send(3).failed["policy-0"]
        assert len(slow.calls) <= n_calls + 1, "a later pause and a resume that is still to come would change places"
        assert (made.replicas[1].label, made.replicas[1].paused) == ("3", False)
    finally:
        slow.answers.set()
    deadline = time.monotonic() + 30.0
    while made.send(4).failed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (slow.label, slow.paused) == ("4", False)


def test_what_the_weights_source_raises_is_the_trainer_s_own_error_and_all_go_on() -> None:
    made = site()
    infos = [ReplicaInfo("policy-0", made.replicas[0].url, 0)]

    def broken() -> Iterable[tuple[str, Any]]:
        raise MemoryError("no room to gather")

    with pytest.raises(MemoryError):
        made.sender.send(1, broken, infos, clear_cache=True)
    assert (made.replicas[0].label, made.replicas[0].paused) == (INCOMPLETE, False)
    assert made.send(1).failed == {}


def test_one_that_breaks_the_group_is_left_out_and_the_others_are_sent_the_weights_again() -> None:
    made = site(3)
    made.send(1)
    made.replicas[1].faults = {"transfer": "500"}
    sent = made.send(2)
    assert (sent.replicas, sent.failed) == (("policy-0", "policy-2"), {"policy-1": "RuntimeError: closed by peer"})
    assert made.workers == [[3, 3, 3], [3, 3]]
    assert made.passes == 3
    assert [one.label for one in made.replicas] == ["2", INCOMPLETE, "2"]
    assert not any(one.paused for one in made.replicas)


def test_a_break_that_nobody_is_to_blame_for_is_tried_once_more() -> None:
    made = site()
    made.replicas[0].faults = {"network": "500 once"}
    assert made.send(1).failed == {}
    made.replicas[0].faults = {"network": "500"}
    assert made.send(2).failed == dict.fromkeys(("policy-0", "policy-1"), "RuntimeError: broken pipe")
    assert made.passes == 4


def test_one_that_does_not_load_costs_the_others_nothing() -> None:
    made = site()
    made.replicas[0].faults = {"load": "500"}
    sent = made.send(1)
    assert (sent.replicas, list(sent.failed), made.passes) == (("policy-1",), ["policy-0"], 1)
    assert made.replicas[0].label == INCOMPLETE


def test_a_dead_replica_is_left_out_and_named() -> None:
    made = site()
    sent = made.send(1, urls={0: "http://gone"})
    assert sent.replicas == ("policy-1",)
    assert "gone" in sent.failed["policy-0"]
    assert made.replicas[1].label == "1"


def test_an_update_that_broke_leaves_a_label_that_is_no_version_and_a_new_connection_mends_it() -> None:
    made = site()
    made.send(1)
    made.replicas[0].faults = {"transfer": "500 once"}
    sent = made.send(2)
    assert (sent.replicas, list(sent.failed)) == (("policy-1",), ["policy-0"])
    assert (made.replicas[0].label, made.replicas[0].paused) == (INCOMPLETE, False)
    assert made.groups[0].closed
    assert made.send(3).failed == {}
    assert [one.label for one in made.replicas] == ["3", "3"]


def test_a_resume_that_fails_is_tried_again() -> None:
    made = site(1)
    made.replicas[0].faults = {"/resume": "500 once"}
    assert made.send(1).failed == {}
    assert made.replicas[0].names().count("/resume") == 2
    assert not made.replicas[0].paused


def test_a_replica_that_cannot_be_labelled_keeps_its_weights() -> None:
    made = site(1)
    made.send(1)
    made.replicas[0].faults = {"/update_weight_version": "500"}
    sent = made.send(2)
    assert "update_weight_version answered 500" in sent.failed["policy-0"]
    assert (made.replicas[0].label, len(made.replicas[0].received), made.replicas[0].paused) == ("1", 1, False)


def test_both_of_two_errors_are_named() -> None:
    made = site(1)
    made.replicas[0].faults = {"transfer": "500", "/resume": "500"}
    failure = made.send(1).failed["policy-0"]
    assert failure.startswith("RuntimeError: closed by peer; then InfraError")
    assert "/resume answered 500" in failure


def test_one_that_does_not_answer_is_dead_after_its_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        control = ReplicaControl(f"http://127.0.0.1:{deaf.getsockname()[1]}", health_timeout_s=0.1)
        with pytest.raises(InfraError, match="GET /health: ReadTimeout"):
            control.check_health()


@pytest.mark.parametrize("count", [0, -1, "3", None])
def test_one_that_says_nonsense_of_its_workers_is_left_out(count: Any) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"world_size": count})

    with pytest.raises(InfraError, match="not a number of workers"):
        ReplicaControl("http://replica", transport=httpx.MockTransport(answer)).n_workers()


def test_all_connections_end_and_replicas_forget_them() -> None:
    made = site()
    made.send(1)
    made.replicas[0].faults = {"/shutdown_weight_transfer_engine": "500"}
    made.sender.close()
    assert all(one.closed for one in made.groups)
    assert [one.names()[-1] for one in made.replicas] == ["/shutdown_weight_transfer_engine"] * 2


CALLS = ("/health", "/get_world_size", "/pause", "/update_weight_version", "/resume")
PATHS = (*CALLS, "connect", "transfer", "network", "load")
HOW = st.sampled_from(["500", "500 once", "hang"])
FAULTS = st.lists(st.dictionaries(st.sampled_from(PATHS), HOW, max_size=2), max_size=4)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(faults=FAULTS)
def test_whatever_one_does_it_is_resumed_and_the_other_is_up_to_date(faults: list[dict[str, str]]) -> None:
    made = site()
    sick, well = made.replicas
    for version, fault in enumerate(faults):
        sick.faults = dict(fault)
        sent = made.send(version)
        if list(sent.failed) == ["policy-0", "policy-1"]:
            assert fault.get("network") in ("500", "hang"), "the network broke twice for all"
            assert not well.paused
            continue
        assert (well.label, well.paused) == (str(version), False)
        assert "policy-1" in sent.replicas
        names = sick.names()
        asked = len(names) - 1 - names[::-1].index("/resume") if "/resume" in names else -1
        assert "/pause" not in names[asked + 1 :], "a pause is followed by a resume"
        assert sick.label in ("default", INCOMPLETE, *map(str, range(version + 1)))
        if "policy-0" in sent.replicas:
            assert (sick.label, sick.received[-1]) == (str(version), WEIGHTS)
    sick.faults = {}
    assert made.send(99).failed == {}
    assert [one.label for one in made.replicas] == ["99", "99"]
    assert not any(one.paused for one in made.replicas)
