"""Claims about jobs of several nodes, on a real SLURM of several machines with a real Ray: what runs where, who knows
which token, and that nothing is left of a job however it ends.
"""

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.training.launch.commands import ROOT, launch, prepare
from tests.training.launch.many_nodes import SlurmNodes, many_nodes, processes_of
from tests.training.launch.one_node import await_that, missing
from tests.training.launch.test_demonstration import make

from paddock.testing.machines import why_no_machines

pytestmark = pytest.mark.timeout(600)
AGENT = "+env.nemo_gym.swe.agents.swe={resources_server: {type: resources_servers, name: pivot}, "
AGENT += "model_server: {type: models_servers, name: policy_model}}"
LEFT = ("ray_node", "raylet", "gcs_server", "cluster_trainer", "sandbox serve")
WITHIN_S = 180.0
SOURCE = str(ROOT / "src")


@pytest.fixture
def slurm(request: pytest.FixtureRequest) -> Iterator[SlurmNodes]:
    if lacking := missing() or why_no_machines():
        pytest.skip(lacking)
    with many_nodes(request.param, kill_wait_s=20) as nodes:
        yield nodes


@pytest.fixture
def folder(slurm: SlurmNodes) -> Path:
    """The working directory, which all nodes see."""
    (slurm.folder / "env.toml").write_text('[site]\nextends = "slurm"\nsandbox_wait_s = 100\n')
    return slurm.folder


def submit(slurm: SlurmNodes, python: str, *words: str) -> str:
    """Launch a run of the stand-in; the number of its job."""
    folder = slurm.folder
    variables = prepare(folder)
    trainer = shlex.join([python, str(Path(__file__).with_name("cluster_trainer.py"))])
    ray_node = f'case "$*" in "-m paddock train"*) shift 3; exec {trainer} "$@";; *) exec {python} "$@";; esac'
    Path(variables["PADDOCK_VLLM_PYTHON"]).write_text(f"#!/bin/sh\n{ray_node}\n")
    environ = {**slurm.cluster.environ, "PYTHONPATH": SOURCE, "PADDOCK_HOME": str(folder / "home")}
    done = launch(folder, "--run", "site", *words, variables=variables, environ=environ)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[0].split()[1]


def starts(folder: Path) -> list[dict[str, Any]]:
    file = folder / "runs" / "first" / "begun.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def log(folder: Path, job: str) -> str:
    return (folder / "runs" / "first" / "launch" / f"{job}.log").read_text()


def await_state(slurm: SlurmNodes, job: str, *states: str) -> None:
    def ended() -> bool:
        return slurm.cluster.state(job) in states

    await_in_log(slurm, job, ended, f"{job} is {states}")


def await_in_log(slurm: SlurmNodes, job: str, claim: Callable[[], bool], what: str) -> None:
    try:
        await_that(claim, what, WITHIN_S)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{log(slurm.folder, job)}\n{slurm.cluster.logs()}") from None


def left_of(slurm: SlurmNodes, names: list[str]) -> list[str]:
    """Processes of jobs on these nodes."""
    return [line for name in names for word in LEFT for line in processes_of(slurm.nodes[name], word)]


@pytest.mark.long
@pytest.mark.parametrize("slurm", [2], indirect=True)
def test_a_job_of_one_node_has_sandboxes_on_another(slurm: SlurmNodes, folder: Path) -> None:
    _, second = slurm.nodes
    job = submit(slurm, sys.executable, "SANDBOX_NODES=1", "grpo.max_num_steps=1", AGENT)
    await_state(slurm, job, "COMPLETED")
    (start,) = starts(folder)
    assert start["sandboxes"] == {f"http://{second}:8900": [200, 401]}, "they know the token of the job alone"
    await_in_log(slurm, job, lambda: not left_of(slurm, [*slurm.nodes]), "nothing is left of the job")
    assert not list((folder / "runs" / "first" / "launch").glob("tokens-*"))


@pytest.mark.vllm
@pytest.mark.long
@pytest.mark.parametrize("slurm", [3], indirect=True)
def test_a_job_has_ray_on_its_nodes_and_sandboxes_on_a_second_component(
    slurm: SlurmNodes, folder: Path, vllm_python: str
) -> None:
    first, second, third = slurm.nodes
    job = submit(slurm, vllm_python, "SBATCH_NUM_NODES=2", "SANDBOX_NODES=1", "grpo.max_num_steps=1", AGENT)
    await_state(slurm, job, "COMPLETED")
    (start,) = starts(folder)
    assert start["nodes"] == sorted(slurm.nodes[name].address for name in (first, second))
    assert start["sandboxes"] == {f"http://{third}:8900": [200, 401]}
    assert "cluster.address=auto" in start["words"]
    await_that(lambda: not left_of(slurm, [first, second, third]), "nothing is left of the job", WITHIN_S)
    assert not list((folder / "runs" / "first" / "launch").glob("tokens-*"))


