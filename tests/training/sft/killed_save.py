"""`python -m tests.training.sft.killed_save FOLDER MODE`: a fine-tuning run of a tiny model in this process; each step
that is done is a line of JSON, with its loss.

Runs in the environment that has torch. MODE is `whole`, which waits for its checkpoints; `stuck`, which writes them in
the background, and whose disk takes no byte more of the second, which the line `stuck` says; `resumed`, which goes on
from the newest there is. `test_killed_save.py` says what they have to be.
"""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tests.training.sft.measure_sft import SEED, TEMPLATE, config, texts, write_rollouts

from paddock.testing.tiny_qwen3 import make_model, make_tokenizer, save
from paddock.training.grpo.checkpoints import Checkpoints
from paddock.training.grpo.policy import TorchPolicy
from paddock.training.sft.loop import SftLoop, SftLoopSettings
from paddock.training.sft.read_config import read_sft_config
from paddock.training.sft.train import make_plan

N_STEPS, SAVE_PERIOD, STUCK_STEP = 8, 2, 4
WRITER = "state-writer"
"""What the names of threads that write in the background begin with."""


def say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def make_stuck() -> None:
    """Have the disk take nothing more of the second checkpoint."""
    sync = os.fsync

    def fsync(fd: Any) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        if threading.current_thread().name.startswith(WRITER) and f".step_{STUCK_STEP}.new" in path.parts:
            say("stuck")
            threading.Event().wait()
        sync(fd)

    os.fsync = fsync


async def run(folder: Path, *, background: bool) -> None:
    settings = read_sft_config([config(folder)]).config
    plan = make_plan(settings)
    own = SftLoopSettings(
        plan.steps, N_STEPS, 0, False, SAVE_PERIOD, None, folder / "export", save_in_background=background
    )
    checkpoints = Checkpoints(folder / "checkpoints", keep_top_k=None)
    policy = TorchPolicy(settings.policy_settings)

    def report(step: int, metrics: Mapping[str, float]) -> None:
        say([step, metrics["train/loss"]])

    ended = await SftLoop(own, policy, plan.trained, (), report, checkpoints).run(checkpoints.newest())
    say({"checkpoint": str(ended.checkpoint), "newest": checkpoints.all()[-1].step})
    await policy.stop()


def main() -> None:
    torch.set_num_threads(1)
    folder, mode = Path(sys.argv[1]), sys.argv[2]
    if not (folder / "model").exists():
        tokenizer = make_tokenizer([Path(__file__).read_text(), *(a + b for a, b in texts())], 512)
        save(make_model(tokenizer, SEED, max_position_embeddings=64), tokenizer, TEMPLATE.read_text(), folder / "model")
        write_rollouts(folder / "rollouts.jsonl", tokenizer)
    if mode == "stuck":
        make_stuck()
    asyncio.run(run(folder, background=mode != "whole"))


if __name__ == "__main__":
    main()
