"""Claims about a trainer's rollouts over the nodes of a Ray cluster, whose engine is a function of the trainer's."""

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pytest
from tests.collect.test_ray_workers import processes_of, until

from paddock.testing.machines import MachineProcess, why_no_machines
from paddock.testing.ray_cluster import RayCluster, ray_cluster
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import write_model_folder
from paddock.types import JsonObject

PYTHON = os.environ.get("PADDOCK_VLLM_PYTHON")
ROOT = Path(__file__).parents[2]
WHY_NOT = why_no_machines()
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not PYTHON, reason="PADDOCK_VLLM_PYTHON: no environment with Ray"),
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
]
START_S = 150.0
TRAINER = """
import asyncio, json, os, sys
from pathlib import Path
from tempfile import TemporaryDirectory
import orjson
from paddock.config import load
from paddock.rollouts import Completion, RolloutOptions, open_rollouts
from paddock.testing.vocabularies import small_vocabulary

given = orjson.loads(sys.argv[1])
if given.get("ray"):
    import ray
    ray.init(address="auto", log_to_driver=False)

async def sample(ids, sampling, *, rollout):
    assert os.getpid() == trainer
    await asyncio.sleep(given["sampling_s"])
    return Completion(ids_of_yes, [-0.5] * len(ids_of_yes), "stop", 3)

trainer, row = os.getpid(), {"responses_create_params": {"input": "Yes or no?"}, "answer": "yes"}
ids_of_yes = small_vocabulary().encode("yes<|im_end|>")
options = RolloutOptions(**{"cluster": "auto", "max_rollouts": 8, **given.get("options", {})})
config, settings = load([], extra=given["tree"], servers=()), {"tokenizer": given["model"]}
with open_rollouts(config, engine=sample, engine_settings=settings, options=options) as rollouts:
    print("opened", flush=True)
    for group in rollouts.groups([{**row, "mark": nth} for nth in range(given["rows"])], 4):
        for member in group.members:
            spans = [span.weight_version for entry in member.samples for span in entry.sample.spans if span.trained]
            mark = member.rollout.row.task["mark"]
            print(json.dumps([group.row_index, mark, member.member, member.reward, spans]), flush=True)
if given.get("ray"):
    print("nodes", len(ray.nodes()), flush=True)
"""


@pytest.fixture(scope="module")
def model() -> Iterator[Path]:
    """At a path that all machines have."""
    with TemporaryDirectory(dir="/var/tmp") as folder:
        yield write_model_folder(Path(folder) / "model", chat_template=TEMPLATES["chatml"].source)


@pytest.fixture(scope="module")
def two() -> Iterator[RayCluster]:
    with ray_cluster(2, Path(PYTHON or "")) as cluster:
        yield cluster


class RayTrainer:
    """A trainer on the first machine of a cluster."""

    def __init__(self, cluster: RayCluster, model: Path, *, wait_s: float = 120.0, **words: Any) -> None:
        self._cluster = cluster
        refers = {
            "resources_server": {"type": "resources_servers", "name": "environment"},
            "model_server": {"type": "models_servers", "name": "policy_model"},
        }
        tree = {
            "environment": {"resources_servers": {"paddock.conformance.scripted:ScriptedEnvironment": {}}},
            "agent": {"agents": {"single_step": refers}},
            "eval": {"retry_wait_s": 0, "max_attempts": 5, "cluster_look_s": 1.0, "cluster_wait_s": wait_s},
        }
        self._words: JsonObject = {"tree": tree, "model": str(model), "sampling_s": 0.05, "rows": 12, **words}

    def start(self) -> MachineProcess:
        return self._cluster.driver(
            ["-c", TRAINER, json.dumps(self._words)],
            env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def until_running(holds: Callable[[], object], trainer: MachineProcess) -> None:
    """Wait for what a trainer that runs brings about."""
    until(lambda: holds() or trainer.poll() is not None, START_S)
    assert trainer.poll() is None, trainer.communicate()[1]


def members(lines: list[str]) -> Counter[tuple[int, int]]:
    """Each member of each row, as often as it came, all of them right."""
    found = [orjson.loads(line) for line in lines if line.startswith("[")]
    assert all(index == mark for index, mark, *_ in found)
    assert {(reward, *versions) for _, _, _, reward, versions in found} == {(1.0, "3")}
    return Counter((index, member) for index, _, member, *_ in found)


def each_once(rows: int) -> dict[tuple[int, int], int]:
    return dict.fromkeys(((row, member) for row in range(rows) for member in range(4)), 1)


def of_workers(cluster: RayCluster) -> list[list[str]]:
    return [processes_of(node) for node in cluster.nodes if node.is_on]


@pytest.mark.parametrize("joined", [pytest.param(False, marks=pytest.mark.long), True])
def test_groups_come_from_all_nodes_and_the_engine_is_the_trainer_s(two: RayCluster, model: Path, joined: bool) -> None:
    """`joined`: the trainer is part of the cluster already, and stays so."""
    trainer = RayTrainer(two, model, ray=joined, rows=40, sampling_s=1.5).start()
    until_running(lambda: all(of_workers(two)), trainer)
    out, err = trainer.communicate(timeout=200)
    assert trainer.returncode == 0, err
    assert members(out.splitlines()) == each_once(40)
    assert ("nodes 2" in out) == joined
    until(lambda: not any(of_workers(two)))


def test_a_node_that_dies_in_the_middle_of_a_stream_costs_no_member(two: RayCluster, model: Path) -> None:
    last = two.nodes[1]
    trainer = RayTrainer(two, model, rows=60, sampling_s=1.0).start()
    assert trainer.stdout is not None
    lines = [trainer.stdout.readline() for _ in range(1 + 4 * 8)]
    until_running(lambda: processes_of(last), trainer)
    last.kill()
    try:
        out, err = trainer.communicate(timeout=300)
    finally:
        last.boot()
        two.start(last)
    assert trainer.returncode == 0, err
    assert members([*lines, *out.splitlines()]) == each_once(60)
    until(lambda: not any(of_workers(two)))


def test_a_trainer_that_is_killed_leaves_nothing_on_any_node(two: RayCluster, model: Path) -> None:
    trainer = RayTrainer(two, model, sampling_s=3600.0).start()
    assert trainer.stdout is not None
    assert trainer.stdout.readline() == "opened\n"
    until_running(lambda: all(of_workers(two)), trainer)
    time.sleep(2)
    trainer.kill_inside()
    trainer.communicate(timeout=60)
    until(lambda: not any(of_workers(two)))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"options": {"cluster": "127.0.0.1:1"}}, "ray_unreachable"),
        ({"options": {"cluster_label": "pool=none"}, "wait_s": 3.0}, "with the label pool=none"),
    ],
)
def test_what_can_t_start_is_said_at_once(two: RayCluster, model: Path, words: JsonObject, says: str) -> None:
    trainer = RayTrainer(two, model, **words).start()
    _, err = trainer.communicate(timeout=200)
    assert trainer.returncode != 0
    assert says in err
    until(lambda: not any(of_workers(two)))
