"""`python group_faults.py TRANSPORT CASE...`: a trainer, the workers of three engines and no vLLM, as one line of JSON.

Runs where torch is. Each worker is a process, that its engine's calls drive.
 Of each case: what the group ended in, how long that took, who was to blame, what came where.
"""

import hashlib
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import ExitStack
from typing import Any, Self

import torch

from paddock.errors import InfraError
from paddock.server.vllm.weights.collectives import CollectivePlace, OwnBuffers, Transport, make_collective
from paddock.server.vllm.weights.engine_group import EngineGroup
from paddock.server.vllm.weights.settings import WeightsSettings
from paddock.server.vllm.weights.shared_memory import ReadTrial
from paddock.server.vllm.weights.store import address_towards
from paddock.server.vllm.weights.threads import in_thread
from paddock.server.vllm.weights.transfer import BrokenGroupError, TransferTarget
from paddock.server.vllm.weights.worker_group import WorkerGroup

BUCKET_BYTES = 1 << 20
TIMEOUT_S = 3.0
N_TENSORS = 40
"""Of 256 KiB; beside them one that is larger than a bucket."""


def weights() -> dict[str, torch.Tensor]:
    chance = torch.Generator().manual_seed(7)
    made = {f"layers.{nth}": torch.randn(256, 256, generator=chance) for nth in range(N_TENSORS)}
    made["head"] = torch.randn(1024, 512, generator=chance).to(torch.bfloat16).t()
    return made


