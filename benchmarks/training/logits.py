"""Log-probs of a row and their gradients at a real vocabulary, by chunks of logits: peak memory and time, on a CPU.

Each way has a process of its own, so that its peak is its own: what it has more at its peak than with inputs and
weights, from their gradients and logits.
Floor   all logits at once, by torch's own cross entropy.
Law     the number of tokens has no part in the memory of chunks, but for hidden states; the floor's grows with it.
"""

import json
import resource
import subprocess
import sys
import time
from typing import Any

TOKENS, HIDDEN_SIZE, VOCABULARY = 2048, 256, 151_936
CHUNKS = (128, 512, 1024)
MIB = 1024


def measure(python: str) -> dict[str, Any]:
    floor = _figures(python, "0", "")
    ways = [
        {"chunk_size": size, "entropies": bool(entropies), **_figures(python, str(size), entropies)}
        for size, entropies in [*((size, "") for size in CHUNKS), (CHUNKS[-1], "entropies")]
    ]
    shares = [
        {**way, "memory_ratio": way["peak_mib"] / floor["peak_mib"], "time_ratio": way["seconds"] / floor["seconds"]}
        for way in ways
    ]
    return {"tokens": TOKENS, "vocabulary": VOCABULARY, "floor": floor, "chunks": shares}


def _figures(python: str, *arguments: str) -> dict[str, float]:
    command = [python, "-m", "benchmarks.training.logits", *arguments]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB


def main() -> None:
    import torch  # in the environment of this process alone
    from torch.nn.functional import cross_entropy, linear

    from paddock.training.grpo.token_scores import ModelHead, ScoreForm, token_scores

    size, entropies = int(sys.argv[1]), bool(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    hidden = torch.randn(TOKENS, HIDDEN_SIZE).requires_grad_()
    weight = (0.1 * torch.randn(VOCABULARY, HIDDEN_SIZE)).requires_grad_()
    targets = torch.randint(VOCABULARY, (TOKENS,))
    before, started = _peak_mib(), time.perf_counter()
    if size:
        head = ModelHead(lambda own: linear(own, weight), [weight])
        scores = token_scores(hidden, targets, head, ScoreForm(size, entropies=entropies))
        loss = scores.log_probs.mean()
    else:
        loss = -cross_entropy(linear(hidden, weight).float(), targets)
    loss.backward()
    seconds = time.perf_counter() - started
    print(json.dumps({"peak_mib": _peak_mib() - before, "seconds": seconds, "loss": float(loss.detach())}))


if __name__ == "__main__":
    main()
