"""Claims about collections over four machines: rewards, rollouts and metrics are those of one process on one."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.spread import CollectedRun

from paddock.testing.machines import why_no_machines
from paddock.testing.ray_cluster import RayCluster, ray_cluster

PYTHON = os.environ.get("PADDOCK_VLLM_PYTHON")
ROOT = Path(__file__).parents[2]
WHY_NOT = why_no_machines()
SPREAD = ("--cluster", "auto", "--workers", "4")
ENV = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "none", "OPENAI_MODEL": "played"}
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not PYTHON, reason="PADDOCK_VLLM_PYTHON: no environment with Ray"),
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
    pytest.mark.timeout(1800),
]


class FourMachines(NamedTuple):
    """A cluster."""

    cluster: RayCluster

    def eval(self, name: str, *words: str, timeout_s: float = 120.0) -> CollectedRun:
        """A run of `paddock eval` on the first machine, into a folder there."""
        out = self.cluster.nodes[0].disk / name
        command = ["-m", "paddock", "eval", *words, "--oracle", "--out", str(out), "--quiet"]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with self.cluster.driver(command, env=ENV, cwd=ROOT, **pipes) as process:
            said, _ = process.communicate(timeout=timeout_s)
        assert process.returncode == 0, said
        return CollectedRun(out)


@pytest.fixture(scope="module")
def four() -> Iterator[FourMachines]:
    with ray_cluster(4, Path(PYTHON or "")) as cluster:
        yield FourMachines(cluster)


def same(spread: CollectedRun, alone: CollectedRun, members: int) -> None:
    """All of it is the same, but for what is of one run alone."""
    assert spread.counts() == alone.counts()
    assert len(spread.counts()) == members
    assert spread.counts().total() == members
    assert spread.rewards() == alone.rewards()
    assert (spread.failures, alone.failures) == ([], [])
    assert spread.metrics() == alone.metrics()
    records, own = spread.records(), alone.records()
    assert [key for key in own if records[key] != own[key]] == []


@pytest.mark.long
def test_groups_that_a_judge_compares_are_those_of_one_process(four: FourMachines) -> None:
    config = str(ROOT / "configs/genrm.yaml")
    state = "+genrm.resources_servers.genrm.state_dir="
    alone = four.eval("genrm-alone", config, f"{state}{four.cluster.nodes[0].disk / 'alone'}")
    spread = four.eval("genrm", config, *SPREAD, f"{state}{four.cluster.nodes[0].disk / 'spread'}")
    same(spread, alone, 24)


@pytest.mark.long
def test_single_steps_are_those_of_one_process(four: FourMachines) -> None:
    config = str(ROOT / "configs/demo.yaml")
    same(four.eval("pivot", config, *SPREAD, "--repeats", "2"), four.eval("pivot-alone", config, "--repeats", "2"), 202)
