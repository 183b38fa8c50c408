"""`python measure_token_scores.py PORT`: scores computed in chunks beside those of whole logits, as numbers, in a
line of JSON. It claims nothing.

Runs in the environment that has torch; `test_token_scores.py` says what the numbers have to be.
"""

import json
import sys
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import multiprocessing
from torch.nn.functional import linear

from paddock.training.grpo.language_head import LanguageHead
from paddock.training.grpo.token_scores import ModelHead, ScoreForm, TokenScores, token_scores

TOKENS, SIZE, VOCABULARY, TEMPERATURE = 7, 6, 10, 0.7
HEADS: dict[str, dict[str, Any]] = {
    "qwen3": {"tie_word_embeddings": True},
    "llama": {"tie_word_embeddings": False},
    "gemma2": {"final_logit_softcapping": 2.0, "query_pre_attn_scalar": 16, "attn_logit_softcapping": None},
    "granite": {"logits_scaling": 4.0},
    "cohere": {"logit_scale": 0.25},
    "phi": {},
    "gpt_neox": {},
    "opt": {"ffn_dim": 64, "word_embed_proj_dim": 32},
}
"""Kinds of models, with what each makes of logits: nothing, tied or not; a soft cap; a divisor; a factor; a bias; the
body under another name. OPT's forward pass calls a part of its body."""


class ScoredCase(NamedTuple):
    hidden: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor
    targets: torch.Tensor
    by_scores: TokenScores
    """Gradients of the scores."""

    def gradients(self, scores: TokenScores) -> tuple[torch.Tensor, ...]:
        total = sum((value * by).sum() for value, by in zip(scores, self.by_scores, strict=True))
        found: tuple[torch.Tensor, ...] = torch.autograd.grad(total, (self.hidden, self.weight, self.bias))
        return found


def case(dtype: torch.dtype) -> ScoredCase:
    chance = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=chance, dtype=torch.float64).to(dtype)

    targets = torch.randint(VOCABULARY, (TOKENS,), generator=chance)
    shapes = ((TOKENS, SIZE), (VOCABULARY, SIZE), (VOCABULARY,))
    hidden, weight, bias = (drawn(*shape).requires_grad_() for shape in shapes)
    exact = torch.promote_types(dtype, torch.float32)
    by_scores = TokenScores(drawn(TOKENS).to(exact), drawn(TOKENS).to(exact))
    return ScoredCase(hidden, weight, bias, targets, by_scores)


def whole(logits: torch.Tensor, targets: torch.Tensor, temperature: float) -> TokenScores:
    """By the formulas, of all logits."""
    log_p = (logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature).log_softmax(-1)
    return TokenScores(log_p.gather(-1, targets[:, None])[:, 0], -(log_p.exp() * log_p).sum(-1))


def plain_head(one: ScoredCase) -> ModelHead:
    return ModelHead(lambda hidden: linear(hidden, one.weight, one.bias), [one.weight, one.bias])


def apart(one: Any, other: Any) -> float:
    """Of the largest value in `other`."""
    largest = max(float(value.detach().abs().max()) for value in other)
    return max(float((a - b).detach().abs().max()) for a, b in zip(one, other, strict=True)) / largest


