"""Models of the Qwen3 architecture that a CPU makes, teaches and serves in seconds; with torch and transformers alone.

Tokenizer  byte-level BPE trained on given texts; marks of conversations and tags of calls are tokens of their own.
Size       two layers of 64, four heads of 32: vLLM's attention on a CPU knows 32 and not 16. With a vocabulary of 512:
           131,520 parameters.
Teaching   next-token loss on labelled tokens alone (-100: not labelled), AdamW, one cycle of the learning rate. The
           same seed gives the same model on the same machine and versions.
"""

import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>")


def make_tokenizer(texts: Iterable[str], vocabulary: int) -> PreTrainedTokenizerFast:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(TAGS), special_tokens=list(MARKS), initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(texts, trainer)
    made.add_tokens(list(TAGS))
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token=MARKS[2], pad_token=MARKS[0])


def make_model(tokenizer: PreTrainedTokenizerFast, seed: int, **fields: Any) -> Qwen3ForCausalLM:
    """Random. `fields`: of its config, over ours."""
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(Qwen3Config(**{**_sizes(tokenizer), **fields}))


def make_mixture(tokenizer: PreTrainedTokenizerFast, seed: int, **fields: Any) -> Qwen3MoeForCausalLM:
    """Random, two of eight experts for each token in each layer. `fields`: of its config, over ours."""
    torch.manual_seed(seed)
    experts: dict[str, Any] = {
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "norm_topk_prob": True,
    }
    experts["tie_word_embeddings"] = False  # engines know none that are tied
    return Qwen3MoeForCausalLM(Qwen3MoeConfig(**{**_sizes(tokenizer), **experts, **fields}))


def _sizes(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "tie_word_embeddings": True,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "initializer_range": 0.05,
    }


def teach(
    model: Qwen3ForCausalLM, batch: Callable[[], tuple[torch.Tensor, torch.Tensor]], *, steps: int, lr: float
) -> float:
    """The last loss. `batch`: ids and labels, [rows, tokens]."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=lr, total_steps=steps, pct_start=0.08)
    loss = torch.tensor(0.0)
    started = time.monotonic()
    for _ in range(steps):
        ids, labels = batch()
        loss = _loss(model, ids, labels)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    say(f"{steps} steps: {time.monotonic() - started:.0f} s, loss {loss.item():.3f}")
    return float(loss.item())


def make_caller(
    folder: Path, prompts: Sequence[str], answers: Sequence[str], *, template: Path, seed: int, steps: int
) -> None:
    """A model that answers any of `prompts` with any of `answers`, drawn at random in what it is taught: it learns the
    form and nothing about which is right. `folder`: where it goes. Vocabulary of 512."""
    make_chooser(folder, [(prompt, answers) for prompt in prompts], template=template, seed=seed, steps=steps)


def make_chooser(
    folder: Path, choices: Sequence[tuple[str, Sequence[str]]], *, template: Path, seed: int, steps: int
) -> None:
    """The same with answers of each prompt's own."""
    torch.set_num_threads(1)
    chance = random.Random(seed)
    prompts = [prompt for prompt, _ in choices]
    answers = list(dict.fromkeys(answer for _, own in choices for answer in own))
    # Text of some other kind too, so that tokens are no whole sentences.
    tokenizer = make_tokenizer([Path(__file__).read_text(), *prompts, *answers * 8], 512)
    model = make_model(tokenizer, seed, max_position_embeddings=512)

    def example() -> tuple[list[int], list[int]]:
        text, own = chance.choice(choices)
        prompt = tokenizer.encode(text, add_special_tokens=False)
        answer = tokenizer.encode(chance.choice(own), add_special_tokens=False)
        return prompt + answer, [-100] * len(prompt) + answer

    teach(model, lambda: padded([example() for _ in range(16)], tokenizer.pad_token_id), steps=steps, lr=3e-3)
    save(model, tokenizer, template.read_text(), folder)
    size = sum(weight.numel() for weight in model.parameters())
    lengths = [len(tokenizer.encode(text, add_special_tokens=False)) for text in (prompts[0], answers[0])]
    say(f"{folder}: {size} parameters, {len(prompts)} prompts of {lengths[0]} tokens, calls of {lengths[1]}")


def padded(rows: Sequence[tuple[Sequence[int], Sequence[int]]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of ids and labels, to one length."""
    length = max(len(ids) for ids, _ in rows)
    ids = [[*row, *[pad] * (length - len(row))] for row, _ in rows]
    labels = [[*row, *[-100] * (length - len(row))] for _, row in rows]
    return torch.tensor(ids), torch.tensor(labels)


def save(
    model: Qwen3ForCausalLM | Qwen3MoeForCausalLM, tokenizer: PreTrainedTokenizerFast, template: str, folder: Path
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


def _loss(model: Qwen3ForCausalLM, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Over the labelled tokens alone, of which there are few."""
    hidden = model.model(input_ids=ids).last_hidden_state[:, :-1]
    wanted = labels[:, 1:]
    labelled = wanted != -100
    return torch.nn.functional.cross_entropy(model.lm_head(hidden[labelled]), wanted[labelled])
