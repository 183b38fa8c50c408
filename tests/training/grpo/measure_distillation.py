"""`python measure_distillation.py FOLDER`: what a tiny policy learns from a teacher alone, as numbers, in a line of
JSON. It claims nothing.

Runs in the environment that has torch; `test_distillation.py` says what the numbers have to be.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.training.grpo.tiny_policy import make_model, settings
from transformers import AutoModelForCausalLM, Qwen3ForCausalLM

from paddock.training.core.batches import make_batch
from paddock.training.core.distillation import DistillationSettings
from paddock.training.core.metrics import batch_metrics
from paddock.training.core.records import Group, Member, MemberSample, TurnSpan
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.grpo.policy import TorchPolicy

VOCABULARY, PROMPT, LENGTH, ROLLOUTS, STEPS = 16, 3, 11, 96, 30
LOSS = {"disable_ppo_ratio": True}


def log_probs_of(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """Of each id but the first of each row, `[rows, length - 1]`."""
    with torch.no_grad():
        known = model(ids).logits[:, :-1].log_softmax(-1)
    return known.gather(2, ids[:, 1:, None])[:, :, 0]


def sampled(model: Any, generator: torch.Generator) -> torch.Tensor:
    ids = torch.randint(VOCABULARY, (ROLLOUTS, PROMPT), generator=generator)
    with torch.no_grad():
        for _ in range(LENGTH - PROMPT):
            probabilities = model(ids).logits[:, -1].softmax(-1)
            ids = torch.cat([ids, torch.multinomial(probabilities, 1, generator=generator)], 1)
    return ids


def reverse_kl(student: Any, teacher: Any) -> float:
    """In nats a token, over the whole vocabulary, on what the student samples: the same prompts each time."""
    ids = sampled(student, torch.Generator().manual_seed(9))
    with torch.no_grad():
        own, theirs = (model(ids).logits[:, PROMPT - 1 : -1].log_softmax(-1) for model in (student, teacher))
    return float((own.exp() * (own - theirs)).sum(-1).mean())


def groups(ids: torch.Tensor, own: torch.Tensor, theirs: torch.Tensor, step: int) -> list[Group]:
    made = []
    for nth, row in enumerate(ids):
        mask = np.arange(LENGTH) >= PROMPT
        log_probs, scores = (np.concatenate([[0], values[nth].numpy()]).astype(np.float32) for values in (own, theirs))
        spans = (TurnSpan("a", PROMPT, LENGTH, str(step), True),)
        sample = MemberSample(
            None, 0, False, row.numpy().astype(np.int32), mask, np.where(mask, log_probs, np.float32(0)), spans, scores
        )
        made.append(Group(nth, nth, 0, (Member(0, "completed", 0.0, (sample,)),), 1, step))
    return made


async def main(folder: Path) -> dict[str, Any]:
    make_model(folder / "student", VOCABULARY)
    teacher = AutoModelForCausalLM.from_pretrained(folder / "student").eval()
    torch.manual_seed(1)
    for value in teacher.parameters():
        value.data += 0.1 * torch.randn_like(value)
    own = settings(folder / "student", LOSS, optimizer={"kwargs": {"lr": 5e-3, "weight_decay": 0.0}}, max_grad_norm=1.0)
    policy = TorchPolicy(own)
    student: Qwen3ForCausalLM = policy._learner.model.model
    generator = torch.Generator().manual_seed(0)
    exact, measured = [reverse_kl(student, teacher)], []
    grpo = GrpoSettings(num_generations_per_prompt=1, use_leave_one_out_baseline=False)
    for step in range(STEPS):
        ids = sampled(student, generator)
        batch = make_batch(
            groups(ids, log_probs_of(student, ids), log_probs_of(teacher, ids), step),
            step=step,
            grpo=grpo,
            settings=GroupSettings(min_members=1),
            max_length=LENGTH,
            known_versions=range(step + 1),
            distillation=DistillationSettings(),
        )
        measured.append(batch_metrics(batch)["train/teacher/reverse_kl"])
        await policy.train(batch)
        if (step + 1) % 10 == 0:
            exact.append(reverse_kl(student, teacher))
    await policy.stop()
    return {"exact": exact, "measured": measured}


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.stdout.write(json.dumps(asyncio.run(main(Path(sys.argv[1])))) + "\n")
