"""The claim that a run goes on from wherever it was killed: the same counters, no group twice, none lost, nothing left.

The buffer is the driver's: killed with it.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from tests.e2e.learning import runs
from tests.support.processes import gone

STEPS, SAVED_EVERY, KILLED_AT, PROMPTS = 12, 4, 6, 4
DOWN_S = 60.0
CLOSED = "tests/e2e/learning/rooms_closed.yaml"
OVERRIDES = (
    f"grpo.max_num_steps={STEPS}",
    f"grpo.num_prompts_per_step={PROMPTS}",
    f"checkpointing.save_period={SAVED_EVERY}",
    "+cluster.rollout_workers=2",
)
pytestmark = [pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(2 * runs.RUN_S)]
Pick = Callable[["TrainCommand"], psutil.Process]


class TrainCommand:
    """A training command that runs."""

    def __init__(self, out: Path, arguments: list[str], env: Mapping[str, str]) -> None:
        self.out = out
        self.log = out.with_suffix(".log")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                arguments,
                cwd=runs.ROOT,
                env={**runs.environment(), **env},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def family(self) -> list[psutil.Process]:
        """It and its living descendants."""
        with suppress(psutil.NoSuchProcess):
            parent = psutil.Process(self.process.pid)
            return [parent, *parent.children(recursive=True)]
        return []

    def steps(self) -> int:
        return len(runs.lines(self.out)) if (self.out / "metrics.jsonl").exists() else 0

    def until(self, step: int) -> None:
        end = time.monotonic() + runs.RUN_S
        while self.steps() < step:
            assert time.monotonic() < end, self.output()
            assert self.process.poll() is None, self.output()
            time.sleep(0.1)

    def code(self) -> int:
        return self.process.wait(runs.RUN_S)

    def output(self) -> str:
        return self.log.read_text()[-6000:]


@contextmanager
def running(
    out: Path, *overrides: str, resume: bool = False, env: Mapping[str, str] | None = None
) -> Iterator[TrainCommand]:
    arguments = [runs.vllm_python(), "-m", "tests.e2e.learning.driver", *overrides, "--out", str(out)]
    command = TrainCommand(out, [*arguments, *(["--resume"] if resume else [])], env or {})
    try:
        yield command
    finally:
        for process in reversed(command.family()):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        command.process.wait()


def role(name: str) -> Pick:
    """The process whose output goes to that role's log."""

    def pick(command: TrainCommand) -> psutil.Process:
        log = str((command.out / "logs" / f"{name}.log").resolve())
        actors = [one for one in command.family() if one.cmdline()[:1] and one.cmdline()[0].startswith("ray::")]
        return next(one for one in actors if str(Path(f"/proc/{one.pid}/fd/1").readlink()) == log)

    return pick


def program(part: str) -> Pick:
    """The process with that in its command line."""
    return lambda command: next(one for one in command.family() if part in " ".join(one.cmdline()))


POINTS: dict[str, Pick] = {
    "collector": role("rollouts-0"),
    "policy": role("policy"),
    "engine": program("vllm.entrypoints.openai.api_server"),
    "model_server": program("paddock.server.child policy_model"),
    "driver": lambda command: psutil.Process(command.process.pid),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("small")
    runs.call("scripts/train_demo.py", "make", folder, "--small", "--steps", "100")
    return [*runs.SMALL, *runs.data(folder), *OVERRIDES]


@pytest.mark.parametrize("point", list(POINTS))
def test_a_run_that_was_killed_ends_as_one_that_was_not(small: list[str], tmp_path: Path, point: str) -> None:
    out = tmp_path / "run"
    with running(out, *small) as command:
        command.until(KILLED_AT)
        victim, family = POINTS[point](command), command.family()
        os.kill(victim.pid, signal.SIGKILL)
        code = command.code()
        output = command.output()
        assert gone(family, within_s=120), "something of it is left"
    if code:
        assert point not in ("engine", "model_server"), output
        with running(out, *small, resume=True) as command:
            assert command.code() == 0, command.output()
    require_whole(out)


def test_a_resources_server_that_is_down_costs_time_alone(tmp_path: Path) -> None:
    folder, closed = tmp_path / "rooms", tmp_path / "closed"
    runs.call("-m", "tests.e2e.learning.driver", "--make-rooms", folder)
    out = tmp_path / "run"
    with running(out, CLOSED, *runs.data(folder), *OVERRIDES, env={"ROOMS_CLOSED": str(closed)}) as command:
        command.until(KILLED_AT)
        closed.touch()
        program("paddock.server.child rooms")(command).kill()
        time.sleep(DOWN_S)
        before = command.steps()
        closed.unlink()
        assert command.code() == 0, command.output()
    assert before < STEPS, "it was not missed"
    require_whole(out)
    assert all(line["metrics"]["train/outcome/completed"] == PROMPTS * 16 for line in runs.lines(out))


def require_whole(out: Path) -> None:
    """Every step once, no group twice, and none that is neither trained on, lost, nor of the last that were begun."""
    found = runs.lines(out)
    assert [line["step"] for line in found] == list(range(1, STEPS + 1))
    trained = [group for line in found for group in line["groups"]]
    lost = [group["id"] for line in found for group in line["lost"]]
    assert len(trained) == len(set(trained)) == STEPS * PROMPTS
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["steps"], summary["groups_trained"]) == (STEPS, STEPS * PROMPTS)
    ended = {*trained, *lost}
    open_ones = [group for group in range(summary["groups_started"]) if group not in ended]
    assert len(open_ones) <= 2 * PROMPTS
    journal = [json.loads(line)["id"] for line in (out / "groups.jsonl").read_text().splitlines()]
    assert set(trained) <= set(journal)
