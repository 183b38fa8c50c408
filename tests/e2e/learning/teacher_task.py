"""A teacher for the training demonstration: its model, taught by examples which call is right in each prompt.

Runs under an interpreter with torch. Folder `teacher` beside the demonstration's `model`, with its tokenizer.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import torch
from scripts.train_demo import TEMPLATE, answer_of, messages_of, tools_of
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from paddock.testing.tiny_qwen3 import padded, save, teach
from paddock.tokens.template import ChatTemplate
from paddock.types import JsonObject

STEPS = 600


def make(folder: Path, *, seed: int) -> None:
    """`folder`: where `scripts/train_demo.py make` put rows and model. Held-out rows are no examples."""
    torch.set_num_threads(1)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder / "model")
    model = AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32)
    examples = list(_examples(folder / "train.jsonl", tokenizer))
    chance = random.Random(seed)
    teach(model, lambda: padded(chance.sample(examples, 16), tokenizer.pad_token_id), steps=STEPS, lr=3e-3)
    save(model, tokenizer, TEMPLATE.read_text(), folder / "teacher")


def _examples(rows: Path, tokenizer: PreTrainedTokenizerFast) -> Iterator[tuple[list[int], list[int]]]:
    """Ids and labels: the answers alone are labelled."""
    template = ChatTemplate(TEMPLATE.read_text(), {"eos_token": "<|im_end|>"})
    for line in rows.read_text().splitlines():
        row: JsonObject = json.loads(line)
        tools = [{"type": "function", "function": {"name": tool["name"]}} for tool in tools_of(row)]
        text = template.render(messages_of(row), tools=tools, generation_prompt=True, arguments={})
        prompt = tokenizer.encode(text, add_special_tokens=False)
        answer = tokenizer.encode(answer_of(row["expected_action"]), add_special_tokens=False)
        yield prompt + answer, [-100] * len(prompt) + answer
