"""Claims about machines that die or are cut off at random moments of a collection: every run ends by itself, its
rewards are the right ones, no rollout is lost or doubled, and nothing of it is left on any machine.

Seeds   PADDOCK_FAULT_SEEDS, as `first:end`; PADDOCK_FAULT_LOG: a file that is given a line for each run.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support import small_bug
from tests.support.spread import CollectedRun, left_behind, use_images

from paddock.sandbox import SandboxError
from paddock.testing.machines import Machine, MachineProcess, machines, why_no_machines
from paddock.testing.nodes import NodeMachine
from paddock.testing.ray_cluster import RayCluster, ray_cluster
from paddock.testing.sandboxes import sandbox_home
from paddock.types import JsonObject

PYTHON = os.environ.get("PADDOCK_VLLM_PYTHON")
ROOT = Path(__file__).parents[2]
TOKEN = "of-the-nodes"
WHY_NOT = why_no_machines()
SEEDS = range(*(int(word) for word in os.environ.get("PADDOCK_FAULT_SEEDS", "0:2").split(":")))
RUN_TIMEOUT_S = 400.0
AT_ONCE = 6
pytestmark = [
    pytest.mark.long,
    pytest.mark.sandbox,
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
    pytest.mark.timeout(1200),
]
Start = Callable[..., MachineProcess]


class Deed(NamedTuple):
    """Something that is done to a machine."""

    after_s: float
    """Seconds from the deed before it, or from when a run has begun with its rollouts."""
    do: Callable[[], None]


class RunSize(NamedTuple):
    """What a collection has to do."""

    repeats: int
    """Rollouts of each agent."""
    work_s: float
    """Seconds that each takes at least."""


SHORT = RunSize(16, 2.0)
LONG = RunSize(54, 10.0)
"""18 times `AT_ONCE`: a run of 180 s at least."""
LONG_AFTER_S = 10.0
"""The longest cut begins here, so that it is over before the run is."""
BUSY_S = 40.0


class RunTimes(NamedTuple):
    """Seconds from when a run began with its rollouts."""

    deeds_s: list[float]
    """When each was done."""
    end_s: float


class FaultStand(NamedTuple):
    """What starts collections on the first of some machines."""

    machines: Sequence[Machine]
    start: Start
    sandbox: JsonObject
    """The block of the agents' sandboxes."""
    words: tuple[str, ...]
    mine: Callable[[str], bool]
    """Whether a command line on a machine is there without any collection."""

    def run(self, kind: str, seed: int, deeds: Sequence[Deed], size: RunSize = SHORT) -> RunTimes:
        """One collection. AssertionError: it is not as one without deeds."""
        head = self.machines[0]
        out, rows, log = head.disk / f"{kind}-{seed}", head.disk / "rows.jsonl", head.disk / f"{kind}-{seed}.log"
        case = head.disk / "case.json"
        small_bug.write_rows(rows)
        gradings = {"runtime": "bubblewrap"}
        case.write_text(json.dumps(small_bug.config(work_s=size.work_s, sandbox=self.sandbox, gradings=gradings)))
        bounds = ["--repeats", str(size.repeats), "--concurrency", str(AT_ONCE)]
        more = [str(case), "--rows", str(rows), *bounds, "--out", str(out), "--quiet", *self.words]
        with log.open("wb") as file:
            process = self.start(["-m", "paddock", "eval", *more], stdout=file, stderr=file)
        with process:
            while process.poll() is None and not (out / "rollouts.jsonl").exists():
                time.sleep(0.05)
            began = time.monotonic()
            done_s: list[float] = []
            try:
                for deed in deeds:
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(deed.after_s)
                    deed.do()
                    done_s.append(time.monotonic() - began)
                code: int | None = process.wait(max(0.1, began + RUN_TIMEOUT_S - time.monotonic()))
            except subprocess.TimeoutExpired:
                code = None
            finally:
                if process.poll() is None:
                    process.kill_inside()
        times = RunTimes(done_s, time.monotonic() - began)
        trouble = self._trouble(out, code, size.repeats)
        found = CollectedRun(out).kinds() if (out / "failures.jsonl").exists() else {}
        at = ", ".join(f"{done:.1f}" for done in done_s)
        how = f"took {times.end_s:.1f} s, failed attempts {found}, {trouble or 'all right'}"
        note(f"{kind} seed {seed} at {at} s: {how}")
        assert trouble == {}, log.read_text(errors="replace")[-4000:]
        return times

    def _trouble(self, out: Path, code: int | None, repeats: int) -> JsonObject:
        if code is None or not (out / "rollouts.jsonl").exists():
            return {"ended": "not by itself" if code is None else f"with {code} before it began"}
        run = CollectedRun(out)
        agents = dict(enumerate(small_bug.REWARDS))
        members = {(row, member) for row in agents for member in range(repeats)}
        trouble: JsonObject = {
            "exit code": code,
            "wrong": [key for key, reward in run.rewards().items() if reward != small_bug.REWARDS[agents[key[0]]]],
            "lost": sorted(members - set(run.rewards())),
            "doubled": [key for key, count in run.counts().items() if count > 1],
            "left": {one.name: lines for one in self.machines if (lines := left_behind(one, self.mine))},
        }
        return {name: found for name, found in trouble.items() if found}


