"""What concurrent SWE rollouts take: memory, disk, processors and network, of the agents' machine and of a node.

Rollouts of native harnesses against a scripted model that at a steady pace always calls the shell, which writes a line
and prints some kilobytes; then their hidden tests on the agents' machine. The node is a machine of its own
(`paddock.testing.machines`: root, iproute2), its runtime bubblewrap. Rows: the first of the demo, and one of
`PADDOCK_TEST_DATA` (`swe/instances.jsonl`), with images in `PADDOCK_HOME`, built where they are missing.
Figures by rollout are differences between a run of many at once and one of few, by their number: what a machine has
        without any is in none. Memory (PSS) and disk of the node are medians over looks at which all sandboxes were
        there, memory of the agents' process the most then. CPU is of all processes, those that ended too. Bytes are
        those of the node's network card.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import orjson
import psutil
import yaml

from benchmarks.harness import endpoint
from benchmarks.looks import SandboxMemory, cpu_s, disk_mib, looking, sandbox_memory
from paddock.resources_servers.swe.rows import read
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.build import build_image
from paddock.sandbox.settings import PAYLOAD_ID, default_home
from paddock.testing.machines import Machine, machines, why_no_machines
from paddock.testing.nodes import NodeMachine
from paddock.types import JsonObject, Row

HARNESSES = ("codeact", "opencode")
PUBLISHED = "marshmallow-code__marshmallow-1343"
REPEATS = (1, 4)
"""Of each row by each harness: few at once, and many."""
TURNS = 30
PACE_S = 1.0
"""From the model's request to its answer."""
LINE = (
    "[ -e PADDOCK_NOTES.txt ] || python -m compileall -q . ; echo looked >> PADDOCK_NOTES.txt; "
    "grep -rn import --include=*.py . | head -n 60"
)
"""Its first run writes what a first run of tests would."""
DEMO = Path(__file__).parents[1] / "resources_servers/swe/data/example.jsonl"
TOKEN = "of-the-benchmark"


class MachineUse(NamedTuple):
    """What one run took."""

    rollouts: int
    node: SandboxMemory
    overlays_mib: float
    driver_mib: float
    node_cpu_s: float
    driver_cpu_s: float
    """Of the agents' process alone."""
    gradings_cpu_s: float
    to_node_kib: float
    from_node_kib: float
    grading_mib: float
    """Of a sandbox that tests run in, the most at any look."""


def run() -> dict[str, Any]:
    if (why := why_no_machines()) is not None:
        return {"skipped": why}
    rows = _rows()
    images = {row["instance_id"]: _image_mib(row) for row in rows}
    few, many = [_measure(rows, repeats) for repeats in REPEATS]
    return {**figures(few, many), "images_mib": images, "load": psutil.getloadavg()[0]}


def figures(few: MachineUse, many: MachineUse) -> dict[str, Any]:
    """Figures by rollout of a run of few and one of many, and what a hundred take."""
    count = many.rollouts - few.rollouts

    def each(figure: str) -> float:
        return float(getattr(many, figure) - getattr(few, figure)) / count

    def part(name: str) -> float:
        return float(getattr(many.node, name)) / many.node.sandboxes

    node = {
        "keeper_mib": part("keepers"),
        "runner_mib": part("runners"),
        "commands_mib": part("commands"),
        "overlay_mib": each("overlays_mib"),
        "cpu_s": each("node_cpu_s"),
    }
    agents = {
        "memory_mib": each("driver_mib"),
        "cpu_s": each("driver_cpu_s"),
        "grading_cpu_s": each("gradings_cpu_s"),
        "grading_mib": many.grading_mib,
    }
    network = {"to_node_kib": each("to_node_kib"), "from_node_kib": each("from_node_kib")}
    memory_mib = part("keepers") + part("runners") + part("commands")
    return {
        "rollouts": many.rollouts,
        "turns": TURNS,
        "pace_s": PACE_S,
        "node_per_rollout": node,
        "agents_per_rollout": agents,
        "network_per_rollout": network,
        "without_rollouts": {
            "node_mib": many.node.maker,
            "agents_mib": few.driver_mib - few.rollouts * each("driver_mib"),
        },
        "per_100": {
            "node_memory_mib": many.node.maker + 100 * memory_mib,
            "agents_memory_mib": many.driver_mib + (100 - many.rollouts) * each("driver_mib"),
            "overlays_mib": 100 * node["overlay_mib"],
            "node_cpu_s": 100 * node["cpu_s"],
            "agents_cpu_s": 100 * (agents["cpu_s"] + agents["grading_cpu_s"]),
            "network_mib": 100 * sum(network.values()) / 2**10,
        },
    }


