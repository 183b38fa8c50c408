"""`python -m scripts.train_demo_trl FOLDER`: TRL's asynchronous trainer learns the task of `scripts/train_demo.py`.

Given   FOLDER/made: rows and model, as `scripts/train_demo.py make` writes them; `configs/train_demo_trl.yaml`. With
        `--small` as it makes them so: four rows, a fourth of the batch, nothing held out and nothing checked.
Made    FOLDER/metrics.jsonl, what TRL logs of each step; FOLDER/summary.json, the figures.
Check   mean reward of the first ten steps under 0.2, of the last ten and on the held-out rows at least 0.9. Exit 1
        where one of them does not hold.
Run     under the interpreter of an environment with TRL; vLLM is started in its own (PADDOCK_VLLM_PYTHON). No GPU.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from datasets import Dataset
from scripts.train_demo import FIRST_AT_MOST, HELD_OUT_AT_LEAST, LAST_AT_LEAST
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer

from paddock.rollouts import RolloutClient, open_rollouts
from paddock.training.core.settings import GrpoSettings
from paddock.training.trl.cpu import prepare
from paddock.training.trl.rows import dataset_rows
from paddock.training.trl.settings import TrlWorkerSettings
from paddock.training.trl.weights import VllmWeights
from paddock.training.trl.worker import TrlRolloutWorker

CONFIG = "configs/train_demo_trl.yaml"
STEPS, ENDS = 180, 10
GENERATIONS = 16
Json = dict[str, Any]


class TrlDemoBatch(NamedTuple):
    """Of each step; as in `configs/train_demo.yaml`, like the loss, the advantages and the optimizer."""

    prompts: int = 16
    learning_rate: float = 1e-3


SMALL = TrlDemoBatch(4, 7e-4)


class TrlDemoFigures(NamedTuple):
    """Figures of one run."""

    steps: int
    seconds: float
    """Of the training alone: from the first weights sent to the last."""
    reward_first: float
    reward_last: float
    held_out_before: float | None
    held_out_after: float | None
    """None: no row is held out."""
    kl_first: float
    """Trainer against engine in the first step, all of whose tokens are of its own weights."""
    staleness_mean: float
    """Updates between the weights that sampled and those that were trained."""
    dropped_total: int
    """Samples that were too old."""

    def problems(self) -> Iterator[str]:
        bounds = (
            (self.reward_first < FIRST_AT_MOST, f"mean reward of the first ten steps is {self.reward_first:.3f}"),
            (self.reward_last >= LAST_AT_LEAST, f"mean reward of the last ten steps is {self.reward_last:.3f}"),
            ((self.held_out_after or 0.0) >= HELD_OUT_AT_LEAST, f"reward on held-out rows is {self.held_out_after}"),
        )
        yield from (text for holds, text in bounds if not holds)


def read_rows(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def mean_reward(client: RolloutClient, rows: Sequence[Json]) -> float | None:
    """Of one answer to each row, the likeliest. None: there are no rows."""
    if not rows:
        return None
    greedy = [
        {**row, "responses_create_params": {**row["responses_create_params"], "temperature": 0.0}} for row in rows
    ]
    rewards = [reward for group in client.groups(greedy, 1) for reward in group.rewards]
    missing = sum(reward is None for reward in rewards)
    if missing:
        raise SystemExit(f"{missing} of {len(rows)} held-out rollouts failed")
    return round(fmean(reward for reward in rewards if reward is not None), 4)


def trainer_of(
    client: RolloutClient, rows: Sequence[Json], folder: Path, batch: TrlDemoBatch, *, steps: int, seed: int
) -> AsyncGRPOTrainer:
    prepare()
    grpo = GrpoSettings(use_leave_one_out_baseline=False)
    settings = TrlWorkerSettings(num_generations=GENERATIONS, max_queued_samples=GENERATIONS, grpo=grpo, seed=seed)
    return AsyncGRPOTrainer(
        model=str(folder / "made" / "model"),
        args=AsyncGRPOConfig(
            output_dir=str(folder / "trl"),
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            max_steps=steps,
            per_device_train_batch_size=batch.prompts * GENERATIONS,
            token_budget=0,
            learning_rate=batch.learning_rate,
            weight_decay=0.0,
            max_grad_norm=0.3,
            epsilon=0.2,
            epsilon_high=0.28,
            max_staleness=2,
            seed=seed,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list(dataset_rows(rows)),
        reward_funcs=[],
        rollout_worker=TrlRolloutWorker(client, rows, settings),
        weight_transfer=VllmWeights(client),
    )


def figures_of(steps: Sequence[Json], *, seconds: float, before: float | None, after: float | None) -> TrlDemoFigures:
    """`steps`: what TRL logged of each."""
    rewards = [step["reward"] for step in steps]
    return TrlDemoFigures(
        steps=len(steps),
        seconds=round(seconds, 1),
        reward_first=round(fmean(rewards[:ENDS]), 4),
        reward_last=round(fmean(rewards[-ENDS:]), 4),
        held_out_before=before,
        held_out_after=after,
        kl_first=steps[0]["kl"],
        staleness_mean=round(fmean(step["sample/staleness_mean"] for step in steps), 3),
        dropped_total=int(sum(step.get("sample/dropped_stale_total") or 0 for step in steps)),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="four rows")
    args = parser.parse_args()
    folder: Path = args.folder
    batch = SMALL if args.small else TrlDemoBatch()
    torch.set_num_threads(1)
    rows, held_out = (read_rows(folder / "made" / f"{name}.jsonl") for name in ("train", "held_out"))
    overrides = (
        f"policy_model_name={folder / 'made' / 'model'}",
        f"rollouts.max_rollouts={batch.prompts * GENERATIONS}",
    )
    with open_rollouts(CONFIG, *overrides) as client:
        before = mean_reward(client, held_out)
        trainer = trainer_of(client, rows, folder, batch, steps=args.steps, seed=args.seed)
        started = time.monotonic()
        trainer.train()
        seconds = time.monotonic() - started
        after = mean_reward(client, held_out)
    steps = [entry for entry in trainer.state.log_history if "reward" in entry]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    figures = figures_of(steps, seconds=seconds, before=before, after=after)
    text = json.dumps(figures._asdict(), indent=2) + "\n"
    (folder / "summary.json").write_text(text)
    problems = [] if args.small else list(figures.problems())
    sys.stdout.write(text + "".join(f"FAILED {problem}\n" for problem in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