def digest(tensors: dict[str, torch.Tensor]) -> str:
    found = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].contiguous()
        found.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        found.update(value.view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


class WorkerProcess:
    """One worker of an engine, forked before there is a thread."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, other = context.Pipe()
        self.process = context.Process(target=work, args=(other,), daemon=True)
        self.process.start()
        other.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()

    def call(self, body: Any) -> Any:
        self._pipe.send(body)
        try:
            answer = self._pipe.recv()
        except EOFError as error:
            raise ConnectionError("the engine died") from error
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer


class WorkerEngine:
    """An engine of some workers, as a client of its calls."""

    def __init__(self, workers: list[WorkerProcess]) -> None:
        self.workers = workers
        self.digests: list[str] = []
        self.version: str | None = None
        self.refuses = False
        self.elsewhere = False
        """The trainer's memory is not here."""
        self.skips = ""
        """The call that it answers, and its workers know nothing of."""
        self.answers = threading.Event()
        """Cleared: it does not say that it has received an update."""
        self.answers.set()

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        if self.refuses:
            raise RuntimeError("refused")
        if self.skips == "join":
            return
        if self.elsewhere:
            init_info = {**init_info, "trial": {**init_info["trial"], "content": "00" * 16}}
        self._all([{**init_info, "rank": init_info["rank_offset"] + nth} for nth in range(len(self.workers))])

    def start_weight_update(self) -> None:
        self.digests = []

    def update_weights(self, update_info: dict[str, Any]) -> None:
        if self.skips == "update":
            return
        self.digests = [answer["digest"] for answer in self._all([update_info] * len(self.workers))]
        self.answers.wait(60.0)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        self.version = weight_version

    def _all(self, bodies: list[Any]) -> list[Any]:
        calls = [
            in_thread(lambda worker=worker, body=body: worker.call(body))  # type: ignore[misc]
            for worker, body in zip(self.workers, bodies, strict=True)
        ]
        wait(calls)
        return [call.result() for call in calls]


def work(pipe: Any) -> None:
    """A worker: its calls are a group to join, or an update to receive."""
    torch.set_num_threads(1)
    group: WorkerGroup | None = None
    while True:
        body = pipe.recv()
        try:
            if "rank" in body:
                address, port = body["master_address"], body["master_port"]
                own_address = address_towards(address, port)
                cpu = torch.device("cpu")
                place = CollectivePlace(body["rank"], body["world_size"], own_address, cpu, body["timeout_s"])
                trial = body["trial"] and ReadTrial.model_validate(body["trial"])
                group, answer = WorkerGroup.join(address, port, place, trial), {}
            else:
                assert group is not None
                received: dict[str, torch.Tensor] = {}
                for tensors in group.receive(body["number"]):
                    received.update(tensors)
                answer = {"digest": digest(received)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        pipe.send(answer)


class CountingCollective:
    """Counts what leaves the trainer."""

    def __init__(self, transport: Any, store: Any, place: CollectivePlace) -> None:
        self._inner = make_collective(transport, store, place)
        self.transport = transport
        self.device, self.buffer, self.free = self._inner.device, self._inner.buffer, self._inner.free
        self.buckets: list[int] = []

    def broadcast(self, data: torch.Tensor) -> Callable[[], bool]:
        self.buckets.append(len(data))
        return self._inner.broadcast(data)

    def abort(self) -> None:
        self._inner.abort()


class ScriptedNccl:
    """What NCCL is between ranks: a broadcast is through when all take part, and nobody sees an abort."""

    def __init__(self) -> None:
        self.broadcasts: dict[int, list[torch.Tensor]] = {}
        self.aborted: list[int] = []


class ScriptedNcclEnd(OwnBuffers):
    """One rank's end of a wire."""

    device = torch.device("cpu")

    def __init__(self, wire: ScriptedNccl, place: CollectivePlace) -> None:
        super().__init__()
        self._wire, self._place, self._number = wire, place, 0

    def broadcast(self, data: torch.Tensor) -> Callable[[], bool]:
        self._number += 1
        tensors = self._wire.broadcasts.setdefault(self._number, [])
        if self._place.rank == 0:
            tensors.insert(0, data.clone())  # the others may read it when the trainer's buffer has the next but one
        else:
            tensors.append(data)

        def is_through() -> bool:
            if self._place.rank in self._wire.aborted:
                raise RuntimeError("the communicator was aborted")
            if len(tensors) < self._place.world_size:
                return False
            data.copy_(tensors[0])
            return True

        return is_through

    def abort(self) -> None:
        self._wire.aborted.append(self._place.rank)


class ScriptedNcclEngine:
    """An engine of one worker in a thread; it hangs where it is told to."""

    def __init__(self, wire: ScriptedNccl, hangs_after: int | None = None) -> None:
        self.wire = wire
        self.version: str | None = None
        self._hangs_after = hangs_after
        self._group: WorkerGroup | None = None

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        address, port = init_info["master_address"], init_info["master_port"]
        place = CollectivePlace(
            init_info["rank_offset"], init_info["world_size"], address, torch.device("cpu"), init_info["timeout_s"]
        )
        self._group = WorkerGroup.join(address, port, place, make=lambda *_: ScriptedNcclEnd(self.wire, place))

    def start_weight_update(self) -> None:
        self.received: dict[str, torch.Tensor] = {}

    def update_weights(self, update_info: dict[str, Any]) -> None:
        assert self._group is not None
        for nth, tensors in enumerate(self._group.receive(update_info["number"])):
            self.received.update(tensors)
            if nth == self._hangs_after:
                time.sleep(600.0)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        self.version = weight_version


class FaultSite:
    """Three engines, of one, two and one workers."""

    def __init__(self, stack: ExitStack, transport: Transport) -> None:
        self.transport = transport
        self.engines = {
            name: WorkerEngine([stack.enter_context(WorkerProcess()) for _ in range(count)])
            for name, count in (("a", 1), ("b", 2), ("c", 1))
        }
        self.ends: list[CountingCollective] = []
        self.settings = WeightsSettings(bucket_bytes=BUCKET_BYTES, timeout_s=TIMEOUT_S)

    def connect(self, names: str) -> EngineGroup:
        def make(*place: Any) -> CountingCollective:
            self.ends.append(CountingCollective(*place))
            return self.ends[-1]

        engines = [TransferTarget(name, self.engines[name], len(self.engines[name].workers)) for name in names]
        return EngineGroup.connect(engines, self.settings, address="127.0.0.1", transport=self.transport, make=make)

    def signal(self, name: str, number: int) -> None:
        pid = self.engines[name].workers[-1].process.pid
        assert pid is not None
        os.kill(pid, number)


def stream(mid: Callable[[], None] = lambda: None) -> Iterator[tuple[str, torch.Tensor]]:
    for nth, pair in enumerate(weights().items()):
        if nth == N_TENSORS // 2:
            mid()
        yield pair


def outcome(site: FaultSite, names: str) -> dict[str, Any]:
    """Whether all weights came to all of these."""
    engines = [site.engines[name] for name in names]
    wanted = digest(weights())
    return {name: one.digests == [wanted] * len(one.workers) for name, one in zip(names, engines, strict=True)}


def case_whole(site: FaultSite) -> dict[str, Any]:
    group = site.connect("abc")
    failed = group.send(stream(), "1")
    group.send(stream(), "2")
    group.close()
    n_bytes = sum(value.numel() * value.element_size() for value in weights().values())
    buckets = site.ends[0].buckets
    return {
        "failed": list(failed),
        "came": outcome(site, "abc"),
        "versions": [site.engines[name].version for name in "abc"],
        "sent": sum(buckets) / (2 * n_bytes),
        "buckets": len(buckets) // 2,
        "largest": max(buckets[:-1]),
        "transport": site.ends[0].transport,
    }


def case_elsewhere(site: FaultSite) -> dict[str, Any]:
    site.engines["b"].elsewhere = True
    return case_whole(site)


def broken(site: FaultSite, send: Callable[[], Any], left: str) -> dict[str, Any]:
    """What a break ends in, and a group without who is to blame."""
    began = time.monotonic()
    try:
        send()
    except BrokenGroupError as error:
        took_s = time.monotonic() - began
        group = site.connect(left)
        failed = group.send(stream(), "2")
        group.close()
        blamed = {name: f"{type(why).__name__}: {why}" for name, why in error.blamed.items()}
        return {"took_s": took_s, "blamed": blamed, "failed": list(failed), "came": outcome(site, left)}
    return {"blamed": None}


def case_killed(site: FaultSite) -> dict[str, Any]:
    group = site.connect("abc")
    return broken(site, lambda: group.send(stream(lambda: site.signal("b", signal.SIGKILL)), "1"), "ac")


def case_stopped(site: FaultSite) -> dict[str, Any]:
    group = site.connect("abc")
    return broken(site, lambda: group.send(stream(lambda: site.signal("b", signal.SIGSTOP)), "1"), "ac")


def case_stopped_before(site: FaultSite) -> dict[str, Any]:
    group = site.connect("abc")
    site.signal("c", signal.SIGSTOP)
    return broken(site, lambda: group.send(stream(), "1"), "ab")


def case_refuses(site: FaultSite) -> dict[str, Any]:
    site.engines["a"].refuses = True
    return broken(site, lambda: site.connect("abc"), "bc")


def case_does_not_come(site: FaultSite) -> dict[str, Any]:
    site.signal("a", signal.SIGSTOP)
    return broken(site, lambda: site.connect("abc"), "bc")


def case_joins_in_word(site: FaultSite) -> dict[str, Any]:
    site.engines["b"].skips = "join"
    return broken(site, lambda: site.connect("abc"), "ac")


def case_updates_in_word(site: FaultSite) -> dict[str, Any]:
    group = site.connect("abc")
    site.engines["b"].skips = "update"
    ended = broken(site, lambda: group.send(stream(), "1"), "ac")
    return {**ended, "version": site.engines["b"].version}


def case_answers_late(site: FaultSite) -> dict[str, Any]:
    group = site.connect("abc")
    late = site.engines["b"]
    late.answers.clear()
    ended = broken(site, lambda: group.send(stream(), "1"), "ac")
    late.answers.set()
    time.sleep(1.0)
    return {**ended, "version": late.version}


def case_aborted(_: FaultSite) -> dict[str, Any]:
    """One of three hangs, over a wire that tells the others nothing."""
    wire = ScriptedNccl()
    engines = {name: ScriptedNcclEngine(wire, 3 if name == "b" else None) for name in "abc"}
    settings = WeightsSettings(bucket_bytes=BUCKET_BYTES, timeout_s=1.0)

    def connect(names: str) -> EngineGroup:
        return EngineGroup.connect(
            [TransferTarget(name, engines[name], 1) for name in names],
            settings,
            address="127.0.0.1",
            transport="nccl",
            make=lambda _transport, _store, place: ScriptedNcclEnd(wire, place),
        )

    group = connect("abc")
    began = time.monotonic()
    try:
        group.send(stream(), "1")
    except BrokenGroupError as error:
        took_s, aborted, blamed = time.monotonic() - began, sorted(wire.aborted), list(error.blamed)
        wire = ScriptedNccl()
        for engine in engines.values():
            engine.wire = wire
        failed = connect("ac").send(stream(), "2")
        came = {name: digest(engines[name].received) == digest(weights()) for name in "ac"}
        return {"took_s": took_s, "blamed": blamed, "aborted": aborted, "failed": list(failed), "came": came}
    return {"blamed": None}


def case_never_made(_: FaultSite) -> dict[str, Any]:
    """All come, and the trainer's communicator is not made."""

    def make(*_: Any) -> Any:
        time.sleep(600.0)

    engine, settings = TransferTarget("a", ScriptedNcclEngine(ScriptedNccl()), 1), WeightsSettings(timeout_s=0.5)
    try:
        EngineGroup.connect([engine], settings, address="127.0.0.1", make=make)
    except InfraError as error:
        return {"kind": error.kind, "retryable": error.retryable}
    return {}


def main() -> None:
    torch.set_num_threads(1)
    answers = {}
    with ExitStack() as stack:
        transport: Any = sys.argv[1]
        sites = {case: FaultSite(stack, transport) for case in sys.argv[2:]}
        for case, site in sites.items():
            answers[case] = globals()[f"case_{case}"](site)
    sys.stdout.write(json.dumps(answers) + "\n")


if __name__ == "__main__":
    main()
