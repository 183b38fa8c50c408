"""`python drive_colocated.py FOLDER`: our engine function over a vLLM in this process, as TRL's colocated mode has it.

Runs in the environment that has vLLM. FOLDER/made has rows and a model. found.json: rewards and outcomes of two
batches, how far log-probs are from those of transformers at the trainer's temperature, and what a call beside a batch
ended in.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from vllm import LLM

from paddock.rollouts import RolloutGroup, RolloutOptions, open_rollouts
from paddock.training.trl.colocated import ColocatedEngine

TEMPERATURE, LONGEST, SIZE = 0.7, 40, 6


def distances(model: Any, groups: list[RolloutGroup]) -> list[float]:
    """Of each log-prob that was sampled from a forward of transformers."""
    found: list[float] = []
    for sample in (entry.sample for group in groups for member in group.members for entry in member.samples):
        with torch.no_grad():
            logits = model(torch.tensor([sample.ids])).logits[0, :-1]
        wanted = (logits / TEMPERATURE).log_softmax(-1).gather(1, torch.tensor(sample.ids[1:])[:, None])[:, 0]
        pairs = zip(wanted.tolist(), sample.log_probs[1:], sample.loss_mask[1:], strict=True)
        found += [abs(one - other) for one, other, trained in pairs if trained]
    return found


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    path = str(folder / "made/model")
    llm = LLM(path, dtype="float32", max_model_len=256, enforce_eager=True, logprobs_mode="processed_logprobs")
    own: dict[str, Any] = {"temperature": TEMPERATURE, "max_completion_length": LONGEST, "repetition_penalty": 1.0}
    cuts: dict[str, Any] = {"top_p": 1.0, "top_k": 0, "min_p": None}
    place: dict[str, Any] = {"mode": "colocate", "tensor_parallel_size": 1, "enable_sleep_mode": False}
    generation = SimpleNamespace(llm=llm, **own, **cuts, **place)
    rows = [json.loads(line) for line in (folder / "made/train.jsonl").read_text().splitlines()]
    engine = ColocatedEngine()
    settings = {"tokenizer": path, "tool_parser": "hermes", "max_model_len": 256}
    with open_rollouts(
        "resources_servers/pivot/configs/pivot.yaml",
        "eval.max_attempts=1",
        engine=engine,
        engine_settings=settings,
        options=RolloutOptions(sample_mode="whole"),
    ) as rollouts:
        batches = []
        for _ in range(2):
            with engine.running(generation):
                batches.append(list(rollouts.groups(rows, SIZE)))
        beside = rollouts.run_member(rows[0])
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    found = {
        "rewards": [[reward for group in groups for reward in group.rewards] for groups in batches],
        "masks": [member.mask for groups in batches for group in groups for member in group.members],
        "distances": [distances(model, groups) for groups in batches],
        "answers": len({tuple(entry.sample.ids) for group in batches[0] for m in group.members for entry in m.samples}),
        "beside": [beside.outcome, beside.failure],
    }
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