def _rows() -> list[JsonObject]:
    lines = DEMO.read_bytes().splitlines()[:1]
    published = Path(os.environ.get("PADDOCK_TEST_DATA") or "/nowhere", "swe/instances.jsonl")
    if published.exists():
        lines += [
            line for line in published.read_bytes().splitlines() if orjson.loads(line)["instance_id"] == PUBLISHED
        ]
    return [{"responses_create_params": {"input": []}, **orjson.loads(line)} for line in lines]


def _image_mib(row: JsonObject) -> float:
    """All layers of a row's image, and of the image that its agent sees; built where it is missing."""
    store = ImageStore(default_home(), payload_id=PAYLOAD_ID)
    instance = read(Row.from_wire(row))
    if not store.has(instance.image):
        assert instance.build is not None
        asyncio.run(build_image(store, instance.image, instance.build))
    names = [name for name in store.names() if name.split("#")[0] == instance.image]
    return disk_mib(*{layer for name in names for layer in store.get(name).layers})


def _measure(rows: Sequence[JsonObject], repeats: int) -> MachineUse:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        (machine,) = stack.enter_context(machines(1))
        node = _node(machine)
        urls = {harness: stack.enter_context(endpoint(harness, delay_s=PACE_S, line=LINE)) for harness in HARNESSES}
        command = _command(folder, rows, node, urls, repeats)
        count = repeats * len(rows) * len(HARNESSES)
        return _watch(command, machine, node, count)


def _node(machine: Machine) -> NodeMachine:
    for part in ("images", "layers"):
        (machine.home / part).symlink_to(default_home() / part)
    node = NodeMachine(machine, TOKEN)
    node.serve(admission={"memory_per_sandbox_mib": 64, "cores_per_sandbox": 0})
    return node


def _command(
    folder: Path, rows: Sequence[JsonObject], node: NodeMachine, urls: Mapping[str, str], repeats: int
) -> list[str]:
    (folder / "token").write_text(TOKEN)
    here = {"home": str(default_home()), "runtime": "bubblewrap"}
    there = {**here, "nodes": [node.url], "node_token_file": str(folder / "token")}
    tree: JsonObject = {"environment": {"resources_servers": {"swe": {"sandbox": here}}}}
    for harness, url in urls.items():
        model = f"model_of_{harness}"
        tree[model] = {"models_servers": {"openai": {"base_url": f"{url}/v1", "api_key": "none", "model": "scripted"}}}
        agent = {
            "resources_server": {"type": "resources_servers", "name": "environment"},
            "model_server": {"type": "models_servers", "name": model},
            "harness": harness,
            "agent_max_turns": TURNS,
            "sandbox": there,
            "limits": {"memory_mib": 1024},
        }
        tree[harness] = {"agents": {"swe": agent}}
    named = [{**row, "agent_ref": {"name": harness}} for row in rows for harness in urls]
    (folder / "rows.jsonl").write_bytes(b"\n".join(map(orjson.dumps, named)))
    (folder / "case.yaml").write_text(yaml.safe_dump(tree))
    eval_ = ["eval", str(folder / "case.yaml"), "--rows", str(folder / "rows.jsonl"), "--out", str(folder / "run")]
    count = str(repeats * len(named))
    return [sys.executable, "-m", "paddock", *eval_, "--quiet", "--repeats", str(repeats), "--concurrency", count]


def _watch(command: Sequence[str], machine: Machine, node: NodeMachine, count: int) -> MachineUse:
    assert node.serving is not None
    (server,) = psutil.Process(node.serving.pid).children()
    cpu, network = cpu_s(server), _network_kib(machine)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    driver = psutil.Process(process.pid)
    full: list[tuple[SandboxMemory, float, float]] = []
    gradings, own_cpu_s = [0.0], [0.0]

    def look() -> None:
        there, here = sandbox_memory(server), sandbox_memory(driver)
        if here.maker:
            own_cpu_s.append(sum(driver.cpu_times()[:2]))
        if here.sandboxes:
            gradings.append((here.keepers + here.runners + here.commands) / here.sandboxes)
        if there.sandboxes == count:
            full.append((there, disk_mib(machine.home / "state"), here.maker))

    with looking(look):
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    if not full:
        raise RuntimeError(f"there never were {count} sandboxes at a time")
    network_after = _network_kib(machine)
    return MachineUse(
        count,
        SandboxMemory(*(median(parts) for parts in zip(*(memory for memory, _, _ in full), strict=True))),
        median(disk for _, disk, _ in full),
        max(memory for _, _, memory in full),
        cpu_s(server) - cpu,
        own_cpu_s[-1],
        usage.ru_utime + usage.ru_stime - own_cpu_s[-1],
        network_after[0] - network[0],
        network_after[1] - network[1],
        max(gradings),
    )


def _network_kib(machine: Machine) -> tuple[float, float]:
    """What the machine has received and sent."""
    (line,) = [line for line in machine.run(["cat", "/proc/net/dev"]).splitlines() if "eth0:" in line]
    words = line.split(":")[1].split()
    return int(words[0]) / 2**10, int(words[8]) / 2**10
