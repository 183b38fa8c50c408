"""`python drive_environments.py FOLDER`: TRL's `environment_factory`, and what a failure of an environment is to it.

A model of this process says from a script which tool it calls; the loop over tools, the batch and the loss are TRL's.
The environment does all that TRL lets it: its failed rollout has the reward None.
"""

import json
import sys
from pathlib import Path
from typing import Any

import trl
from datasets import Dataset
from tests.training.trl.library import TrlWorld
from trl import GRPOConfig, GRPOTrainer

TEMPLATE = Path(trl.__file__).parent / "chat_templates/qwen2_5.jinja"
"""One whose calls TRL reads."""
GONE = "the sandbox is gone"
REWARDS = (1.0, 0.0, 1.0, 0.0)
FAILING = 0
CALL = '<tool_call>\n{"name": "look", "arguments": {"path": "a"}}\n</tool_call>'


class LookEnvironment:
    """An environment whose tool fails in one of four rollouts. The methods that are no tools have names of TRL's."""

    made = 0

    def __init__(self) -> None:
        self._number = LookEnvironment.made
        LookEnvironment.made += 1

    def reset(self, **_row: Any) -> None:
        return None

    def look(self, path: str) -> str:
        """Look at a file.

        Args:
            path: Which.
        """
        if self._number == FAILING:
            raise ConnectionError(GONE)
        return f"{path} is empty"

    def get_reward(self) -> float | None:
        return None if self._number == FAILING else REWARDS[self._number]


class BrokenEnvironment(LookEnvironment):
    """Its sandbox does not start."""

    def reset(self, **_row: Any) -> None:
        raise ConnectionError(GONE)


class ScriptedTrainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's trainer, whose model calls the tool once and ends, one more wordily than the other. It keeps its batch and
    its loss."""

    def _generate_single_turn(self, prompt_ids: Any, *_args: Any, **_named: Any) -> Any:
        self.turns += 1
        texts = [CALL if self.turns == 1 else "There is nothing. " * (1 + nth * nth) for nth in range(len(prompt_ids))]
        return [self.world.ids(text) for text in texts], None

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        batch = super()._generate_and_score_completions(inputs)
        self.batch = {name: value.tolist() for name, value in batch.items() if hasattr(value, "tolist")}
        return batch

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        self.loss = float(loss)
        return loss


def trainer_of(world: TrlWorld, environment: type[LookEnvironment]) -> ScriptedTrainer:
    LookEnvironment.made = 0
    trainer = ScriptedTrainer(
        model=world.model,
        args=GRPOConfig(
            output_dir=str(world.folder / "out"),
            use_cpu=True,
            bf16=False,
            max_steps=1,
            per_device_train_batch_size=len(REWARDS),
            num_generations=len(REWARDS),
            max_completion_length=512,
            report_to=[],
            save_strategy="no",
            gradient_checkpointing=False,
        ),
        processing_class=world.tokenizer,
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "What is in a?"}]}]),
        environment_factory=environment,
    )
    trainer.world, trainer.turns = world, 0
    return trainer


def failed_tool(folder: Path) -> dict[str, Any]:
    world = TrlWorld(folder)
    world.tokenizer.chat_template = TEMPLATE.read_text()
    trainer = trainer_of(world, LookEnvironment)
    trainer.train()
    batch = trainer.batch
    texts = [world.tokenizer.decode(ids) for ids in batch["completion_ids"]]
    masks = [
        [on for on, there in zip(mask, lies, strict=True) if there]
        for mask, lies in zip(batch["tool_mask"], batch["completion_mask"], strict=True)
    ]
    return {"texts": texts, "masks": masks, "advantages": batch["advantages"], "loss": trainer.loss}


def failed_start(folder: Path) -> dict[str, Any]:
    world = TrlWorld(folder)
    world.tokenizer.chat_template = TEMPLATE.read_text()
    trainer = trainer_of(world, BrokenEnvironment)
    try:
        trainer.train()
    except ConnectionError as error:
        return {"raised": str(error)}
    return {"raised": None}


SCENES = (failed_tool, failed_start)


def main(folder: Path) -> None:
    found = {}
    for scene in SCENES:
        (folder / scene.__name__).mkdir()
        found[scene.__name__] = scene(folder / scene.__name__)
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
