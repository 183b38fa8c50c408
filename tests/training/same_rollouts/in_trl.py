"""The task in a step of TRL's asynchronous trainer: `python -m tests.training.same_rollouts.in_trl FOLDER`."""

import sys
from pathlib import Path
from typing import Any

from tests.training.same_rollouts.task import NUMBERS, SIZE, EndpointSampler, SameTask, rows, write_given
from tests.training.trl.drive_async import GRPO, ignored, recorded_batches, train
from transformers import PreTrainedTokenizerFast

from paddock.rollouts import RolloutGroup, RolloutOptions, open_rollouts
from paddock.training.trl.settings import TrlWorkerSettings
from paddock.training.trl.weights import FunctionWeights
from paddock.training.trl.worker import TrlRolloutWorker
from paddock.types import JsonObject


class SameTaskPlace:
    """What the training stands on: one batch holds each rollout of the task once."""

    def __init__(self, folder: Path, task: SameTask) -> None:
        self.folder = folder
        self.model_folder = Path(task.model)
        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(task.model)
        self.rows = rows()


class RecordingWorker(TrlRolloutWorker):
    """Keeps the versions of the samples that it gives."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.versions: dict[tuple[int, ...], int] = {}

    def _samples(self, group: RolloutGroup) -> list[Any]:
        samples = super()._samples(group)
        for sample in samples:
            self.versions.setdefault(tuple(sample.input_ids.tolist()), sample.model_version)
        return samples


def given_batch(folder: Path, task: SameTask) -> tuple[list[JsonObject], JsonObject]:
    """The samples of TRL's first batch with their versions, and its loss over them with what it is made of."""
    place = SameTaskPlace(folder, task)
    # One group after another: what a later one asks can't take the answers of one before.
    client = open_rollouts(
        task.config,
        engine=EndpointSampler(task.url),
        engine_settings=task.engine,
        options=RolloutOptions(out=task.out, max_groups=1),
    )
    settings = TrlWorkerSettings(num_generations=SIZE, max_queued_samples=len(NUMBERS) * SIZE, grpo=GRPO)
    with recorded_batches() as batches, client:
        worker = RecordingWorker(client, place.rows, settings)
        trainer = train(place, worker, FunctionWeights(client, ignored), steps=1, batch=len(NUMBERS) * SIZE)
    samples = [{**sample, "version": worker.versions[tuple(sample["ids"])]} for sample in batches[0]]
    return samples, {**trainer.losses[0], "epsilon": [trainer.epsilon_low, trainer.epsilon_high]}


def main(folder: Path) -> None:
    batch, loss = given_batch(folder, SameTask.read(folder))
    samples = [
        {
            "ids": sample["ids"],
            "loss_mask": sample["mask"],
            "log_probs": sample["log_probs"],
            "reward": sample["reward"],
            "versions": [sample["version"]],
        }
        for sample in batch
    ]
    write_given(folder, samples, loss=loss)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
