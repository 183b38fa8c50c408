"""Workers on the nodes of a Ray cluster: the collection is that of one process, also where a node loses power."""

import hashlib
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from paddock.testing.machines import Machine, MachineProcess, why_no_machines
from paddock.testing.ray_cluster import RayCluster, ray_cluster

PYTHON = os.environ.get("PADDOCK_VLLM_PYTHON")
ROOT = Path(__file__).parents[2]
WHY_NOT = why_no_machines()
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not PYTHON, reason="PADDOCK_VLLM_PYTHON: no environment with Ray"),
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with ray_cluster(3, Path(PYTHON or "")) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _all_nodes(cluster: RayCluster) -> Iterator[None]:
    """All are there again after each test."""
    yield
    for node in cluster.nodes:
        if not node.is_on:
            node.boot()
            cluster.start(node)


def evaluate(cluster: RayCluster, out: Path, *words: str) -> MachineProcess:
    return run(cluster, out, str(ROOT / "configs/demo.yaml"), "--oracle", *words)


def run(cluster: RayCluster, out: Path, *words: str) -> MachineProcess:
    command = ["-m", "paddock", "eval", "--out", str(out), "--quiet", *words]
    return cluster.driver(
        command,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def rewards(folder: Path) -> dict[tuple[int, int], float]:
    lines = [orjson.loads(line) for line in (folder / "rollouts.jsonl").read_bytes().splitlines()]
    keys = Counter((line["_ng_task_index"], line["_ng_rollout_index"]) for line in lines)
    assert set(keys.values()) == {1}
    return {(line["_ng_task_index"], line["_ng_rollout_index"]): line["reward"] for line in lines}


def test_a_collection_over_nodes_is_that_of_one_process(cluster: RayCluster) -> None:
    head = cluster.nodes[0]
    one, many = head.disk / "one", head.disk / "many"
    local = evaluate(cluster, one, "--repeats", "4")
    out, _ = local.communicate(timeout=120)
    assert local.returncode == 0, out
    spread = evaluate(cluster, many, "--repeats", "4", "--cluster", "auto", "--workers", "3")
    out, _ = spread.communicate(timeout=240)
    assert spread.returncode == 0, out
    assert rewards(many) == rewards(one)
    assert len(rewards(one)) >= 8


@pytest.mark.long
@pytest.mark.parametrize("fault", ["power", "cable"])
def test_a_node_that_is_lost_or_cut_off_loses_and_doubles_no_rollout(cluster: RayCluster, fault: str) -> None:
    out, last = cluster.nodes[0].disk / fault, cluster.nodes[2]
    running = evaluate(cluster, out, "--repeats", "200", "--cluster", "auto", "--workers", "3")
    until_written(out, 300, running)
    if fault == "power":
        last.kill()
    else:
        last.cut()
        time.sleep(5)
        last.mend()
    text, _ = running.communicate(timeout=240)
    assert running.returncode == 0, text
    assert Counter(member for _, member in rewards(out)) == dict.fromkeys(range(200), n_rows(out))


LEAVING = """
environment: {{resources_servers: {{paddock.conformance.scripted:ScriptedEnvironment: {{}}}}}}
policy: {{models_servers: {{paddock.conformance.scripted:ScriptedModel: {{}}}}}}
agent:
  agents:
    tests.collect.worker_servers:LeavingAgent:
      resources_server: {{type: resources_servers, name: environment}}
      model_server: {{type: models_servers, name: policy}}
      datasets: [{{name: few, type: example, jsonl_fpath: {rows}}}]
      artifacts_dir: {artifacts}
      large_bytes: {large_bytes}
eval: {{retry_wait_s: 0}}
"""


def leaving(head: Machine, name: str, *, large_bytes: int) -> tuple[str, Path]:
    """A config whose agent leaves files on the head's disk, and their folder."""
    rows, config, artifacts = (head.disk / f"{name}.{word}" for word in ("jsonl", "yaml", "artifacts"))
    rows.write_bytes(b'{"responses_create_params": {"input": "q"}, "answer": "yes"}\n' * 24)
    config.write_text(LEAVING.format(rows=rows, artifacts=artifacts, large_bytes=large_bytes))
    return str(config), artifacts


def files_of(root: Path) -> dict[str, bytes]:
    (run,) = root.iterdir()
    found = [path for path in run.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).digest() for path in found}


@pytest.mark.long
def test_files_beside_rollouts_are_those_of_one_process(cluster: RayCluster) -> None:
    head, found = cluster.nodes[0], []
    for name, words in (("left-alone", []), ("left-spread", ["--cluster", "auto", "--workers", "3"])):
        config, artifacts = leaving(head, name, large_bytes=4 << 20)
        running = run(cluster, head.disk / name, config, "--concurrency", "6", *words)
        text, _ = running.communicate(timeout=240)
        assert running.returncode == 0, text
        found.append(files_of(artifacts))
    assert len(found[0]) >= 24 * 5
    assert found[1] == found[0]


