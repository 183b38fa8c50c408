"""`python send_to_many.py MODEL < commands`: a trainer that sends weights to several vLLMs at once.

Runs in the environment that has vLLM. A command is a line of JSON: `version`, `replicas` (name, URL, start), and
`signal`, a process and what it is sent in the middle of the transfer. The reply is the result, how long it took, and
how many groups shared no memory.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Iterator

import torch
from transformers import AutoModelForCausalLM

from paddock.server.vllm.weights.replicas import ReplicaInfo
from paddock.server.vllm.weights.sender import vllm_sender
from paddock.server.vllm.weights.settings import WeightsSettings

NOISE = 0.02
SETTINGS = WeightsSettings(bucket_bytes=16 << 10, timeout_s=10.0)


class GlooLog(logging.Handler):
    """Counts groups that share no memory."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += "over gloo" in record.getMessage()


def main() -> None:
    log, groups = GlooLog(), logging.getLogger("paddock.server.vllm.weights.engine_group")
    groups.addHandler(log)
    groups.setLevel(logging.INFO)
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
    sender = vllm_sender(SETTINGS, transport="memory", device=torch.device("cpu"))
    for line in sys.stdin:
        command = json.loads(line)
        with torch.no_grad():
            for value in model.parameters():
                value += NOISE * torch.randn_like(value)
        signals = [command["signal"]] if command["signal"] else []

        def weights(signals: list[list[int]] = signals) -> Iterator[tuple[str, torch.Tensor]]:
            named = list(model.named_parameters())
            for nth, (name, value) in enumerate(named):
                if nth == len(named) // 2 and signals:
                    os.kill(*signals.pop())
                yield name, value

        began = time.monotonic()
        replicas = [ReplicaInfo(*one) for one in command["replicas"]]
        sent = sender.send(command["version"], weights, replicas, clear_cache=True)
        result = {**sent._asdict(), "failed": dict(sent.failed), "took_s": time.monotonic() - began, "gloo": log.count}
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()
    sender.close()


if __name__ == "__main__":
    main()
