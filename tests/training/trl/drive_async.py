"""`python drive_async.py FOLDER`: TRL's asynchronous trainer over our worker; found.json says what it was given."""

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tests.training.trl.library import ROWS, NumberedEngine, TrlWorld, mixed
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer
from trl.experimental.async_grpo.async_grpo_trainer import DataCollatorForRollout

from paddock.errors import PaddockError
from paddock.training.core.settings import GrpoSettings
from paddock.training.trl.cpu import prepare
from paddock.training.trl.rows import dataset_rows
from paddock.training.trl.settings import TrlWorkerSettings
from paddock.training.trl.weights import FunctionWeights
from paddock.training.trl.worker import TrlRolloutWorker

GRPO = GrpoSettings(use_leave_one_out_baseline=False)


def plain(sample: Any) -> dict[str, Any]:
    """A sample, queued or on its way into a batch."""
    fields = sample if isinstance(sample, dict) else {name: getattr(sample, name) for name in sample.__slots__}
    return {
        "ids": fields["input_ids"].tolist(),
        "mask": fields["completion_mask"].tolist(),
        "log_probs": fields["old_log_probs"].tolist(),
        "advantage": fields["advantage"],
        "group": fields["group_id"],
        "reward": fields["metrics"]["reward"],
        **({"version": fields["model_version"]} if "model_version" in fields else {}),
    }


class RecordingAsyncTrainer(AsyncGRPOTrainer):  # type: ignore[misc]
    """TRL's trainer, which keeps what its loss is made of."""

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        given: list[Any] = []
        hook = model.register_forward_hook(lambda _model, _args, output: given.append(output))
        try:
            loss = super().compute_loss(model, inputs, *args, **kwargs)
        finally:
            hook.remove()
        there = inputs["token_index"] >= 0
        self.losses.append(
            {
                "loss": float(loss.detach()),
                "scale": self.current_gradient_accumulation_steps,
                "log_probs": given[0].log_probs.flatten()[inputs["token_index"][there]].tolist(),
                "engine": inputs["old_log_probs"][there].tolist(),
                "advantages": inputs["advantages"][there].tolist(),
                "rows": inputs["segment_id"][there].tolist(),
            }
        )
        return loss


def ignored(tensors: Any) -> None:
    for _ in tensors:
        pass


def train(world: TrlWorld, worker: Any, weights: Any, **changes: Any) -> Any:
    prepare()
    args = AsyncGRPOConfig(
        output_dir=str(world.folder / "out"),
        use_cpu=True,
        bf16=False,
        max_steps=3,
        per_device_train_batch_size=4,
        token_budget=0,
        learning_rate=1e-3,
        report_to=[],
        save_strategy="no",
        gradient_checkpointing=False,
        logging_steps=1,
        **changes,
    )
    trainer = RecordingAsyncTrainer(
        model=str(world.folder / "model"),
        args=args,
        processing_class=world.tokenizer,
        train_dataset=Dataset.from_list(dataset_rows(ROWS)),
        reward_funcs=[],
        rollout_worker=worker,
        weight_transfer=weights,
    )
    trainer.losses = []
    trainer.train()
    return trainer