@pytest.mark.vllm
@pytest.mark.long
@pytest.mark.parametrize("slurm", [3], indirect=True)
def test_scancel_ends_the_run_first_and_leaves_no_process_of_the_job(
    slurm: SlurmNodes, folder: Path, vllm_python: str
) -> None:
    job = submit(slurm, vllm_python, "SBATCH_NUM_NODES=2", "SANDBOX_NODES=1", AGENT)
    await_in_log(slurm, job, lambda: len(starts(folder)) == 1, "the run began")
    (start,) = starts(folder)
    assert len(list((folder / "runs" / "first" / "launch").glob("tokens-*"))) == 1
    slurm.cluster.ask("scancel", job)
    await_state(slurm, job, "CANCELLED")
    await_in_log(slurm, job, lambda: not left_of(slurm, [*slurm.nodes]), "nothing is left of the job")
    assert json.loads((folder / "runs" / "first" / "ended").read_text()) == start["nodes"], "Ray outlived the run"
    assert "interrupted" in log(folder, job)


@pytest.mark.vllm
@pytest.mark.long
@pytest.mark.parametrize(("sandboxes", "nth"), [(0, 1), (1, 1), (1, 2)], ids=["plain", "of Ray", "of sandboxes"])
@pytest.mark.parametrize("slurm", [4], indirect=True)
def test_a_node_that_dies_requeues_the_job_and_leaves_nothing_on_the_others(
    slurm: SlurmNodes, folder: Path, vllm_python: str, sandboxes: int, nth: int
) -> None:
    names = [*slurm.nodes]
    job = submit(slurm, vllm_python, "SBATCH_NUM_NODES=2", f"SANDBOX_NODES={sandboxes}", AGENT)
    await_in_log(slurm, job, lambda: len(starts(folder)) == 1, "the run began")
    lost = slurm.nodes[names[nth]]
    lost.kill()
    await_state(slurm, job, "PENDING", "NODE_FAIL", "CANCELLED", "FAILED")
    rest = [name for name in names if slurm.nodes[name] is not lost]
    await_in_log(slurm, job, lambda: not left_of(slurm, rest), "nothing is left on the other nodes")
    await_state(slurm, job, "COMPLETED")
    _, again = starts(folder)
    assert lost.address not in again["nodes"]
    assert all(statuses == [200, 401] for statuses in again["sandboxes"].values()), "they know the new token"
    assert len(again["sandboxes"]) == sandboxes


@pytest.mark.vllm
@pytest.mark.long
@pytest.mark.parametrize("slurm", [2], indirect=True)
def test_a_node_without_ray_is_named(slurm: SlurmNodes, folder: Path, vllm_python: str) -> None:
    """The second node can't make a folder for Ray."""
    second = [*slurm.nodes][1]
    slurm.nodes[second].run(["mount", "-t", "tmpfs", "-o", "ro", "none", "/tmp"])
    with (folder / "env.toml").open("a") as file:
        file.write("ray_wait_s = 30\n")
    job = submit(slurm, vllm_python, "SBATCH_NUM_NODES=2")
    await_state(slurm, job, "FAILED")
    assert f"Ray has not started on {second}" in log(folder, job)
    assert not starts(folder)


@pytest.mark.long
@pytest.mark.parametrize("slurm", [2], indirect=True)
def test_nodes_of_sandboxes_that_do_not_start_fail_the_job(slurm: SlurmNodes, folder: Path) -> None:
    (folder / "serve.yaml").write_text("no_such_key: 1\n")
    with (folder / "env.toml").open("a") as file:
        file.write('sandbox_settings = "serve.yaml"\n')
    job = submit(slurm, sys.executable, "SANDBOX_NODES=1", AGENT)
    await_state(slurm, job, "FAILED")
    assert "nodes of sandboxes ended at their start" in log(folder, job)
    assert "no_such_key" in log(folder, job), "why, in their own words"
    assert not starts(folder)


@pytest.mark.vllm
@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("slurm", [2], indirect=True)
def test_the_demonstration_is_trained_on_two_nodes(slurm: SlurmNodes, folder: Path, vllm_python: str) -> None:
    variables = make(folder, vllm_python)
    short = ["grpo.max_num_steps=2", "grpo.val_at_start=false", "grpo.val_at_end=false", "checkpointing.save_period=2"]
    environ = {**slurm.cluster.environ, "PYTHONPATH": SOURCE, "PADDOCK_HOME": str(folder / "home")}
    done = launch(folder, "--run", "site", "SBATCH_NUM_NODES=2", *short, variables=variables, environ=environ)
    assert done.returncode == 0, done.stderr
    job = done.stdout.splitlines()[0].split()[1]
    run = folder / "runs" / "demonstration"
    with_roles: set[str] = set()

    def has_ended() -> bool:
        for name, machine in slurm.nodes.items():
            with_roles.update({name} if any("IDLE" not in line for line in processes_of(machine, "ray::")) else ())
        return slurm.cluster.state(job) not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING")

    await_that(has_ended, "the job ended", 3000)
    told = (run / "launch" / f"{job}.log").read_text()
    assert slurm.cluster.state(job) == "COMPLETED", told
    assert (run / "checkpoints" / "step_2").is_dir()
    assert len((run / "metrics.jsonl").read_text().splitlines()) >= 2
    assert with_roles == {*slurm.nodes}, "both had roles of the run"
