"""Weights from one process to several, as a run sends them: how fast, and what a dead or a hanging engine costs.

Usage   python scripts/weight_transfer.py [--device cuda [--one-gpu]] [--engines 2] [--gib 1]: with GPUs one for the
        trainer and one for each engine, over NCCL, in the environment that has vLLM, or all on one, by CUDA IPC;
        without, on CPUs by memory that all share.
Output  seconds for a gigabyte to one engine and to all, as medians of rounds, in each of which ways are taken in turn:
        by that transport, over gloo, one plain broadcast of the same bytes (on one GPU: none), and a plain copy; with
        the median of ratios to the first. Then, for an engine that is killed and one that is stopped in the middle, the
        seconds until the others have all weights over a group without it.
Note    what stands in for an engine receives and checks, and loads into no model.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import ExitStack
from functools import partial
from typing import Any, Self

import torch

from paddock.server.vllm.weights.collectives import CollectivePlace, Transport, make_collective
from paddock.server.vllm.weights.engine_group import EngineGroup
from paddock.server.vllm.weights.settings import WeightsSettings
from paddock.server.vllm.weights.shared_memory import ReadTrial
from paddock.server.vllm.weights.store import join_store, open_store, poll
from paddock.server.vllm.weights.threads import in_thread
from paddock.server.vllm.weights.transfer import BrokenGroupError, TransferTarget
from paddock.server.vllm.weights.worker_group import WorkerGroup

TENSOR_BYTES = 32 << 20
LOOPBACK = "127.0.0.1"
ROUNDS = 7


class ReceivingEngine:
    """A process with one worker, as a client of its calls; it has started when it is entered."""

    def __init__(self, device: str) -> None:
        argv = [sys.executable, __file__, "--receive", device]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version: str | None = None

    def __enter__(self) -> Self:
        self._call({})
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        self._call(init_info)

    def start_weight_update(self) -> None:
        """Nothing is reloaded here."""

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self._call(update_info)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        self.version = weight_version

    def receive_raw(self, n_bytes: int, port: int, rank: int, world_size: int) -> None:
        self._call({"raw": n_bytes, "port": port, "rank": rank, "world_size": world_size})

    def _call(self, body: Any) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(body) + "\n")
        self.process.stdin.flush()
        if (line := self.process.stdout.readline()) != "{}\n":
            raise RuntimeError(line or "the engine died")


def receive(device: torch.device) -> None:
    """An engine: its lines are a group to join, or an update to receive."""
    torch.set_num_threads(1)
    group: WorkerGroup | None = None
    for line in sys.stdin:
        body = json.loads(line)
        problem = ""
        try:
            if "raw" in body:
                place = CollectivePlace(body["rank"], body["world_size"], LOOPBACK, device, 60.0)
                receive_raw(body["raw"], body["port"], place)
            elif "rank_offset" in body:
                place = CollectivePlace(body["rank_offset"], body["world_size"], LOOPBACK, device, body["timeout_s"])
                trial = body["trial"] and ReadTrial.model_validate(body["trial"])
                group = WorkerGroup.join(LOOPBACK, body["master_port"], place, trial)
            elif group is not None:
                for tensors in group.receive(body["number"]):
                    if any(int(tensor[-1]) != int(name) % 128 for name, tensor in tensors):
                        problem = "what came is not what was sent"
        except Exception as error:  # noqa: BLE001 - the engine's answer
            problem = f"{type(error).__name__}: {error}"
        sys.stdout.write(f"{problem or '{}'}\n")
        sys.stdout.flush()


def receive_raw(n_bytes: int, port: int, place: CollectivePlace) -> None:
    store = join_store(LOOPBACK, port, place.timeout_s)
    end = make_collective(raw_transport(place.device), store, place)
    poll(end.broadcast(torch.empty(n_bytes, dtype=torch.uint8, device=place.device)), lambda: None)
    store.set(f"done/{place.rank}", "")
    end.abort()


def raw_transport(device: torch.device) -> Transport:
    return "nccl" if device.type == "cuda" else "gloo"


class TransferPlan:
    """What is sent, from where."""

    def __init__(self, device: torch.device, n_bytes: int, transport: Transport) -> None:
        self.device = device
        self.transport = transport
        self.whole = torch.empty(max(2, n_bytes // TENSOR_BYTES) * TENSOR_BYTES, dtype=torch.uint8, device=device)
        self.tensors = [(str(nth), tensor) for nth, tensor in enumerate(self.whole.split(TENSOR_BYTES))]
        for name, tensor in self.tensors:
            tensor.fill_(int(name) % 128)

    def connect(
        self, engines: Sequence[ReceivingEngine], timeout_s: float = 60.0, transport: Transport | None = None
    ) -> EngineGroup:
        return EngineGroup.connect(
            [TransferTarget(str(nth), engine, 1) for nth, engine in enumerate(engines)],
            WeightsSettings(timeout_s=timeout_s),
            address=LOOPBACK,
            transport=transport or self.transport,
            device=self.device,
        )

    def stream(self, mid: Callable[[], None] = lambda: None) -> Iterator[tuple[str, torch.Tensor]]:
        for nth, pair in enumerate(self.tensors):
            if nth == len(self.tensors) // 2:
                mid()
            yield pair

    def sent_s(self, engines: Sequence[ReceivingEngine], transport: Transport | None = None) -> float:
        """Seconds of the second sending over a connection: those of a run go over the same one."""
        group = self.connect(engines, transport=transport)
        group.send(self.stream(), "0")
        began = time.perf_counter()
        if failed := group.send(self.stream(), "1"):
            raise SystemExit(f"weights did not arrive: {failed}")
        took_s = time.perf_counter() - began
        group.close()
        return took_s

    def raw_s(self, engines: Sequence[ReceivingEngine]) -> float:
        """Seconds of one plain broadcast."""
        world_size = 1 + len(engines)
        store, port = open_store(LOOPBACK, 0, 60.0)
        calls = [
            in_thread(partial(engine.receive_raw, len(self.whole), port, rank, world_size))
            for rank, engine in enumerate(engines, start=1)
        ]
        place = CollectivePlace(0, world_size, LOOPBACK, self.device, 60.0)
        end = make_collective(raw_transport(self.device), store, place)
        began = time.perf_counter()
        poll(end.broadcast(self.whole), lambda: None)
        poll(lambda: store.check([f"done/{rank}" for rank in range(1, world_size)]), lambda: None)
        took_s = time.perf_counter() - began
        wait(calls)
        end.abort()
        return took_s

    def copied_s(self) -> float:
        """Seconds of one plain copy, a tensor after the other to the same memory."""
        target = self.tensors[0][1].clone()
        began = time.perf_counter()
        for _, tensor in self.tensors:
            target.copy_(tensor)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter() - began

    def rounds(self, engines: Sequence[ReceivingEngine]) -> dict[str, list[float]]:
        """Seconds of each way, a value for each round."""
        ways: dict[str, Callable[[], float]] = {self.transport: lambda: self.sent_s(engines)}
        ways["gloo"] = lambda: self.sent_s(engines, "gloo")
        if self.transport != "cuda_ipc":
            ways["plain broadcast"] = lambda: self.raw_s(engines)
        ways["plain copy"] = self.copied_s
        took: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way, seconds in ways.items():
                took[way].append(seconds())
        return took

    def recovered_s(self, engines: Sequence[ReceivingEngine], number: signal.Signals, timeout_s: float) -> float:
        """Seconds until the others have all weights, where the last one gets a signal in the middle."""
        group = self.connect(engines, timeout_s)
        began = time.perf_counter()
        try:
            group.send(self.stream(lambda: os.kill(engines[-1].process.pid, number)), "1")
        except BrokenGroupError as error:
            if list(error.blamed) != [str(len(engines) - 1)]:
                raise SystemExit(f"the wrong engine is blamed: {error.blamed}") from error
        if failed := self.connect(engines[:-1]).send(self.stream(), "1"):
            raise SystemExit(f"weights did not arrive: {failed}")
        return time.perf_counter() - began


def main() -> int:
    if sys.argv[1:2] == ["--receive"]:
        receive(torch.device(sys.argv[2]))
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--one-gpu", action="store_true", help="trainer and engines on one, by CUDA IPC")
    parser.add_argument("--engines", type=int, default=2)
    parser.add_argument("--gib", type=float, default=1.0, help="weights that are sent")
    parser.add_argument("--timeout-s", type=float, default=5.0, help="`paddock.weights.timeout_s`, of the two faults")
    options = parser.parse_args()
    torch.set_num_threads(1)
    gpus = [0] * (1 + options.engines) if options.one_gpu else range(1 + options.engines)
    places = [options.device if options.device == "cpu" else f"cuda:{nth}" for nth in gpus]
    transport: Transport = "memory" if options.device == "cpu" else "cuda_ipc" if options.one_gpu else "nccl"
    plan = TransferPlan(torch.device(places[0]), int(options.gib * 2**30), transport)
    with ExitStack() as stack:
        engines = [stack.enter_context(ReceivingEngine(place)) for place in places[1 : 1 + options.engines]]
        for count in sorted({1, options.engines}):
            took = plan.rounds(engines[:count])
            for way, seconds in took.items():
                per_gb = statistics.median(seconds) / len(plan.whole) * 1e9
                ratio = statistics.median(own / first for own, first in zip(seconds, took[transport], strict=True))
                sys.stdout.write(f"{count} engines, {way}: {per_gb:.2f} s/GB, {ratio:.2f} of {transport}\n")
        for number in (signal.SIGKILL, signal.SIGSTOP):
            took_s = plan.recovered_s(engines, number, options.timeout_s)
            sys.stdout.write(f"{number.name} in the middle: the others had all after {took_s:.1f} s\n")
            engines[-1] = stack.enter_context(ReceivingEngine(places[options.engines]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
