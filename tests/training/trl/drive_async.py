"""`python drive_async.py FOLDER`: TRL's asynchronous trainer over our worker; found.json says what it was given."""

import json
import random
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from datasets import Dataset
from tests.training.trl.library import ROWS, NumberedEngine, TrlWorld, mixed
from transformers import AutoModelForCausalLM
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer
from trl.experimental.async_grpo.async_grpo_trainer import DataCollatorForRollout
from trl.experimental.async_grpo.packing import TREE_ATTENTION, TreeRow, register_tree_attention
from trl.trainer.utils import add_fused_lm_head

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


class AsyncTrainerPlace(Protocol):
    """What a training stands on."""

    folder: Path
    model_folder: Path
    tokenizer: Any

    @property
    def rows(self) -> Sequence[dict[str, Any]]: ...


class StalledAsyncTrainer(RecordingAsyncTrainer):
    """One whose steps take longer than rollouts do."""

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        time.sleep(1.0)
        before = self.engine.calls
        time.sleep(1.0)
        self.stalls.append([before, self.engine.calls])
        return super().compute_loss(*args, **kwargs)


def train(
    world: AsyncTrainerPlace,
    worker: Any,
    weights: Any,
    trainer_class: type[RecordingAsyncTrainer] = RecordingAsyncTrainer,
    *,
    steps: int = 3,
    batch: int = 4,
    **given: Any,
) -> Any:
    """`batch`: samples of a step; `given`: attributes of the trainer."""
    prepare()
    args = AsyncGRPOConfig(
        output_dir=str(world.folder / "out"),
        use_cpu=True,
        bf16=False,
        max_steps=steps,
        per_device_train_batch_size=batch,
        token_budget=0,
        learning_rate=1e-3,
        report_to=[],
        save_strategy="no",
        gradient_checkpointing=False,
        logging_steps=1,
    )
    trainer = trainer_class(
        model=str(world.model_folder),
        args=args,
        processing_class=world.tokenizer,
        train_dataset=Dataset.from_list(dataset_rows(world.rows)),
        reward_funcs=[],
        rollout_worker=worker,
        weight_transfer=weights,
    )
    trainer.losses = []
    for name, value in given.items():
        setattr(trainer, name, value)
    trainer.train()
    return trainer


@contextmanager
def recorded_batches() -> Iterator[list[list[Any]]]:
    """The samples of each batch that TRL makes while this is open."""
    batches: list[list[Any]] = []
    collate = DataCollatorForRollout.torch_call

    def recorded(collator: Any, examples: Any) -> Any:
        batches.append([plain(sample) for row in examples[0] for sample in row.samples])
        return collate(collator, examples)

    DataCollatorForRollout.torch_call = recorded
    try:
        yield batches
    finally:
        DataCollatorForRollout.torch_call = collate


def trained(folder: Path) -> dict[str, Any]:
    """Three steps, with a fifth of the members failing."""
    world = TrlWorld(folder)
    engine = NumberedEngine(mixed(world, every_fails=5))
    before = {name: weight.detach().clone() for name, weight in world.model.named_parameters()}
    sent: list[int] = []
    with recorded_batches() as batches, world.open(engine, max_rollouts=16) as client:
        worker = TrlRolloutWorker(client, ROWS, TrlWorkerSettings(num_generations=5, max_queued_samples=8, grpo=GRPO))
        weights = FunctionWeights(client, lambda tensors: sent.append(len(list(tensors))))
        trainer = train(world, worker, weights)
        running, calls = engine.running, engine.calls
        time.sleep(0.2)
        after_stop = [running, engine.running, engine.calls - calls]
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


def stalled(folder: Path) -> dict[str, Any]:
    """TRL's trainer is busy with a step, and reads nothing meanwhile."""
    world = TrlWorld(folder)
    engine = NumberedEngine(mixed(world))
    with world.open(engine, max_rollouts=8, max_groups=2) as client:
        worker = TrlRolloutWorker(client, ROWS, TrlWorkerSettings(num_generations=4, max_queued_samples=6))
        trainer = train(world, worker, FunctionWeights(client, ignored), StalledAsyncTrainer, engine=engine, stalls=[])
    return {"calls": trainer.stalls}


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


