"""What a run tells: lines that last and can be forgotten, progress, the page at the end, the plots."""

import io
import os
import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest

from paddock.errors import ConfigError, InfraError
from paddock.training.grpo.config import LoggerConfig
from paddock.training.grpo.metrics_log import METRICS, MetricsLog
from paddock.training.grpo.progress import Progress
from paddock.training.grpo.sinks import Sinks, make_sinks
from paddock.training.grpo.summary import page, summarise

ERROR = "train/logprob_error/current"
SCRIPT = Path(__file__).with_name("report_a_run.py")


def line(step: int, *, trained: bool = True, **metrics: float | None) -> dict[str, Any]:
    named = {name.replace("__", "/"): value for name, value in metrics.items()}
    return {
        "step": step,
        "trained": trained,
        "groups": [step],
        "dropped": [],
        "lost": [],
        "wall_s": 1.0,
        "metrics": named,
    }


def logged(folder: Path, lines: list[dict[str, Any]]) -> MetricsLog:
    log = MetricsLog(folder)
    for one in lines:
        log.append(one)
    return log


@pytest.mark.parametrize(("after", "left"), [(-1, []), (0, [0]), (2, [0, 1, 2]), (9, [0, 1, 2, 3])])
def test_lines_after_a_step_are_forgotten_and_told_again(tmp_path: Path, after: int, left: list[int]) -> None:
    log = logged(tmp_path, [line(step) for step in range(4)])
    log.forget(after)
    assert [one.step for one in log.lines()] == left
    log.append(line(after + 1))
    assert [one.step for one in MetricsLog(tmp_path).lines()] == [*left, after + 1]


def test_a_torn_line_is_no_line(tmp_path: Path) -> None:
    log = logged(tmp_path, [line(1)])
    with (tmp_path / METRICS).open("ab") as file:
        file.write(b'{"step": 2, "tra')
    assert [one.step for one in log.lines()] == [1]
    log.forget(5)
    log.append(line(2))
    assert [one.step for one in log.lines()] == [1, 2]


def test_a_disk_that_refuses_is_an_infra_error(tmp_path: Path) -> None:
    (tmp_path / METRICS).symlink_to("/dev/full")
    with pytest.raises(InfraError, match="can't be written") as raised:
        MetricsLog(tmp_path).append({"step": 1, "trained": True, "metrics": {}})
    assert (raised.value.kind, raised.value.retryable) == ("disk", False)


def test_numbers_that_are_none_are_written_and_left_out_of_curves(tmp_path: Path) -> None:
    log = logged(tmp_path, [line(1, train__loss=float("nan"), train__lr=0.5)])
    assert orjson.loads((tmp_path / METRICS).read_bytes())["metrics"]["train/loss"] is None
    assert log.lines()[0].metrics == {"train/lr": 0.5}


def test_a_run_is_summed_up_over_its_steps(tmp_path: Path) -> None:
    lines = [line(0, trained=False, validation__accuracy=0.25)]
    for step in range(1, 21):
        metrics = {"train/total_reward/mean": step / 20, "timing/step_s": 2.0, "timing/train_s": 1.5}
        metrics |= {f"{ERROR}/mean_abs": step * 1e-7, f"{ERROR}/max_abs": step * 1e-6, f"{ERROR}/tokens": 10.0 * step}
        metrics |= {"train/masked/infra": 1.0, "train/masked/leak": 0.0, "train/staleness/max": step % 2}
        lines.append({**line(step), "metrics": metrics})
    last = {**lines[-1]["metrics"], "validation/accuracy": 0.75}
    lines.append({**line(20, trained=False), "metrics": last})
    found = summarise(logged(tmp_path, lines).lines(), {"name": "demo", "steps": 20, "why": "steps", "seed": 3})
    assert (found["reward_first"], found["reward_last"]) == (pytest.approx(0.275), pytest.approx(0.775))
    assert (found["validation_first"], found["validation_last"]) == (0.25, 0.75)
    assert (found["seconds"]["steps"], found["seconds"]["train"], found["seconds"]["wait"]) == (40.0, 30.0, 0)
    weighed = sum(step * step for step in range(1, 21)) / sum(range(1, 21)) * 1e-7
    assert found["logprob_error"]["current"]["mean_abs"] == pytest.approx(weighed)
    assert found["logprob_error"]["current"]["max_abs"] == pytest.approx(2e-5)
    assert found["logprob_error"]["all"]["mean_abs"] is None
    assert (found["masked"], found["staleness"]["max"]) == ({"infra": 20}, 1.0)
    text = page(found, ["plots/reward.png"])
    assert "| mean reward, last 10 steps | 0.775 |" in text
    assert "![plots/reward.png](plots/reward.png)" in text


