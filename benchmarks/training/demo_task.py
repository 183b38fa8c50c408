"""The small variant of the training demonstration: four rows, four calls, and a model that calls at random."""

import subprocess
from pathlib import Path
from typing import NamedTuple

CONFIG = "configs/train_demo.yaml"
TEACHING_STEPS = 100


class DemoTask(NamedTuple):
    """Where the demonstration is, and the interpreter that runs it."""

    python: str
    """Interpreter with vLLM, torch and ray."""
    folder: Path

    @property
    def model(self) -> Path:
        return self.folder / "made" / "model"

    @property
    def rows(self) -> Path:
        return self.folder / "made" / "train.jsonl"

    def overrides(self, prompts_per_step: int) -> list[str]:
        return [
            f"policy.model_name={self.model}",
            f"data.train.data_path={self.rows}",
            "~data.validation",
            "grpo.val_at_start=false",
            "grpo.val_at_end=false",
            f"grpo.num_prompts_per_step={prompts_per_step}",
        ]


def make_demo(python: str, folder: Path) -> DemoTask:
    task = DemoTask(python, folder)
    folder_name = str(task.model.parent)
    command = [python, "scripts/train_demo.py", "make", folder_name, "--small", "--steps", str(TEACHING_STEPS)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return task