def restarted(folder: Path) -> dict[str, Any]:
    """Groups of four, one after another: of an engine that names no number yet, of one that does, of one that was
    started again in the middle of a group, and of one that has the weights again."""
    world = TrlWorld(folder)
    labels = ["default"] * 4 + ["1"] * 4 + ["2", "default", "2", "incomplete"] + ["2"] * 4
    engine = NumberedEngine(mixed(world), label=lambda number: labels[min(number, 15)])
    with world.open(engine, max_rollouts=1, max_groups=1) as client:
        worker = TrlRolloutWorker(client, ROWS, TrlWorkerSettings(num_generations=4))
        worker.update_model_version(2)
        worker.start()
        samples = [plain(worker.rollout_buffer.get(timeout=20)) for _ in range(14)]
        worker.stop()
    return {"versions": [sample["version"] for sample in samples], "groups": [sample["group"] for sample in samples]}


def packed(folder: Path) -> dict[str, Any]:
    """Gradients of a weighted sum of log-probs: of TRL's packed rows on a CPU, and of a forward of each sample."""
    world, chance = TrlWorld(folder), random.Random(0)
    prepare()
    register_tree_attention()
    ours, plain_model = (
        AutoModelForCausalLM.from_pretrained(str(folder / "model"), attn_implementation=name, dtype=torch.float32)
        for name in (TREE_ATTENTION, "eager")
    )
    add_fused_lm_head(ours, outputs=("log_probs", "entropy"))
    prompts = [chance.choices(range(500), k=30) for _ in range(3)]
    row, total = TreeRow(), torch.tensor(0.0)
    for nth in range(12):
        # Of some the first tokens are the same, and are packed once.
        ids = [
            *prompts[nth % 3],
            *([7, 8, 9] if nth % 2 else chance.choices(range(500), k=3)),
            *chance.choices(range(500), k=4),
        ]
        weight = chance.uniform(-1, 1)
        row.add(
            {
                "input_ids": np.array(ids),
                "completion_mask": np.array([0] * 30 + [1] * 7),
                "old_log_probs": np.zeros(37, dtype=np.float32),
                "advantage": weight,
                "group_id": nth % 3,
                "metrics": {},
            }
        )
        log_probs = plain_model(torch.tensor([ids])).logits[0, 29:-1].log_softmax(-1)
        total = total + weight * log_probs.gather(1, torch.tensor(ids[30:])[:, None]).sum()
    total.backward()
    batch = DataCollatorForRollout(int(world.tokenizer.pad_token_id)).torch_call([[row]])
    tree = {name: batch[name] for name in ("tree_kv_index", "tree_cu_seqlens_q", "tree_cu_seqlens_k")}
    tree["tree_max_seqlen_q"], tree["tree_max_seqlen_k"] = batch["tree_max_seqlens"][0].tolist()
    tree = {name: value[0] if torch.is_tensor(value) else value for name, value in tree.items()}
    inputs = {name: batch[name] for name in ("input_ids", "position_ids", "shift_labels")}
    output = ours(**inputs, **tree, fused_lm_head=True)
    packed_total = (output.log_probs.flatten()[batch["token_index"][0]] * batch["advantages"][0]).sum()
    packed_total.backward()
    apart = [
        float((one.grad - other.grad).norm() / other.grad.norm())
        for one, other in zip(ours.parameters(), plain_model.parameters(), strict=True)
    ]
    return {
        "totals": [float(packed_total.detach()), float(total.detach())],
        "apart": max(apart),
        "tokens": len(row.tokens),
    }


SCENES = (trained, held_back, stalled, paused, lost, restarted, packed)


def main(folder: Path) -> None:
    found = {}
    for scene in SCENES:
        (folder / scene.__name__).mkdir()
        found[scene.__name__] = scene(folder / scene.__name__)
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
