"""Weights to several vLLMs that are scripted: whatever one of them does, it goes on, and the others have theirs."""

import socket
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.errors import InfraError
from paddock.server.vllm.weights.control import ReplicaControl
from paddock.server.vllm.weights.replicas import ReplicaInfo, SendResult, WeightsSource
from paddock.server.vllm.weights.sender import INCOMPLETE, Backend, TransferLink, WeightSender

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
        self.blocks = threading.Event()
        """Cleared: transfers to it do not end."""
        self.blocks.set()
        self.faults: dict[str, str] = {}
        """Path (`connect` and `transfer` are the link's) and `500`, `hang` or, once, `500 once`."""

    def answer(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        url = urlsplit(target)
        self.calls.append(f"{method} {target}")
        if self.fails(url.path):
            return 500, {"error": "scripted"}
        match url.path:
            case "/pause":
                assert dict(parse_qsl(url.query))["mode"] == "keep"
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
        if how == "hang":
            raise httpx.ReadTimeout("scripted")
        return bool(how)

    def names(self) -> list[str]:
        return [urlsplit(call.split()[1]).path for call in self.calls]

    def handle(self, request: httpx.Request) -> httpx.Response:
        """In place of the network."""
        body = orjson.loads(request.content) if request.content else None
        status, told = self.answer(request.method, request.url.raw_path.decode(), body)
        return httpx.Response(status, json=told)


class ScriptedLink:
    """In place of vLLM's transfer."""

    def __init__(self, replica: ScriptedReplica, weights: WeightsSource) -> None:
        self.replica, self.weights, self.closed = replica, weights, False
        replica.links += 1

    def send_weights(self, weight_version: str | None = None) -> None:
        assert self.replica.paused, "weights change under an engine that computes"
        assert not self.closed
        assert "weights" not in self.replica.asleep, "there is no memory for them"
        self.replica.blocks.wait(60.0)
        if self.replica.fails("transfer"):
            raise RuntimeError("connection closed by peer")
        self.replica.received.append(self.weights())
        if weight_version is not None:
            self.replica.label = weight_version

    def shutdown(self) -> None:
        self.closed = True


class Site:
    """Some replicas, and a sender that knows them."""

    def __init__(
        self,
        replicas: list[ScriptedReplica],
        backend: Backend,
        stuck_after_s: float = 60.0,
        *,
        colocated: bool = False,
    ) -> None:
        self.replicas = replicas
        self.started = [0] * len(replicas)
        self.workers: list[int] = []
        self.links: list[ScriptedLink] = []
        self.sender = WeightSender(
            self._connect,
            backend=backend,
            stuck_after_s=stuck_after_s,
            colocated=colocated,
            control=lambda url, _: ReplicaControl(url, retry_s=0, transport=httpx.MockTransport(self._serve)),
        )

    def _serve(self, request: httpx.Request) -> httpx.Response:
        found = [one for one in self.replicas if one.url == f"http://{request.url.host}"]
        if not found:
            raise httpx.ConnectError("refused")
        return found[0].handle(request)

    def send(self, version: int, *, clear_cache: bool = True, urls: Mapping[int, str] | None = None) -> SendResult:
        told = [
            ReplicaInfo(f"policy-{nth}", (urls or {}).get(nth, one.url), self.started[nth])
            for nth, one in enumerate(self.replicas)
        ]
        return self.sender.send(version, WEIGHTS, told, clear_cache=clear_cache)

    def _connect(self, replica: ReplicaInfo, n_workers: int, weights: WeightsSource) -> TransferLink:
        scripted = next(one for one in self.replicas if one.url == replica.url)
        if scripted.fails("connect"):
            raise RuntimeError("no rendezvous")
        self.workers.append(n_workers)
        self.links.append(ScriptedLink(scripted, weights))
        return self.links[-1]


def site(n_replicas: int = 2, backend: Backend = "gloo") -> Site:
    return Site([ScriptedReplica(f"http://replica-{nth}") for nth in range(n_replicas)], backend)


def test_each_replica_is_paused_gets_all_weights_and_goes_on() -> None:
    made = site()
    sent = made.send(7)
    assert (sent.version, sent.replicas, sent.failed) == (7, ("policy-0", "policy-1"), {})
    assert min(sent.pause_s, sent.resume_s) > 0
    for one in made.replicas:
        assert one.names() == ["/health", "/get_world_size", "/pause", "/update_weight_version", "/resume"]
        assert (one.received, one.label, one.paused) == ([WEIGHTS], "7", False)
    assert made.workers == [3, 3]


@pytest.mark.parametrize("clear_cache", [True, False])
def test_the_cache_is_cleared_as_it_is_said(clear_cache: bool) -> None:
    made = site(1)
    made.send(1, clear_cache=clear_cache)
    pause = f"POST /pause?mode=keep&clear_cache={str(clear_cache).lower()}"
    assert pause in made.replicas[0].calls


def test_nccl_does_not_tell_the_label_so_it_is_told() -> None:
    made = site(1, backend="nccl")
    made.send(4)
    (only,) = made.replicas
    assert only.label == "4"
    assert only.names()[-2:] == ["/update_weight_version", "/resume"]


def test_a_transfer_over_nccl_that_does_not_end_ends_the_run_in_time() -> None:
    made = Site([ScriptedReplica(f"http://replica-{nth}") for nth in range(2)], "nccl", stuck_after_s=1.0)
    assert made.send(1).failed == {}
    stuck = made.replicas[0]
    stuck.blocks.clear()
    try:
        with pytest.raises(InfraError, match=r"policy-0: the transfer over NCCL has not ended in 1 s") as failed:
            made.send(2)
        assert (failed.value.kind, failed.value.retryable) == ("transfer_stuck", False)
        assert (stuck.label, stuck.paused) == (INCOMPLETE, False)
        made.sender.close()
        assert [one.closed for one in made.links] == [False, True], "what is stuck can't be shut down"
    finally:
        stuck.blocks.set()


def test_an_error_of_a_transfer_over_nccl_is_its_replica_s() -> None:
    made = site(backend="nccl")
    made.replicas[0].faults = {"transfer": "500 once"}
    sent = made.send(1)
    assert sent.failed == {"policy-0": "RuntimeError: connection closed by peer"}
    assert made.send(2).failed == {}


def test_a_connection_is_kept_until_the_replica_is_started_anew() -> None:
    made = site()
    made.send(1)
    made.send(2)
    assert [one.links for one in made.replicas] == [1, 1]
    made.started[1] += 1
    made.send(3)
    assert [one.links for one in made.replicas] == [1, 2]
    assert [one.closed for one in made.links] == [False, True, False]


def test_a_replica_that_is_gone_from_the_list_is_let_go() -> None:
    made = site()
    made.send(1)
    made.sender.send(2, WEIGHTS, [ReplicaInfo("policy-0", made.replicas[0].url, 0)], clear_cache=True)
    assert [one.closed for one in made.links] == [False, True]


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
    assert made.links[0].closed
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


def test_both_of_two_errors_are_told() -> None:
    made = site(1)
    made.replicas[0].faults = {"transfer": "500", "/resume": "500"}
    told = made.send(1).failed["policy-0"]
    assert told.startswith("RuntimeError: connection closed by peer; then InfraError")
    assert "/resume answered 500" in told


def test_one_that_does_not_answer_is_dead_after_its_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        control = ReplicaControl(f"http://127.0.0.1:{deaf.getsockname()[1]}", health_timeout_s=0.1)
        with pytest.raises(InfraError, match="GET /health: ReadTimeout"):
            control.check_health()


def test_all_connections_end_and_replicas_forget_them() -> None:
    made = site()
    made.send(1)
    made.replicas[0].faults = {"/shutdown_weight_transfer_engine": "500"}
    made.sender.close()
    assert all(one.closed for one in made.links)
    assert [one.names()[-1] for one in made.replicas] == ["/shutdown_weight_transfer_engine"] * 2


PATHS = ("/health", "/get_world_size", "connect", "/pause", "transfer", "/update_weight_version", "/resume")
HOW = st.sampled_from(["500", "500 once", "hang"])
FAULTS = st.lists(st.dictionaries(st.sampled_from(PATHS), HOW, max_size=2), max_size=4)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(faults=FAULTS, backend=st.sampled_from(["gloo", "nccl"]))
def test_whatever_one_does_it_is_resumed_and_the_other_is_up_to_date(
    faults: list[dict[str, str]], backend: Backend
) -> None:
    made = site(backend=backend)
    sick, well = made.replicas
    for version, fault in enumerate(faults):
        sick.faults = dict(fault)
        sent = made.send(version)
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
