"""Calls of one rollout whose record is there, at the exact server; and calls of the same length at its upstream."""

from typing import NamedTuple

from benchmarks.tokens.scripted_rollout import TOOLS
from benchmarks.tokens.wire import Wire, WireAnswer, ids_of_generate, ids_of_response
from paddock.types import JsonObject

ANSWER_IDS = 48


class PrimedRollout(NamedTuple):
    history: list[JsonObject]
    prompt: list[int]
    """Ids of the last turn's."""
    data: bytes
    """The turn file."""


class PrimedCalls:
    """Calls of one rollout, and calls of the same length at the floor."""

    def __init__(self, secret: str, primed: PrimedRollout, ours: str, floor: str, pace_us: int) -> None:
        """`pace_us`: 0 for whole answers."""
        self._url, self._floor = f"{ours}/r/{secret}/v1/responses", f"{floor}/inference/v1/generate"
        self._history = list(primed.history)
        self._ids = primed.prompt
        self._stream = pace_us > 0
        self._pace_us = pace_us
        self._wires: dict[str, Wire] = {}

    async def ours(self) -> WireAnswer:
        params = {"max_output_tokens": ANSWER_IDS, "top_k": self._pace_us, "temperature": 1.0}
        body: JsonObject = {"model": "scripted", "input": self._history, "tools": TOOLS, **params}
        wire = await self._wire(self._url)
        if self._stream:
            got = await wire.stream(self._url, {**body, "stream": True}, ids_of_response)
        else:
            got = await wire.whole(self._url, body)
        self._history += got.body.get("output", [])
        self._history.append({"role": "user", "content": "And then?"})
        return got

    async def bare(self) -> WireAnswer:
        params = {"max_tokens": ANSWER_IDS, "top_k": self._pace_us, "logprobs": 0}
        body: JsonObject = {"model": "scripted", "token_ids": self._ids, "sampling_params": params}
        wire = await self._wire(self._floor)
        if self._stream:
            return await wire.stream(self._floor, {**body, "stream": True}, ids_of_generate)
        return await wire.whole(self._floor, {**body, "stream": False})

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()

    async def _wire(self, url: str) -> Wire:
        if url not in self._wires:
            self._wires[url] = await Wire.open(url)
        return self._wires[url]
