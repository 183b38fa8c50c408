"""Two steps with samples in W&B's own files, as it writes them without a network. Prints where they are."""

import sys
from pathlib import Path

from paddock.training.grpo.config import LoggerConfig
from paddock.training.grpo.sample_table import SampledRollout
from paddock.training.grpo.sinks import make_sinks


def main(out: Path) -> None:
    (sink,) = make_sinks(LoggerConfig(wandb_enabled=True), out)
    sink.open(-1)
    for step in (1, 2):
        sink.write(step, {"train/loss": 0.5})
        shown = SampledRollout(
            f"{step}-0", "row", "agent", "completed", 1.0, "match", 3, 40, 2.5, "http://host/#/rollout"
        )
        failed = shown._replace(rollout=f"{step}-1", outcome="infra", reward=None)
        sink.write_samples(step, [shown, failed])
    sink.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
