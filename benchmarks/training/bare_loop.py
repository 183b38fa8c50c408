"""The floor: a GRPO loop in one process and one file, as somebody would write it who needs nothing else.

Sample  one asyncio loop renders and tokenises each prompt once, posts its ids raw to vLLM as many times, reads the
        answer with a regular expression, scores it with the comparator of the pivot server, and writes a line.
Train   a padded batch through Transformers, the clipped loss over its trained tokens, AdamW; the new weights go to vLLM
        as in a run. Nothing is done beside something else, recorded, resumed or masked.
Usage   python -m benchmarks.training.bare_loop FOLDER --steps N: the seconds of each step, as JSON. Under an
        interpreter with torch and vLLM.
"""

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from secrets import token_urlsafe
from statistics import fmean, pstdev
from typing import Any, NamedTuple

import orjson

from benchmarks.floor_server import judge
from benchmarks.raw_http import RawConnection
from benchmarks.training.demo_task import CONFIG, DemoTask
from paddock.http.access import bearer
from paddock.http.transport import make_client
from paddock.ports import LOOPBACK
from paddock.server.dialects import conversation
from paddock.server.dialects.canonical import chat_messages
from paddock.server.vllm.weights.replicas import ReplicaInfo
from paddock.tokens.prompter import Prompter
from paddock.tokens.template import ChatTemplate
from paddock.tokens.vocabulary import Vocabulary
from paddock.types import JsonObject

PROMPTS = MEMBERS = 16
MAX_TOKENS = 40
MICRO_BATCH = 64
LR, MAX_GRAD_NORM = 1e-3, 0.3
"""Those of the demonstration, and so is `MICRO_BATCH`."""
CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)


class BareSample(NamedTuple):
    """One answer, and what the loss needs of it."""

    ids: list[int]
    """Prompt and answer."""
    prompt_tokens: int
    log_probs: list[float]
    """The engine's, of the answer."""
    advantage: float


class _BareAnswer(NamedTuple):
    ids: list[int]
    log_probs: list[float]
    reward: float


class BareLoop:
    """Samples of one vLLM by one asyncio loop that posts ids. `url`: of vLLM itself; `model`: its folder, and what vLLM
    calls it; `lines`: where a line for each answer is written."""

    def __init__(self, model: Path, rows: Path, url: str, lines: Path) -> None:
        self._url = f"{url}/inference/v1/generate"
        self._model = str(model)
        self._rows: list[JsonObject] = [orjson.loads(line) for line in rows.read_bytes().splitlines()]
        self._vocabulary = Vocabulary.load(model)
        template = ChatTemplate(self._vocabulary.chat_template or "", self._vocabulary.special_texts)
        self._prompter = Prompter(template, self._vocabulary)
        self._lines = lines

    async def sample(self, step: int, *, prompts: int, members: int) -> list[BareSample]:
        """The answers of one step, group by group."""
        with self._lines.open("ab") as file:
            rows = range(step * prompts, (step + 1) * prompts)
            groups = await asyncio.gather(*(self._group(nth, members, file.write) for nth in rows))
        return [sample for group in groups for sample in group]

    async def _group(self, nth: int, members: int, write: Callable[[bytes], int]) -> list[BareSample]:
        row = self._rows[nth % len(self._rows)]
        request = conversation("responses", row["responses_create_params"])
        prompt = self._prompter.whole(chat_messages(request.items), request.tools)
        answers = await asyncio.gather(*(self._answer(row, prompt, write) for _ in range(members)))
        rewards = [answer.reward for answer in answers]
        mean, spread = fmean(rewards), pstdev(rewards) or 1.0
        return [
            BareSample(prompt + answer.ids, len(prompt), answer.log_probs, (answer.reward - mean) / spread)
            for answer in answers
        ]

    async def _answer(self, row: JsonObject, prompt: list[int], write: Callable[[bytes], int]) -> _BareAnswer:
        params = {"temperature": 1.0, "top_p": 1.0, "max_tokens": MAX_TOKENS, "logprobs": 0}
        body = {"model": self._model, "stream": False, "token_ids": prompt, "sampling_params": params}
        async with RawConnection(self._url) as connection:
            reply = await connection.post(self._url, orjson.dumps(body))
        (choice,) = orjson.loads(reply)["choices"]
        ids = choice["token_ids"]
        response = {"output": _output(self._vocabulary.decode(ids))}
        reward = judge("compat", {**row, "response": response}).reward
        log_probs = [entry["logprob"] for entry in choice["logprobs"]["content"]]
        line = {"prompt": prompt, "ids": ids, "log_probs": log_probs, "response": response, "reward": reward}
        write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        return _BareAnswer(ids, log_probs, reward)


