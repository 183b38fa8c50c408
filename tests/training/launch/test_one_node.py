"""Claims about jobs of a real SLURM: what they are given, how they end, how the same launch goes on."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.training.launch.commands import HIDDEN, launch, prepare
from tests.training.launch.one_node import Cluster, await_that, missing, one_node

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def slurm() -> Iterator[Cluster]:
    if lacking := missing():
        pytest.skip(lacking)
    with one_node() as cluster:
        yield cluster


def job_lines(folder: Path) -> list[dict[str, Any]]:
    file = folder / "runs" / "first" / "begun.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_a_job_that_is_cancelled_is_gone_on_with_by_the_same_launch(tmp_path: Path, slurm: Cluster) -> None:
    variables = {**prepare(tmp_path), "THEIR_TOKEN": HIDDEN}
    (tmp_path / "env.toml").write_text('[site]\nextends = "slurm"\npartition = "main"\nenv = ["THEIR_TOKEN"]\n')

    def submit() -> str:
        done = launch(tmp_path, "--run", "site", variables=variables, environ=slurm.environ)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[0].split()[1]

    first = submit()
    await_that(lambda: len(job_lines(tmp_path)) == 1, f"the run began\n{slurm.logs()}", 120)
    second = submit()
    assert (slurm.state(first), slurm.state(second)) == ("RUNNING", "PENDING"), "one job of a run at a time"
    (start,) = job_lines(tmp_path)
    assert start["environ"]["THEIR_TOKEN"] == HIDDEN
    assert start["folder"] == str(tmp_path)
    assert start["words"][:3] == ["-m", "paddock", "train"]

    slurm.ask("scancel", first)
    await_that(lambda: slurm.state(second) == "COMPLETED", f"the second ended\n{slurm.logs()}", 120)
    assert slurm.state(first) == "CANCELLED"
    assert [start["from"] for start in job_lines(tmp_path)] == [False, True], "told to end, it stored what it had"
    logs = [(tmp_path / "runs" / "first" / "launch" / f"{job}.log").read_text() for job in (first, second)]
    assert "interrupted" in logs[0]
    assert "at its end" in logs[1]
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "begun.jsonl"]
    assert not [path for path in written if "touch /tmp/never" in path.read_text()], "the secret is in no file"
    assert "touch /tmp/never" not in slurm.ask("scontrol", "show", "job", second)


def test_a_refusal_is_told_in_the_words_of_slurm(tmp_path: Path, slurm: Cluster) -> None:
    done = launch(
        tmp_path, "--run", "slurm", "SLURM_PARTITION=nowhere", variables=prepare(tmp_path), environ=slurm.environ
    )
    assert done.returncode == 1
    assert "invalid partition specified: nowhere" in done.stderr


@pytest.mark.long
def test_a_job_that_is_requeued_goes_on_by_itself(tmp_path: Path, slurm: Cluster) -> None:
    done = launch(tmp_path, "--run", "slurm", variables=prepare(tmp_path), environ=slurm.environ)
    job = done.stdout.splitlines()[0].split()[1]
    await_that(lambda: len(job_lines(tmp_path)) == 1, f"the run began\n{slurm.logs()}", 120)
    slurm.ask("scontrol", "requeue", job)
    await_that(lambda: slurm.state(job) == "COMPLETED", f"it began again, and ended\n{slurm.logs()}", 300)
    assert [start["from"] for start in job_lines(tmp_path)] == [False, True]
    told = (tmp_path / "runs" / "first" / "launch" / f"{job}.log").read_text()
    assert told.index("interrupted") < told.index("at its end"), "the log has both"