def test_a_run_without_a_step_has_a_page_too() -> None:
    found = summarise([], {"name": "empty", "steps": 0, "why": "rows", "seed": 1})
    assert found["reward_first"] is None
    assert "| mean reward, first 10 steps | - |" in page(found, [])


def test_without_a_terminal_progress_is_a_line_now_and_then() -> None:
    stream, now = io.StringIO(), [0.0]
    progress = Progress(50, every_s=10, stream=stream, clock=lambda: now[0])
    for step in range(1, 50):
        now[0] = step * 4.0
        progress.report(step, {"train/total_reward/mean": 0.5})
    shown = [text.split(" ")[1] for text in stream.getvalue().splitlines()]
    assert shown == [f"{step}/50" for step in range(1, 50, 3)]
    progress.report(50, {})
    progress.close()
    assert stream.getvalue().splitlines()[-1].startswith("step 50/50")
    assert "reward 0.500" in stream.getvalue()


def test_a_sink_that_breaks_ends_itself_and_not_the_run(caplog: pytest.LogCaptureFixture) -> None:
    class ReportedRun:
        def __init__(self, *, broken: bool) -> None:
            self.broken, self.steps = broken, list[int]()

        def open(self, after: int) -> None:
            self.steps.append(after)

        def write(self, step: int, metrics: Any) -> None:
            if self.broken:
                raise OSError("full")
            self.steps.append(step)

        def write_samples(self, step: int, samples: Any) -> None:
            self.write(step, samples)

        def close(self) -> None:
            if self.broken:
                raise OSError("full")
            self.steps.append(-2)

    good, bad = ReportedRun(broken=False), ReportedRun(broken=True)
    Sinks([bad, good]).close()
    assert good.steps.pop() == -2
    caplog.clear()
    sinks = Sinks([bad, good])
    sinks.open(4)
    sinks.write(5, {})
    sinks.write(6, {})
    sinks.close()
    assert (good.steps, bad.steps) == ([4, 5, 6, -2], [4])
    assert caplog.text.count("gets no more metrics") == 1


def test_a_missing_package_is_named_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pip install 'wandb'"):
        make_sinks(LoggerConfig(wandb_enabled=True), tmp_path)
    assert make_sinks(LoggerConfig(), tmp_path) == []


@pytest.mark.vllm
@pytest.mark.timeout(300)
def test_a_whole_run_is_told_with_plots_and_tensorboard_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    python = os.environ.get("PADDOCK_VLLM_PYTHON")
    if python is None:
        pytest.skip("PADDOCK_VLLM_PYTHON names no interpreter with matplotlib and tensorboard")
    done = subprocess.run([python, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = orjson.loads(done.stdout)
    assert told["steps"] == [0, 1, 2, 3, 4, 5, 6]
    assert told["tensorboard"] == {"train/loss": [1, 2, 3, 4, 5, 6], "validation/accuracy": [0]}
    assert list(told["samples"]) == ["1", "2", "3", "4", "5", "6"]
    head, _, *rows = told["samples"]["6"].splitlines()
    assert head.startswith("| rollout | row | agent | outcome | reward |") and len(rows) == 5
    run = f"{tmp_path.parent.name}%2F{tmp_path.name}"
    for row in rows:
        at = row.split("]")[0].removeprefix("| [")
        assert f"[{at}](http://127.0.0.1:7000/#/rollout?run={run}&at={at})" in row
    assert any(r"pivot\|agent | completed | 1 | match" in row for row in rows)
    assert {"reward.png", "loss.png", "agreement.png", "seconds.png"} <= set(told["plots"])
    assert (tmp_path / "plots" / "reward.png").read_bytes().startswith(b"\x89PNG")
    assert told["summary"]["steps"] == 6
    assert "![plots/reward.png]" in (tmp_path / "summary.md").read_text()
