"""Claims about checks, verifications and builds over the machines of a Ray cluster: what they come to is what one
process says, on nodes that join, too, and where a node dies in the middle.
"""

import os
import random
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from tests.collect.test_ray_workers import processes_of
from tests.e2e.conftest import HOME, ROOT
from tests.e2e.test_spread_faults import SEEDS
from tests.support.spread import records_of

from paddock.sandbox.images import ImageStore
from paddock.sandbox.settings import PAYLOAD_ID
from paddock.testing.machines import Machine, MachineProcess, why_no_machines
from paddock.testing.ray_cluster import RayCluster, ray_cluster
from paddock.types import JsonObject

PYTHON = os.environ.get("PADDOCK_VLLM_PYTHON")
WHY_NOT = why_no_machines()
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.sandbox,
    pytest.mark.skipif(not PYTHON, reason="PADDOCK_VLLM_PYTHON: no environment with Ray"),
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
    pytest.mark.timeout(1200),
]
SPREAD = ("--cluster", "auto")
TIMES = frozenset({"null_s", "gold_s", "total_s"})
SECONDS = re.compile(r"\d+\.\d(-\d+\.\d)? s")
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")


class UnorderedOutput(NamedTuple):
    """What a command said."""

    code: int
    out: list[str]
    err: list[str]
    """Lines in any order, without times."""


class ItemCommands:
    """Commands on the first machine of a cluster, whose nodes have the images of the demo, each its own."""

    def __init__(self, cluster: RayCluster) -> None:
        self.cluster = cluster
        self.head = cluster.nodes[0]

    def start(self, *words: str) -> MachineProcess:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        env = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        return self.cluster.driver(["-m", "paddock", *words], env=env, cwd=ROOT, **pipes)

    def run(self, *words: str) -> UnorderedOutput:
        return output_of(self.start(*words))


def output_of(process: MachineProcess) -> UnorderedOutput:
    with process:
        out, err = process.communicate(timeout=600)
    said = [sorted(SECONDS.sub("_ s", text).splitlines()) for text in (out, err)]
    return UnorderedOutput(process.returncode, *said)


def own_images(home: Path) -> None:
    """A store of its own with the demo's images, and what a build of others needs; no file is copied."""
    home.mkdir(exist_ok=True, mode=0o711)
    for part in ("images", "layers", "downloads"):
        shutil.rmtree(home / part, ignore_errors=True)
        subprocess.run(["cp", "-al", str(HOME / part), str(home / part)], check=True)


@pytest.fixture(scope="module")
def items(demo_rows: list[JsonObject]) -> Iterator[ItemCommands]:
    with ray_cluster(3, Path(PYTHON or ""), cpus=1) as cluster:
        for machine in cluster.nodes:
            own_images(machine.home)
        (cluster.nodes[0].disk / "demo.jsonl").write_bytes(b"\n".join(map(orjson.dumps, demo_rows)))
        yield ItemCommands(cluster)


@pytest.fixture(autouse=True)
def _all_nodes(items: ItemCommands) -> Iterator[None]:
    """All are there again after each test."""
    yield
    for node in items.cluster.nodes:
        if not node.is_on:
            node.boot()
            items.cluster.start(node)


def reports(file: Path) -> list[JsonObject]:
    lines = map(orjson.loads, file.read_bytes().splitlines())
    return [{key: value for key, value in line.items() if key not in TIMES} for line in lines]


def check(rows: Path, out: Path, *words: str) -> list[str]:
    return ["swe", "check", str(rows), "--runs", "1", "--out", str(out), *words]


@pytest.mark.long
def test_rows_are_checked_as_by_one_process(items: ItemCommands) -> None:
    rows, found = items.head.disk / "demo.jsonl", []
    for words in ((), SPREAD):
        out = items.head.disk / "checked.jsonl"
        said = items.run(*check(rows, out, *words))
        assert said.code == 0, said
        found.append((said, out.read_bytes(), reports(out.with_suffix(".report.jsonl"))))
        out.with_suffix(".report.jsonl").unlink()
    assert found[1] == found[0]
    assert len(found[0][2]) == 3