def note(line: str) -> None:
    if file := os.environ.get("PADDOCK_FAULT_LOG"):
        with Path(file).open("a") as log:
            log.write(f"{line}\n")


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with sandbox_home() as folder:
        try:
            small_bug.put_image(folder)
        except (FileNotFoundError, SandboxError) as error:
            pytest.skip(str(error))
        yield folder


def drop_address(machine: Machine) -> None:
    machine.run(["ip", "addr", "del", f"{machine.address}/24", "dev", "eth0"])


def give_address(machine: Machine) -> None:
    machine.run(["ip", "addr", "add", f"{machine.address}/24", "dev", "eth0"])


CUTS: dict[str, tuple[Callable[[Machine], None], Callable[[Machine], None]]] = {
    "cable": (Machine.cut, Machine.mend),
    "address": (drop_address, give_address),
}


def be_cut_off(stand: FaultStand, machine: Machine, kind: str, how: str, seconds: float, undisturbed_s: float) -> None:
    """A collection during which a machine that is at work has no network for so long; it outlasts that."""
    cut, mend = CUTS[how]
    after_s, size = (undisturbed_s / 2, SHORT) if seconds < LONG.work_s else (LONG_AFTER_S, LONG)

    def cut_when_busy() -> None:
        until_busy(machine, size)
        cut(machine)

    deeds = [Deed(after_s, cut_when_busy), Deed(seconds, lambda: mend(machine))]
    times = stand.run(f"{kind}-{how}-{seconds:g}s", 0, deeds, size)
    assert times.end_s > times.deeds_s[-1]


def until_busy(machine: Machine, size: RunSize) -> None:
    """Wait until a sandbox on the machine does what takes its time."""
    deadline = time.monotonic() + BUSY_S
    while f"sleep {size.work_s:g}" not in machine.run(["ps", "-e", "-ww", "-o", "args="]).splitlines():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def of_a_node(line: str) -> bool:
    return "sandbox serve" in line or "keeper import zygote" in line


class SandboxNodes(NamedTuple):
    """Sandboxes on two machines, for collections on a third."""

    stand: FaultStand
    nodes: list[NodeMachine]
    took_s: float
    """A run where nothing happens."""

    def again(self, node: NodeMachine) -> None:
        node.machine.boot()
        node.serve()


