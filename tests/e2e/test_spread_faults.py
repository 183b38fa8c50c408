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
REPEATS = 8
LONG_REPEATS = 80
"""Of runs that last longer than the longest cut."""
WORK_S = 2.0
pytestmark = [
    pytest.mark.long,
    pytest.mark.sandbox,
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
    pytest.mark.timeout(1200),
]
Start = Callable[..., MachineProcess]


class Deed(NamedTuple):
    """Something that is done to a machine, so many seconds after a run has begun with its rollouts."""

    at_s: float
    do: Callable[[], None]


class FaultStand(NamedTuple):
    """What starts collections on the first of some machines."""

    machines: Sequence[Machine]
    start: Start
    words: tuple[str, ...]
    mine: Callable[[str], bool]
    """Whether a command line on a machine is there without any collection."""

    def run(self, kind: str, seed: int, deeds: Sequence[Deed], *, repeats: int = REPEATS) -> float:
        """One collection; returns the seconds of its rollouts. AssertionError: it is not as one without deeds."""
        head = self.machines[0]
        out, rows, log = head.disk / f"{kind}-{seed}", head.disk / "rows.jsonl", head.disk / f"{kind}-{seed}.log"
        small_bug.write_rows(rows)
        more = ["--rows", str(rows), "--repeats", str(repeats), "--out", str(out), "--quiet", *self.words]
        with log.open("wb") as file:
            process = self.start(["-m", "paddock", "eval", *more], stdout=file, stderr=file)
        with process:
            while process.poll() is None and not (out / "rollouts.jsonl").exists():
                time.sleep(0.05)
            began = time.monotonic()
            try:
                for deed in deeds:
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(max(0.0, began + deed.at_s - time.monotonic()))
                    deed.do()
                code: int | None = process.wait(max(0.1, began + RUN_TIMEOUT_S - time.monotonic()))
            except subprocess.TimeoutExpired:
                code = None
            finally:
                if process.poll() is None:
                    process.kill_inside()
        took_s = time.monotonic() - began
        trouble = self._trouble(out, code, repeats)
        found = CollectedRun(out).kinds() if (out / "failures.jsonl").exists() else {}
        at = ", ".join(f"{deed.at_s:.1f}" for deed in deeds)
        _note(f"{kind} seed {seed} at {at} s: took {took_s:.1f} s, failed attempts {found}, {trouble or 'all right'}")
        assert trouble == {}, log.read_text(errors="replace")[-4000:]
        return took_s

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


def _note(line: str) -> None:
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


def case(machine: Machine, sandbox: JsonObject) -> str:
    path = machine.disk / "case.json"
    path.write_text(json.dumps(small_bug.config(work_s=WORK_S, sandbox=sandbox, gradings={"runtime": "bubblewrap"})))
    return str(path)


def drop_address(machine: Machine) -> None:
    machine.run(["ip", "addr", "del", f"{machine.address}/24", "dev", "eth0"])


def give_address(machine: Machine) -> None:
    machine.run(["ip", "addr", "add", f"{machine.address}/24", "dev", "eth0"])


CUTS: dict[str, tuple[Callable[[Machine], None], Callable[[Machine], None]]] = {
    "cable": (Machine.cut, Machine.mend),
    "address": (drop_address, give_address),
}


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

        stand = FaultStand(made, start, (case(made[0], sandbox), "--concurrency", "6"), of_a_node)
        yield SandboxNodes(stand, nodes, stand.run("nodes-undisturbed", 0, []))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_of_sandboxes_loses_power(on_nodes: SandboxNodes, seed: int) -> None:
    draw = random.Random(seed)
    node = draw.choice(on_nodes.nodes)
    at_s = draw.uniform(0.0, on_nodes.took_s)
    deeds = [Deed(at_s, node.machine.kill)]
    comes_back = draw.random() < 0.5
    if comes_back:
        deeds.append(Deed(at_s + draw.uniform(0.0, 10.0), lambda: on_nodes.again(node)))
    try:
        on_nodes.stand.run("node-power", seed, deeds)
    finally:
        if not comes_back:
            on_nodes.again(node)


@pytest.mark.parametrize("seconds", [5.0, 120.0])
@pytest.mark.parametrize("how", CUTS)
def test_a_node_of_sandboxes_is_cut_off(on_nodes: SandboxNodes, how: str, seconds: float) -> None:
    machine = on_nodes.nodes[0].machine
    cut, mend = CUTS[how]
    at_s = on_nodes.took_s / 2
    deeds = [Deed(at_s, lambda: cut(machine)), Deed(at_s + seconds, lambda: mend(machine))]
    on_nodes.stand.run(f"node-{how}-{seconds:g}s", 0, deeds, repeats=REPEATS if seconds < 10 else LONG_REPEATS)


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
    with ray_cluster(4, Path(PYTHON or "")) as cluster:
        for machine in cluster.nodes:
            use_images(machine, home)

        def start(argv: Sequence[str], **options: Any) -> MachineProcess:
            return cluster.driver(argv, cwd=ROOT, **options)

        words = (case(cluster.nodes[0], {"runtime": "bubblewrap"}), "--concurrency", "6")
        spread = ("--cluster", "auto", "--workers", "3")
        stand = FaultStand(cluster.nodes, start, (*words, *spread), lambda line: "ray" in line)
        yield RayWorkers(stand, cluster, stand.run("ray-undisturbed", 0, []))


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
        deeds.append(Deed(at_s + draw.uniform(0.0, 10.0), lambda: on_ray.again(machine)))
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
    cut, mend = CUTS[how]
    at_s = on_ray.took_s / 2
    deeds = [Deed(at_s, lambda: cut(machine)), Deed(at_s + seconds, lambda: mend(machine))]
    try:
        on_ray.stand.run(f"ray-{how}-{seconds:g}s", 0, deeds, repeats=REPEATS if seconds < 10 else LONG_REPEATS)
    finally:
        machine.kill()
        on_ray.again(machine)