@pytest.fixture(scope="module")
def stored(items: ItemCommands, demo_rows: list[JsonObject]) -> Path:
    """Rollouts of fixes and of none."""
    rows, out = items.head.disk / "agents.jsonl", items.head.disk / "run"
    agents = [{**row, "agent_ref": {"name": name}} for row in demo_rows for name in ("gold", "noop")]
    rows.write_bytes(b"\n".join(map(orjson.dumps, agents)))
    words = ["--oracle", "--rows", str(rows), "--out", str(out), "--quiet"]
    said = items.run("eval", str(ROOT / "configs/swe_demo.yaml"), *words)
    assert said.code == 0, said
    return out


@pytest.mark.long
def test_rollouts_are_verified_as_by_one_process(items: ItemCommands, stored: Path) -> None:
    found = []
    for words in ((), SPREAD):
        said = items.run("verify", str(stored), "--concurrency", "3", *words)
        assert said.code == 0, said
        found.append((said, records_of(stored / "reverified.jsonl")))
    assert found[1] == found[0]
    assert sorted(record["reward"] for record in found[0][1].values()) == [0.0] * 3 + [1.0] * 3


@pytest.fixture
def repositories(items: ItemCommands) -> Iterator[Path]:
    """A folder that all machines see, with small repositories, and rows with their recipes."""
    folder = items.head.disk.parent.with_name(f"{items.head.disk.parent.name}-repositories")
    rows = []
    try:
        for nth in range(4):
            repository = folder / f"r{nth}"
            repository.mkdir(parents=True)
            (repository / "a.py").write_text(f"A = {nth}\n")
            for words in (["init", "-q"], ["add", "--all"], ["commit", "-q", "-m", "start"]):
                subprocess.run([*GIT, *words], cwd=repository, check=True)
            recipe = {"python": "3.11", "git": {"repository": str(repository), "commit": "HEAD"}}
            rows.append(row(f"small__{nth}", recipe))
        (folder / "rows.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def row(name: str, recipe: JsonObject) -> JsonObject:
    return {
        "instance_id": name,
        "responses_create_params": {"input": []},
        "problem_statement": "A is too small.",
        "image": name,
        "build": recipe,
        "patch": "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-A\n+B\n",
        "test_files": {"test_a.py": "def test_a(): pass\n"},
        "test_command": "pytest -rA test_a.py",
        "FAIL_TO_PASS": ["test_a.py::test_a"],
        "PASS_TO_PASS": [],
    }


@pytest.mark.long
def test_images_are_built_as_by_one_process_each_on_one_node(items: ItemCommands, repositories: Path) -> None:
    alone = items.head.disk / "alone"
    own_images(alone)
    words = ["images", "build", "--rows", str(repositories / "rows.jsonl"), "--local-repository", str(repositories)]
    by_one, by_many = items.run(*words, "--home", str(alone)), items.run(*words, *SPREAD)
    assert (by_one.code, by_many.code) == (0, 0), (by_one, by_many)
    assert by_many.out == by_one.out == [f"small__{nth}" for nth in range(4)]
    places = {node.address: node.home for node in items.cluster.nodes}
    for line in by_many.err:
        name, _, address = line.replace(": _ s, on ", " ").partition(" ")
        assert head_commit(places[address], name) == head_commit(alone, name)
        assert [where for where in places if head_commit(places[where], name)] == [address]


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_that_dies_costs_no_image_and_leaves_no_half_of_one(
    items: ItemCommands, repositories: Path, seed: int
) -> None:
    alone = items.head.disk / f"alone-{seed}"
    for home in (alone, *(node.home for node in items.cluster.nodes)):
        own_images(home)
    words = ["images", "build", "--rows", str(repositories / "rows.jsonl"), "--local-repository", str(repositories)]
    assert items.run(*words, "--home", str(alone)).code == 0
    running = items.start(*words, *SPREAD)
    others = items.cluster.nodes[1:]
    until(lambda: any(map(builds, others)), running)
    dying = next(filter(builds, others), others[0])
    time.sleep(random.Random(seed).uniform(0.0, 3.0))
    dying.kill()
    built = output_of(running)
    assert (built.code, built.out) == (0, [f"small__{nth}" for nth in range(4)]), built
    named = dict(line.replace(": _ s, on ", " ").split(" ") for line in built.err if line.startswith("small__"))
    places = {node.address: node.home for node in items.cluster.nodes}
    for name in built.out:
        holders = {where for where, home in places.items() if ImageStore(home, payload_id=PAYLOAD_ID).has(name)}
        # The last one that it built may have been whole before it could say so.
        assert {named[name]} <= holders <= {named[name], dying.address}
        assert all(files_of(places[where], name) == files_of(alone, name) for where in holders)
    for home in places.values():
        store = ImageStore(home, payload_id=PAYLOAD_ID)
        assert all(map(store.has, store.names()))
    dying.boot()
    items.cluster.start(dying)
    assert items.run(*words, *SPREAD).code == 0
    dying.run([str(PYTHON), "-m", "paddock", *words], timeout_s=600, cwd=ROOT)
    assert not any((dying.home / "building").iterdir())
    assert all(files_of(dying.home, name) == files_of(alone, name) for name in built.out)


def builds(node: Machine) -> bool:
    return any((node.home / "building").glob("*.lock"))


def files_of(home: Path, name: str) -> set[str]:
    """The paths in the layers of an image."""
    layers = ImageStore(home, payload_id=PAYLOAD_ID).get(name).layers
    return {str(path.relative_to(layer)) for layer in layers for path in layer.rglob("*")}


def head_commit(home: Path, name: str) -> str | None:
    """Of the source in an image; None: the store has no such image."""
    file = home / "images" / f"{name}.json"
    return str(orjson.loads(file.read_bytes())["origin"]["head"]) if file.exists() else None


@pytest.mark.long
def test_a_node_that_joins_is_used_and_one_that_dies_costs_no_row(
    items: ItemCommands, demo_rows: list[JsonObject]
) -> None:
    (head, second, last), out = items.cluster.nodes, items.head.disk / "many-checked.jsonl"
    rows = head.disk / "many.jsonl"
    many = [{**row, "instance_id": f"{row['instance_id']}-{nth}"} for nth in range(6) for row in demo_rows]
    rows.write_bytes(b"\n".join(map(orjson.dumps, many)))
    last.kill()
    running = items.start(*check(rows, out, *SPREAD))
    until(lambda: workers_of(second), running)
    last.boot()
    items.cluster.start(last)
    until(lambda: workers_of(last), running)
    second.kill()
    said = output_of(running)
    assert said.code == 0, said
    assert len(said.out) == len(many) + 1, said.out
    assert len(out.read_bytes().splitlines()) == len(many)
    found = reports(out.with_suffix(".report.jsonl"))
    assert [(one["line"], one["ended"]) for one in found] == [(nth, "accepted") for nth in range(1, len(many) + 1)]
    assert not any(workers_of(node) for node in (head, last))


@pytest.mark.long
def test_a_node_that_dies_costs_no_verdict(items: ItemCommands, stored: Path) -> None:
    second, many = items.cluster.nodes[1], stored.with_name("run-many")
    assert items.run("verify", str(stored)).code == 0
    shutil.copytree(stored, many)
    (many / "rollouts.jsonl").write_bytes((stored / "rollouts.jsonl").read_bytes() * 3)
    running = items.start("verify", str(many), *SPREAD, "--concurrency", "3")
    until(lambda: gradings_of(second), running)
    second.kill()
    said = output_of(running)
    assert said.code == 0, said
    assert [line.partition(",")[0] for line in said.out] == ["18 rollouts: 18 as stored"]
    assert records_of(many / "reverified.jsonl") == records_of(stored / "reverified.jsonl")


def workers_of(node: Machine) -> list[str]:
    return processes_of(node)


def gradings_of(node: Machine) -> list[str]:
    lines = node.run(["ps", "-ww", "-eo", "args"]).splitlines()
    return [line for line in lines if "pytest -rA" in line]


def until(holds: Callable[[], object], running: MachineProcess, within_s: float = 240) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert running.poll() is None, output_of(running)
        assert time.monotonic() < deadline
        time.sleep(0.2)