@pytest.fixture(scope="module")
def on_nodes(home: Path) -> Iterator[SandboxNodes]:
    with machines(3) as made:
        for machine in made:
            use_images(machine, home)
        nodes = [NodeMachine(machine, TOKEN) for machine in made[1:]]
        for node in nodes:
            node.serve()
        token = made[0].disk / "token"
        token.write_text(TOKEN)
        sandbox = {
            "nodes": [node.url for node in nodes],
            "node_token_file": str(token),
            "lease_ttl_s": 6.0,
            "answer_margin_s": 10.0,
            "node_health_s": 2.0,
            "node_poll_s": 0.2,
        }

        def start(argv: Sequence[str], **options: Any) -> MachineProcess:
            return made[0].start([sys.executable, *argv], cwd=ROOT, **options)

        stand = FaultStand(made, start, sandbox, (), of_a_node)
        yield SandboxNodes(stand, nodes, stand.run("nodes-undisturbed", 0, []).end_s)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_of_sandboxes_loses_power(on_nodes: SandboxNodes, seed: int) -> None:
    draw = random.Random(seed)
    node = draw.choice(on_nodes.nodes)
    at_s = draw.uniform(0.0, on_nodes.took_s)
    deeds = [Deed(at_s, node.machine.kill)]
    comes_back = draw.random() < 0.5
    if comes_back:
        deeds.append(Deed(draw.uniform(0.0, 10.0), lambda: on_nodes.again(node)))
    try:
        on_nodes.stand.run("node-power", seed, deeds)
    finally:
        if not comes_back:
            on_nodes.again(node)


@pytest.mark.parametrize("seconds", [5.0, 120.0])
@pytest.mark.parametrize("how", CUTS)
def test_a_node_of_sandboxes_is_cut_off(on_nodes: SandboxNodes, how: str, seconds: float) -> None:
    machine = on_nodes.nodes[0].machine
    be_cut_off(on_nodes.stand, machine, "node", how, seconds, on_nodes.took_s)


class RayWorkers(NamedTuple):
    """Collections whose workers are on the nodes of a cluster, and their sandboxes with them."""

    stand: FaultStand
    cluster: RayCluster
    took_s: float
    """A run where nothing happens."""

    def again(self, machine: Machine) -> None:
        machine.boot()
        self.cluster.start(machine)


@pytest.fixture(scope="module")
def on_ray(home: Path) -> Iterator[RayWorkers]:
    # With a CPU each, every machine has a worker, the first one too.
    with ray_cluster(4, Path(PYTHON or ""), cpus=1) as cluster:
        for machine in cluster.nodes:
            use_images(machine, home)

        def start(argv: Sequence[str], **options: Any) -> MachineProcess:
            return cluster.driver(argv, cwd=ROOT, **options)

        words = ("--cluster", "auto")
        stand = FaultStand(cluster.nodes, start, {"runtime": "bubblewrap"}, words, lambda line: "ray" in line)
        yield RayWorkers(stand, cluster, stand.run("ray-undisturbed", 0, []).end_s)


@pytest.mark.vllm
@pytest.mark.skipif(not PYTHON, reason="PADDOCK_VLLM_PYTHON: no environment with Ray")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_of_workers_loses_power(on_ray: RayWorkers, seed: int) -> None:
    draw = random.Random(seed)
    machine = draw.choice(on_ray.cluster.nodes[1:])
    at_s = draw.uniform(0.0, on_ray.took_s)
    deeds = [Deed(at_s, machine.kill)]
    comes_back = draw.random() < 0.3
    if comes_back:
        deeds.append(Deed(draw.uniform(0.0, 10.0), lambda: on_ray.again(machine)))
    try:
        on_ray.stand.run("ray-power", seed, deeds)
    finally:
        if not comes_back:
            on_ray.again(machine)


@pytest.mark.vllm
@pytest.mark.skipif(not PYTHON, reason="PADDOCK_VLLM_PYTHON: no environment with Ray")
@pytest.mark.parametrize("seconds", [5.0, 120.0])
@pytest.mark.parametrize("how", CUTS)
def test_a_node_of_workers_is_cut_off(on_ray: RayWorkers, how: str, seconds: float) -> None:
    machine = on_ray.cluster.nodes[1]
    try:
        be_cut_off(on_ray.stand, machine, "ray", how, seconds, on_ray.took_s)
    finally:
        machine.kill()
        on_ray.again(machine)