def trained(folder: Path) -> dict[str, Any]:
    """Three steps, with a fifth of the members failing."""
    world = TrlWorld(folder)
    engine = NumberedEngine(mixed(world, every_fails=5))
    batches: list[list[Any]] = []
    collate = DataCollatorForRollout.torch_call

    def recorded(collator: Any, examples: Any) -> Any:
        batches.append([plain(sample) for row in examples[0] for sample in row.samples])
        return collate(collator, examples)

    DataCollatorForRollout.torch_call = recorded
    before = {name: weight.detach().clone() for name, weight in world.model.named_parameters()}
    sent: list[int] = []
    with world.open(engine, max_rollouts=16) as client:
        worker = TrlRolloutWorker(client, ROWS, TrlWorkerSettings(num_generations=5, max_queued_samples=8, grpo=GRPO))
        weights = FunctionWeights(client, lambda tensors: sent.append(len(list(tensors))))
        trainer = train(world, worker, weights)
        running, calls = engine.running, engine.calls
        time.sleep(0.2)
        after_stop = [running, engine.running, engine.calls - calls]
    DataCollatorForRollout.torch_call = collate
    logs = [entry for entry in trainer.state.log_history if "loss" in entry]
    return {
        "out": str(folder / "rollouts"),
        "batches": batches,
        "losses": trainer.losses,
        "sent": sent,
        "moved": any(not torch.equal(before[name], weight) for name, weight in trainer.model.named_parameters()),
        "after_stop": after_stop,
        "failed": len(read_lines(folder, "failures.jsonl")),
        "ended": len(read_lines(folder, "rollouts.jsonl")),
        "metrics": {name: [entry.get(name) for entry in logs] for name in ("reward", "rollout/masked_total")},
        "epsilon": [trainer.epsilon_low, trainer.epsilon_high],
        "threads": [thread.name for thread in threading.enumerate() if thread.name == "paddock-trl"],
    }


def read_lines(folder: Path, name: str) -> list[str]:
    (path,) = folder.glob(f"rollouts/*/{name}")
    return path.read_text().splitlines()


def held_back(folder: Path) -> dict[str, Any]:
    """A queue that nobody reads, then one that is read, then a stop in the middle of answers."""
    world = TrlWorld(folder)
    engine = NumberedEngine(mixed(world), delay_s=0.02)
    with world.open(engine, max_rollouts=8, max_groups=2) as client:
        worker = TrlRolloutWorker(client, ROWS, TrlWorkerSettings(num_generations=4, max_queued_samples=6))
        worker.update_model_version(1)
        worker.start()
        time.sleep(1.0)
        unread = engine.calls
        time.sleep(0.5)
        still = engine.calls
        worker.update_model_version(2)
        samples = [plain(worker.rollout_buffer.get(timeout=20)) for _ in range(40)]
        worker.check_health(1.0)
        worker.stop()
        calls = engine.calls
        time.sleep(0.3)
        stopped = [engine.running, engine.calls - calls]
        worker.start()
        again = [plain(worker.rollout_buffer.get(timeout=20)) for _ in range(20)]
        worker.stop()
    return {
        "unread": [unread, still],
        "versions": sorted({sample["version"] for sample in samples}),
        "samples": samples,
        "stopped": stopped,
        "again": len(again),
        "most_running": engine.most_running,
    }


def paused(folder: Path) -> dict[str, Any]:
    """No engine function is called between `pause` and `resume`."""
    world = TrlWorld(folder)
    engine = NumberedEngine(mixed(world), delay_s=0.01)
    with world.open(engine, max_rollouts=4) as client:
        worker = TrlRolloutWorker(client, ROWS, TrlWorkerSettings(num_generations=4))
        weights = FunctionWeights(client, ignored)
        worker.start()
        worker.rollout_buffer.get(timeout=20)
        weights.pause()
        time.sleep(0.2)
        calls = engine.calls
        time.sleep(0.5)
        during = engine.calls - calls
        weights.resume()
        for _ in range(worker.rollout_buffer.qsize() + 8):
            worker.rollout_buffer.get(timeout=20)
        worker.stop()
    return {"during": during}


def lost(folder: Path) -> dict[str, Any]:
    """Every rollout fails."""
    world = TrlWorld(folder)
    with world.open(NumberedEngine(lambda _: None), max_rollouts=8) as client:
        worker = TrlRolloutWorker(client, ROWS, TrlWorkerSettings(num_generations=2, max_lost_groups=3))
        weights = FunctionWeights(client, ignored)
        try:
            train(world, worker, weights)
        except PaddockError as error:
            return {"kind": error.kind, "text": str(error), "queued": worker.rollout_buffer.qsize()}
    return {}


SCENES = (trained, held_back, paused, lost)


def main(folder: Path) -> None:
    found = {}
    for scene in SCENES:
        (folder / scene.__name__).mkdir()
        found[scene.__name__] = scene(folder / scene.__name__)
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
