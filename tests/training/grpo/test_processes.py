"""What `measure_processes.py` found where Ray is: roles are called as if they were here; nothing is left."""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.processes import gone

ROOT = Path(__file__).resolve().parents[3]
MODULE = "tests.training.grpo.measure_processes"
pytestmark = pytest.mark.vllm


def environment(**own: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **own}


@pytest.fixture(scope="module")
def results(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    command = [vllm_python, "-m", MODULE, str(tmp_path_factory.mktemp("run") / "logs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment(), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_role_is_called_in_a_process_of_its_own(results: Any) -> None:
    assert results["apart"]
    assert results["sum"] == 3
    assert results["niceness"] == 0


def test_what_was_put_is_read_without_a_copy(results: Any) -> None:
    assert results["shared"] == [sum(range(10**6)), False]


def test_what_it_raises_of_ours_is_raised_here_and_all_else_is_our_bug(results: Any) -> None:
    assert results["refuse"] == ["ConfigError", "said", "what would be right"]
    assert results["fail"] == ["BugError", "ValueError", "ValueError: unforeseen"]


def test_one_that_was_killed_is_an_error_at_what_waits_and_at_what_comes(results: Any) -> None:
    for told in (results["killed"], results["after"]):
        assert told[:2] == ["InfraError", "process_died"]
        assert "example" in told[2]
        assert "example.log" in told[2]


def test_nothing_listens_beyond_loopback_and_nothing_is_left(results: Any) -> None:
    assert set(results["listening"]) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert results["left"] == 0


@pytest.mark.long
def test_all_of_it_dies_with_the_process_that_started_it(vllm_python: str, tmp_path: Path) -> None:
    # A place of its own, for any start removes what is left; with a short name for Ray's sockets' sake.
    with tempfile.TemporaryDirectory(prefix="p") as home:
        env = environment(TMPDIR=home)
        command = [vllm_python, "-m", MODULE, str(tmp_path / "logs"), "hang"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, cwd=ROOT) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            family = [psutil.Process(pid) for pid in json.loads(line) if psutil.pid_exists(pid)]
            process.kill()
        assert len(family) >= 3
        assert gone(family, within_s=120)
        (left,) = Path(home).glob(f"paddock-ray-{process.pid}-*")  # the next start removes it
        again = [vllm_python, "-m", MODULE, str(tmp_path / "again" / "logs")]
        subprocess.run(again, check=True, capture_output=True, timeout=600, env=env, cwd=ROOT)
        assert not left.exists()
