"""`python scorer.py FOLDER...`: makes tiny random mixtures of experts for the tokenizers of the folders, then scores.

Form    a line of JSON in, `[folder, prompt, ids]`; a line out: `log_probs` of the ids, and `experts`, [tokens, layers,
        k], of all tokens but the last. As transformers have them, in float32.
Law     it imports torch, and is run by the interpreter of an environment that has it: one process for all scores, as it
        takes half a minute to start on a busy machine.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast, Qwen3MoeForCausalLM

from paddock.testing.templates import TEMPLATES
from paddock.testing.tiny_qwen3 import make_mixture, save

LONGEST = 32768


def score(model: Qwen3MoeForCausalLM, prompt: list[int], ids: list[int]) -> dict[str, Any]:
    whole = [*prompt, *ids]
    with torch.no_grad():
        found = model(torch.tensor([whole[:-1]]), output_router_logits=True)
    log_probs = torch.log_softmax(found.logits[0].float(), -1)
    places = range(len(prompt) - 1, len(whole) - 1)
    experts = [layer.topk(model.config.num_experts_per_tok, dim=-1).indices for layer in found.router_logits]
    return {"log_probs": log_probs[places, ids].tolist(), "experts": torch.stack(experts, 1).tolist()}


def main() -> None:
    torch.set_num_threads(1)
    models = {}
    for seed, folder in enumerate(sys.argv[1:]):
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=f"{folder}/tokenizer.json", eos_token="<|im_end|>", pad_token="<|endoftext|>"
        )
        models[folder] = make_mixture(tokenizer, seed, max_position_embeddings=LONGEST).eval()
        save(models[folder], tokenizer, TEMPLATES["chatml"].source, Path(folder))
    say("ready")
    for line in sys.stdin:
        folder, prompt, ids = json.loads(line)
        say(json.dumps(score(models[folder], prompt, ids)))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
