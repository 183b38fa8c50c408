"""`python drive_plain.py FOLDER`: TRL's `GRPOTrainer` over our rollout function; found.json says what it was given."""

import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

from datasets import Dataset
from tests.training.trl.library import ROWS, NumberedEngine, TrlWorld, mixed
from trl import GRPOConfig, GRPOTrainer

from paddock.errors import ConfigError
from paddock.training.trl.rollout_function import environment_reward, rollout_function
from paddock.training.trl.rows import dataset_rows


class RecordingTrainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's trainer, which keeps its batches."""

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        batch = super()._generate_and_score_completions(inputs)
        self.batches.append({name: value.tolist() for name, value in batch.items() if hasattr(value, "tolist")})
        return batch

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        before = self.engine.calls
        time.sleep(0.5)
        self.stalls.append([self.engine.running, self.engine.calls - before])
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        self.losses.append(float(loss))
        return loss


class LogRecorder(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def trained(folder: Path) -> dict[str, Any]:
    world = TrlWorld(folder)
    said = LogRecorder()
    logging.getLogger("paddock").addHandler(said)
    engine = NumberedEngine(mixed(world, every_fails=5))
    with world.open(engine, max_rollouts=16, sample_mode="whole") as client:
        trainer = RecordingTrainer(
            model=world.model,
            args=GRPOConfig(
                output_dir=str(folder / "out"),
                use_cpu=True,
                bf16=False,
                max_steps=3,
                per_device_train_batch_size=12,
                num_generations=4,
                report_to=[],
                save_strategy="no",
                gradient_checkpointing=False,
                learning_rate=1e-3,
                logging_steps=1,
            ),
            processing_class=world.tokenizer,
            train_dataset=Dataset.from_list(dataset_rows(ROWS)),
            reward_funcs=[environment_reward],
            rollout_func=rollout_function(client, ROWS),
        )
        trainer.batches, trainer.losses, trainer.stalls, trainer.engine = [], [], [], engine
        trainer.train()
    return {
        "out": str(folder / "rollouts"),
        "batches": trainer.batches,
        "losses": trainer.losses,
        "stalls": trainer.stalls,
        "said": said.texts,
        "logs": [entry.get("reward") for entry in trainer.state.log_history if "loss" in entry],
        "calls": engine.calls,
    }


def refused(folder: Path) -> dict[str, Any]:
    world = TrlWorld(folder)
    with world.open(NumberedEngine(mixed(world)), sample_mode="branch") as client:
        try:
            rollout_function(client, ROWS)
        except ConfigError as error:
            return {"text": str(error)}
    return {}


SCENES = (trained, refused)


def main(folder: Path) -> None:
    found = {}
    for scene in SCENES:
        (folder / scene.__name__).mkdir()
        found[scene.__name__] = scene(folder / scene.__name__)
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
