"""vLLM's raw generation route before a real vLLM, whose answers are the same in every run.

Law     the n-th call of a run with a prompt gets the n-th answer to it: the one that the real vLLM sampled when the
        first run asked for it. Answers to one prompt with the same ids are one answer. So the rollouts of a group are
        the same ones whoever runs them, in whatever order.
Reason  batches of other sizes differ in the last bits of log-probs, and a vLLM for a CPU takes no seed of a request.
"""

from collections import Counter

import httpx
from aiohttp import web
from tests.training.same_rollouts.task import SAMPLING
from tests.training.skyrl.http_engine import HttpEngine

from paddock.types import JsonObject


class SampledAnswers:
    """The answers of a real vLLM, which are kept."""

    def __init__(self, url: str, model: str) -> None:
        self._url = f"{url}/inference/v1/generate"
        self._model = model
        self._answers: dict[tuple[int, ...], dict[int, JsonObject]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._answers.values()))

    async def nth(self, ids: tuple[int, ...], number: int) -> JsonObject:
        """The choice of the answer with this number to a prompt."""
        known = self._answers.setdefault(ids, {})
        if number not in known:
            choice = await self._sample(ids)
            same = (one for one in known.values() if one["token_ids"] == choice["token_ids"])
            known[number] = next(same, choice)
        return known[number]

    async def _sample(self, ids: tuple[int, ...]) -> JsonObject:
        params = {**SAMPLING, "logprobs": 1, "skip_special_tokens": False}
        body = {"model": self._model, "token_ids": ids, "sampling_params": params}
        async with httpx.AsyncClient(timeout=300) as client:
            answer = await client.post(self._url, json=body)
        answer.raise_for_status()
        (choice,) = answer.json()["choices"]
        content = [{"logprob": entry["logprob"]} for entry in choice["logprobs"]["content"]]
        return {
            "token_ids": choice["token_ids"],
            "finish_reason": choice["finish_reason"],
            "logprobs": {"content": content},
        }


class SameEngine(HttpEngine):
    """The endpoint of one run."""

    def __init__(self, answers: SampledAnswers) -> None:
        self._answers = answers
        self._asked: Counter[tuple[int, ...]] = Counter()
        super().__init__(lambda _: "")

    async def _generate(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.calls.append(body["sampling_params"])
        ids = tuple(body["token_ids"])
        self._asked[ids] += 1
        return web.json_response({"choices": [await self._answers.nth(ids, self._asked[ids])]})