def checked() -> bool:
    one = case(torch.float64)

    def scores(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> TokenScores:
        head = ModelHead(lambda own: linear(own, weight, bias), [weight, bias])
        return token_scores(hidden, one.targets, head, ScoreForm(3, TEMPERATURE, entropies=True))

    return bool(torch.autograd.gradcheck(scores, (one.hidden, one.weight, one.bias)))


def chunks(dtype: torch.dtype) -> dict[str, Any]:
    one = case(dtype)
    expected = whole(linear(one.hidden, one.weight, one.bias), one.targets, TEMPERATURE)
    gradients = one.gradients(expected)
    found = {}
    for size in (1, 2, TOKENS, 100):
        scores = token_scores(one.hidden, one.targets, plain_head(one), ScoreForm(size, TEMPERATURE, entropies=True))
        found[str(size)] = [apart(scores, expected), apart(one.gradients(scores), gradients)]
    without = token_scores(one.hidden, one.targets, plain_head(one), ScoreForm(2))
    none = token_scores(one.hidden[:0], one.targets[:0], plain_head(one), ScoreForm(2, entropies=True))
    none.log_probs.sum().backward()
    return {
        "errors": found,
        "without": [len(without.entropies), len(none.log_probs), float(one.weight.grad.abs().max())],
        "types": sorted({str(value.dtype) for value in scores}),
    }


def entropy_alone() -> float:
    """How far its gradient is, where there is none of the log-probs."""
    one = case(torch.float64)
    scores = token_scores(one.hidden, one.targets, plain_head(one), ScoreForm(2, entropies=True))
    expected = whole(linear(one.hidden, one.weight, one.bias), one.targets, 1.0)
    return apart(*(torch.autograd.grad(each.entropies.sum(), (one.hidden, one.weight)) for each in (scores, expected)))


def of_half(rank: int, port: int, found: Any) -> None:
    """Of one of two processes, each with a half of the vocabulary."""
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    one, size = case(torch.float64), VOCABULARY // 2
    own = slice(rank * size, (rank + 1) * size)
    head = ModelHead(
        lambda hidden: linear(hidden, one.weight[own], one.bias[own]),
        [one.weight, one.bias],
        own.start,
        dist.group.WORLD,
    )
    scores = token_scores(one.hidden, one.targets, head, ScoreForm(3, TEMPERATURE, entropies=True))
    gradients = one.gradients(scores)
    for value in gradients:
        dist.all_reduce(value)
    expected = whole(linear(one.hidden, one.weight, one.bias), one.targets, TEMPERATURE)
    found.put([apart(scores, expected), apart(gradients, one.gradients(expected))])
    dist.destroy_process_group()


def halves(port: int) -> list[list[float]]:
    context = multiprocessing.get_context("spawn")
    found = context.SimpleQueue()
    processes = [context.Process(target=of_half, args=(rank, port, found)) for rank in (0, 1)]
    for process in processes:
        process.start()
    told = [found.get() for _ in processes]
    for process in processes:
        process.join()
    return told


def made(kind: str) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM  # not in processes with a half of the vocabulary

    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64, "num_attention_heads": 2}
    more = {"num_key_value_heads": 2, "head_dim": 16, "vocab_size": 50, "pad_token_id": 0, "bos_token_id": 1}
    config = AutoConfig.for_model(kind, **size, **more, eos_token_id=2, **HEADS[kind])
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    for value in model.parameters():
        torch.nn.init.normal_(value, std=0.2)
    return model.eval()


def head(kind: str) -> dict[str, Any]:
    """Log-probs of a row, and all gradients, beside those of the model's own logits."""
    model = made(kind)
    ids = torch.randint(3, 50, (1, 20), generator=torch.Generator().manual_seed(1))
    expected = whole(model(input_ids=ids).logits[0, :-1], ids[0, 1:], 1.0)
    sums = expected.log_probs.sum() + expected.entropies.sum()
    gradients = torch.autograd.grad(sums, list(model.parameters()), allow_unused=True)
    hidden, own = LanguageHead(model).split({"input_ids": ids})
    scores = token_scores(hidden[0, :-1], ids[0, 1:], own, ScoreForm(4, entropies=True))
    (scores.log_probs.sum() + scores.entropies.sum()).backward()
    pairs = [(value.grad, by) for value, by in zip(model.parameters(), gradients, strict=True) if by is not None]
    return {
        "scores": apart(scores, expected),
        "gradients": apart(*zip(*pairs, strict=True)),
        "width": hidden.shape[-1],
    }


def main() -> None:
    torch.set_num_threads(1)
    found = {
        "checked": checked(),
        "entropy": entropy_alone(),
        "chunks": {str(dtype): chunks(dtype) for dtype in (torch.float64, torch.float32, torch.bfloat16)},
        "halves": halves(int(sys.argv[1])),
        "heads": {kind: head(kind) for kind in HEADS},
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