def _output(text: str) -> list[JsonObject]:
    match = CALL.search(text)
    try:
        call: JsonObject = orjson.loads(match[1] if match else "null")
        return [{"type": "function_call", "name": call["name"], "arguments": orjson.dumps(call["arguments"]).decode()}]
    except (orjson.JSONDecodeError, TypeError, KeyError):
        return [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]


class BareTrainer:
    """A model of Transformers on one thread of the CPU, and its optimizer."""

    def __init__(self, model: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        self.model = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        self._optimizer = torch.optim.AdamW(self.model.parameters(), lr=LR, weight_decay=0.0)

    def step(self, samples: Sequence[BareSample]) -> None:
        """One optimiser step on all samples."""
        import torch

        n_tokens = sum(len(sample.log_probs) for sample in samples)
        ordered = sorted(samples, key=lambda sample: len(sample.ids))
        self._optimizer.zero_grad()
        for start in range(0, len(ordered), MICRO_BATCH):
            self._backward(ordered[start : start + MICRO_BATCH], n_tokens)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), MAX_GRAD_NORM)
        self._optimizer.step()

    def _backward(self, samples: Sequence[BareSample], n_tokens: int) -> None:
        import torch

        length = max(len(sample.ids) for sample in samples)
        ids = torch.zeros(len(samples), length, dtype=torch.long)
        before, advantages, mask = torch.zeros(3, len(samples), length)
        for nth, sample in enumerate(samples):
            answer = slice(sample.prompt_tokens, len(sample.ids))
            ids[nth, : len(sample.ids)] = torch.tensor(sample.ids)
            before[nth, answer] = torch.tensor(sample.log_probs)
            advantages[nth], mask[nth, answer] = sample.advantage, 1.0
        logits = self.model(ids).logits[:, :-1]
        now = logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
        ratio = torch.where(mask[:, 1:] > 0, now - before[:, 1:], 0.0).exp()
        advantages = advantages[:, 1:]
        gain = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.28) * advantages)
        (-(gain * mask[:, 1:]).sum() / n_tokens).backward()


async def run(task: DemoTask, steps: int) -> list[float]:
    """The seconds of each step: sample, train, send."""
    import torch

    from paddock.server.vllm.weights.sender import vllm_sender
    from paddock.server.vllm.weights.settings import WeightsSettings
    from paddock.training.grpo.environment import EngineHost
    from paddock.training.grpo.read_config import read_config

    read = read_config(CONFIG, task.overrides(PROMPTS))
    engines = EngineHost(read.environment, read.model_server, LOOPBACK, token_urlsafe())
    await engines.start()
    try:
        address = await engines.address()
        replicas: list[ReplicaInfo] = await engines.replicas()
        async with make_client() as client:
            described = await client.get(f"{address.url}/replicas", headers=bearer(address.token))
        url = described.json()["replicas"][0]["url"]
        bare, trainer = BareLoop(task.model, task.rows, url, task.folder / "bare.jsonl"), BareTrainer(task.model)
        sender = vllm_sender(WeightsSettings(), transport="memory", device=torch.device("cpu"))
        seconds = []
        for step in range(steps):
            began = time.perf_counter()
            samples = await bare.sample(step, prompts=PROMPTS, members=MEMBERS)
            await asyncio.to_thread(trainer.step, samples)
            weights: dict[str, Any] = {name: value.detach() for name, value in trainer.model.named_parameters()}
            await asyncio.to_thread(sender.send, step + 1, weights.items, replicas, clear_cache=True)
            seconds.append(time.perf_counter() - began)
        sender.close()
        return seconds
    finally:
        await engines.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path, help="rows and model are in `made` below it")
    parser.add_argument("--steps", type=int, required=True)
    args = parser.parse_args()
    sys.stdout.write(orjson.dumps(asyncio.run(run(DemoTask(sys.executable, args.folder), args.steps))).decode() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