@pytest.mark.long
def test_a_node_that_is_lost_leaves_no_file_in_part(cluster: RayCluster) -> None:
    head, last = cluster.nodes[0], cluster.nodes[2]
    config, artifacts = leaving(head, "lossy", large_bytes=20 << 20)
    running = run(cluster, head.disk / "lossy", config, "--concurrency", "6", "--cluster", "auto", "--workers", "3")
    until_written(head.disk / "lossy", 4, running)
    last.kill()
    text, _ = running.communicate(timeout=240)
    assert running.returncode == 0, text
    found = files_of(artifacts)
    attempts = {name.partition("/")[0] for name in found}
    assert all({f"{attempt}/large", f"{attempt}/position"} <= found.keys() for attempt in attempts)
    assert {attempt.split("-")[0] for attempt in attempts} == {str(row) for row in range(24)}


def processes_of(node: Machine) -> list[str]:
    """What there is of workers on a machine: their processes, supervisors and actors."""
    lines = node.run(["ps", "-ww", "-eo", "args"]).splitlines()
    return [line for line in lines if "paddock.collect.worker_main" in line or line.startswith("ray::WorkerHost")]


def until(holds: Callable[[], object], within_s: float = 60) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


SLOW = """
environment: {{resources_servers: {{paddock.conformance.scripted:ScriptedEnvironment: {{}}}}}}
policy: {{models_servers: {{paddock.conformance.scripted:ScriptedModel: {{delay_s: 1.0}}}}}}
agent:
  agents:
    single_step:
      resources_server: {{type: resources_servers, name: environment}}
      model_server: {{type: models_servers, name: policy}}
      datasets: [{{name: few, type: example, jsonl_fpath: {rows}}}]
eval: {{retry_wait_s: 0, concurrency: 6}}
"""


def slow(head: Machine, n_rows: int) -> str:
    """A config whose rollouts take a second each."""
    rows, config = head.disk / "slow.jsonl", head.disk / "slow.yaml"
    rows.write_bytes(b'{"responses_create_params": {"input": "q"}, "answer": "yes"}\n' * n_rows)
    config.write_text(SLOW.format(rows=rows))
    return str(config)


@pytest.mark.long
def test_nodes_that_join_get_workers_and_those_that_go_lose_no_rollout(cluster: RayCluster) -> None:
    (head, second, last), out = cluster.nodes, cluster.nodes[0].disk / "joined"
    last.kill()
    running = run(cluster, out, slow(head, 400), "--cluster", "auto")
    until_written(out, 10, running)
    last.boot()
    cluster.start(last)
    until(lambda: len(processes_of(last)) == 2 * 3)
    second.kill()
    text, _ = running.communicate(timeout=280)
    assert running.returncode == 0, text
    assert rewards(out) == dict.fromkeys(((row, 0) for row in range(400)), 1.0)


@pytest.mark.long
def test_a_run_that_is_interrupted_or_killed_leaves_nothing_and_goes_on_anywhere(cluster: RayCluster) -> None:
    out, config = cluster.nodes[0].disk / "ended", slow(cluster.nodes[0], 100)
    keys = cluster.nodes[0].disk / "cluster.yaml"
    keys.write_text("eval: {cluster: auto, cluster_label: node=m2}\n")
    by_keys = [str(keys)]
    by_flags = ["--resume", "--cluster", cluster.address, "--workers", "2"]
    for words, number, lines in ((by_keys, signal.SIGINT, 20), (by_flags, signal.SIGKILL, 50)):
        running = run(cluster, out, config, *words)
        until_written(out, lines, running)
        if words is by_keys:
            assert [bool(processes_of(node)) for node in cluster.nodes] == [False, True, False]
        running.signal_inside(number)
        text, _ = running.communicate(timeout=60)
        assert running.returncode == (130 if number == signal.SIGINT else -number), text
        until(lambda: not any(map(processes_of, cluster.nodes)), within_s=30)
        assert len(rewards(out)) < 100
    running = run(cluster, out, config, "--resume", "--workers", "2")
    text, _ = running.communicate(timeout=240)
    assert running.returncode == 0, text
    assert rewards(out) == dict.fromkeys(((row, 0) for row in range(100)), 1.0)


def until_written(folder: Path, lines: int, running: "subprocess.Popen[Any]") -> None:
    deadline = time.monotonic() + 120
    file = folder / "rollouts.jsonl"
    while not file.exists() or file.read_bytes().count(b"\n") < lines:
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


def n_rows(folder: Path) -> int:
    return len({row for row, _ in rewards(folder)})
