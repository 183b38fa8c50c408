"""A run as its teller sees it, started twice: six steps of which three are told again. Prints what was kept."""

import json
import sys
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from paddock.training.core.records import Batch, Group, Member
from paddock.training.grpo.loop_records import RunResult, StepReport
from paddock.training.grpo.metrics_log import MetricsLog
from paddock.training.grpo.read_config import read_config
from paddock.training.grpo.report import RunReporter

CONFIG = """
policy: {model_name: tiny, generation: {}}
grpo: {num_prompts_per_step: 2, num_generations_per_prompt: 4, max_num_steps: 6}
data: {train: {data_path: rows.jsonl}}
logger: {tensorboard_enabled: true, samples_per_step: 5, view_url: "http://127.0.0.1:7000"}
env:
  nemo_gym:
    pivot: {resources_servers: {pivot: {comparator: compat}}}
"""


def step_report(step: int, *, again: bool = False) -> StepReport:
    metrics = {"train/total_reward/mean": step / 6, "train/loss": 0.5 + again, "timing/step_s": 1.0}
    metrics |= {"train/logprob_error/current/mean_abs": 1e-7, "train/masked/infra": 1.0}
    members = (
        Member(0, "completed", 1.0, reason="match", agent="pivot|agent"),
        Member(1, "infra", None, reason="timeout"),
    )
    groups = [Group(step * 10 + nth, nth, 0, members, 2, step) for nth in range(6)]
    return StepReport(step, Batch(step - 1, [], [], groups, []), (), metrics)


def main(out: Path) -> None:
    (out / "run.yaml").write_text(CONFIG)
    read = read_config(out / "run.yaml")
    first = RunReporter(read, out)
    first.forget(-1)
    first.report(StepReport(0, None, (), {"validation/accuracy": 0.1}))
    for step in range(1, 6):
        first.report(step_report(step))
    first.close()
    second = RunReporter(read, out)
    second.forget(3)
    for step in range(4, 7):
        second.report(step_report(step, again=True))
    second.end(RunResult("steps", 6, 12, 12, {}, 0, 0.1, None, None, None))
    second.close()
    events = EventAccumulator(str(out / "logs" / "tensorboard")).Reload()
    kept = {
        "steps": [line.step for line in MetricsLog(out).lines()],
        "tensorboard": {
            name: [event.step for event in events.Scalars(name)] for name in ("train/loss", "validation/accuracy")
        },
        "samples": {event.step: event.tensor_proto.string_val[0].decode() for event in events.Tensors("train/samples")},
        "plots": sorted(path.name for path in (out / "plots").iterdir()),
        "summary": json.loads((out / "summary.json").read_text()),
    }
    sys.stdout.write(json.dumps(kept))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
