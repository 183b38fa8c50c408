"""`python measure_sft.py FOLDER`: what `paddock sft` does with a tiny model, as numbers, in a line of JSON. It claims
nothing.

Runs in the environment that has torch and Ray; `test_sft.py` says what the numbers have to be.
"""

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import torch
import yaml
from transformers import AutoModelForCausalLM

from paddock.testing.tiny_qwen3 import make_model, make_tokenizer, save
from paddock.training.core.testing import rollout, turn
from paddock.training.grpo.checkpoints import Checkpoints
from paddock.training.grpo.policy import TorchPolicy
from paddock.training.sft.choice import choose, row_key
from paddock.training.sft.config import SftDataConfig
from paddock.training.sft.loop import SftLoop, SftLoopSettings
from paddock.training.sft.read_config import read_sft_config
from paddock.training.sft.train import make_plan
from paddock.types import Row, Stamp

TEMPLATE = Path(__file__).resolve().parents[3] / "scripts" / "train_demo.jinja"
WORDS = ("red", "green", "blue", "black")
"""The answer to each is the next one."""
N_ROWS, SEED = 24, 5


def texts() -> list[tuple[str, str]]:
    """Prompts and answers."""
    chance = random.Random(SEED)
    asked = [(nth, chance.randrange(len(WORDS))) for nth in range(N_ROWS)]
    return [(f"{nth} asks for what follows {WORDS[at]}:", f" {WORDS[(at + 1) % len(WORDS)]}") for nth, at in asked]


def write_rollouts(file: Path, tokenizer: Any, shift: int = 0) -> None:
    """Three rollouts of each row: a right one, the same in two turns, and a wrong one."""
    lines = []
    for nth, (prompt, answer) in enumerate(texts()):
        for member, (said, reward) in enumerate(((answer, 1.0), (f" well,{answer}", 1.0), (" nothing", 0.0))):
            ids, sampled = ([one + shift for one in tokenizer.encode(text)] for text in (prompt, said))
            sampled = [*sampled, tokenizer.eos_token_id]
            output = [{"type": "message", "content": [{"type": "output_text", "text": said.strip()}]}]
            own = turn("a", prompt_ids=ids, sampled_ids=sampled, log_probs=[-1.0] * len(sampled), output=output)
            made = rollout(reward=reward, turns=[own])
            row = Row(responses_create_params={"input": prompt}, stamp=Stamp(group_id=nth, group_size=3, member=member))
            lines.append(orjson.dumps(made.model_copy(update={"row": row}).to_wire()) + b"\n")
    file.write_bytes(b"".join(lines))


def config(folder: Path) -> str:
    own = {
        "model_name": str(folder / "model"),
        "max_total_sequence_length": 64,
        "train_global_batch_size": 8,
        "train_micro_batch_size": 4,
        "precision": "float32",
        "optimizer": {"kwargs": {"lr": 3e-3, "weight_decay": 0.0}},
        "torch_cfg": {"device": "cpu"},
    }
    tree = {
        "sft": {"max_num_epochs": 4, "seed": SEED},
        "policy": own,
        "data": {"rollouts": [str(folder / "rollouts.jsonl")], "held_out_share": 0.25},
        "checkpointing": {"keep_top_k": None},
    }
    file = folder / "warm.yaml"
    file.write_text(yaml.safe_dump(tree))
    return str(file)


def command(folder: Path, out: str, *words: str) -> dict[str, Any]:
    """The command, in processes of its own."""
    own = [sys.executable, "-m", "paddock", "sft", config(folder), *words, "--out", str(folder / out)]
    done = subprocess.run(own, capture_output=True, text=True, check=False)
    return {"code": done.returncode, "err": done.stderr[-2000:], "out": done.stdout}


def run_of(folder: Path, out: str) -> dict[str, Any]:
    lines = [json.loads(line)["metrics"] for line in (folder / out / "metrics.jsonl").read_text().splitlines()]
    return {
        "summary": json.loads((folder / out / "summary.json").read_text()),
        "losses": [line["train/loss"] for line in lines if "train/loss" in line],
        "files": sorted(file.name for file in (folder / out / "export").iterdir()),
    }


async def parted(folder: Path) -> dict[str, Any]:
    """In this process: seven steps, then the rest by another policy, from the checkpoint."""
    settings = read_sft_config([config(folder)]).config
    plan = make_plan(settings)
    reported: dict[int, float] = {}
    for n_steps in (7, plan.n_steps):
        own = SftLoopSettings(plan.steps, n_steps, 0, False, 1000, "validation/loss", folder / "parted")
        checkpoints = Checkpoints(folder / "checkpoints", keep_top_k=None, higher_is_better=False)
        learner = TorchPolicy(settings.policy_settings)
        report = lambda step, metrics: reported.update({step: metrics["train/loss"]})  # noqa: E731
        loop = SftLoop(own, learner, plan.trained, plan.held_out, report, checkpoints)
        ended = await loop.run(checkpoints.newest())
        await learner.stop()
    return {"losses": [reported[step] for step in sorted(reported)], "exported": ended.exported}


def plain_nll(model_folder: Path, rollouts: Path, rows: Sequence[str]) -> float:
    """By Transformers' own loss, labels -100 where a token is not trained on; rollout by rollout."""
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32).eval()
    total, tokens = 0.0, 0
    for line in rollouts.read_text().splitlines():
        one = json.loads(line)
        if one["responses_create_params"]["input"] not in rows or one["reward"] < 1:
            continue
        (own,) = one["rollout"]["turns"]
        ids, sampled = own["prompt_ids"], own["sampled_ids"]
        labels = torch.tensor([[-100] * len(ids) + sampled])
        with torch.no_grad():
            loss = model(torch.tensor([ids + sampled]), labels=labels).loss
        total, tokens = total + float(loss) * len(sampled), tokens + len(sampled)
    return total / tokens


def held_out_prompts(folder: Path) -> list[str]:
    data = SftDataConfig(rollouts=(str(folder / "rollouts.jsonl"),), held_out_share=0.25)
    rows = {one.row for one in choose(data, seed=SEED, max_length=64).held_out}
    prompts = [prompt for prompt, _ in texts()]
    return [prompt for prompt in prompts if row_key(Row(responses_create_params={"input": prompt})) in rows]


def same_weights(one: Path, other: Path) -> bool:
    first, second = (
        AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).state_dict() for path in (one, other)
    )
    return first.keys() == second.keys() and all(torch.equal(value, second[name]) for name, value in first.items())


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    tokenizer = make_tokenizer([Path(__file__).read_text(), *(a + b for a, b in texts())], 512)
    save(make_model(tokenizer, SEED, max_position_embeddings=64), tokenizer, TEMPLATE.read_text(), folder / "model")
    rollouts = folder / "rollouts.jsonl"
    write_rollouts(rollouts, tokenizer)
    found: dict[str, Any] = {"plan": command(folder, "whole", "--dry-run"), "command": command(folder, "whole")}
    found["whole"] = run_of(folder, "whole")
    prompts = held_out_prompts(folder)
    found["plain"] = [plain_nll(folder / model, rollouts, prompts) for model in ("model", "whole/export")]
    found["parted"] = asyncio.run(parted(folder))
    found["same"] = same_weights(folder / "whole" / "export", folder / "parted")
    found["taken"] = command(folder, "whole")
    write_rollouts(rollouts, tokenizer, shift=1)
    found["shifted"] = command(folder, "whole", "--resume")
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
