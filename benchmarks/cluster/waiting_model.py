"""A model that answers after a scripted time and remembers when, so that the gaps between a worker's rollouts show."""

import asyncio
import os
import random
import time
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from pydantic import Field

from benchmarks.processes import peak_mib
from benchmarks.rollouts import ANSWER
from paddock.conformance.scripted import ModelConfig, ScriptedModel
from paddock.http import Call, ModelReply
from paddock.types import JsonObject
from paddock.types.responses import call_item

SPREAD = 0.5
"""A wait is at most this share longer or shorter than the mean, so that rollouts do not go in step."""


class WaitingModelConfig(ModelConfig):
    mean_wait_s: float = Field(default=0.0, ge=0)
    """Seconds before each answer, in the mean."""
    times: Path = Path()
    """Folder for a file of each process: the times of its calls, in pairs of seconds on the monotonic clock, its
    memory, and its CPU from the first of them on."""


class WaitingModel(ScriptedModel):
    """Always says the same call."""

    config_type = WaitingModelConfig
    config: WaitingModelConfig

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._times: list[tuple[float, float]] = []
        self._cpu_before_s: float | None = None
        self._random = random.Random(os.getpid())

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        began = time.monotonic()
        if self._cpu_before_s is None:
            self._cpu_before_s = time.process_time()
        await asyncio.sleep(self.config.mean_wait_s * self._random.uniform(1 - SPREAD, 1 + SPREAD))
        reply = await super().responses(body, call)
        assert isinstance(reply, dict)
        self._times.append((began, time.monotonic()))
        return {**reply, "output": [call_item(*ANSWER)]}

    async def stop(self) -> None:
        cpu_s = time.process_time() - (self._cpu_before_s or 0.0)
        left = {"times": self._times, "peak_mib": peak_mib(), "cpu_s": cpu_s}
        (self.config.times / f"{os.getpid()}.json").write_bytes(orjson.dumps(left))


class WorkerTimes(NamedTuple):
    """What a worker left."""

    times: list[tuple[float, float]]
    peak_mib: float
    cpu_s: float
    """Of the whole process."""

    @property
    def most_at_once(self) -> int:
        """Of its calls."""
        changes = sorted([(began, 1) for began, _ in self.times] + [(ended, -1) for _, ended in self.times])
        return max(accumulate(change for _, change in changes))

    def gaps_s(self, slots: int) -> list[float]:
        """Seconds that a slot waited for its next call: the first call to end frees the slot of the first that begins
        after all slots were taken, and so on. `slots`: what it has in flight from its first calls to its last."""
        refills = sorted(began for began, _ in self.times)[slots:]
        ends = sorted(ended for _, ended in self.times)
        return [began - ended for ended, began in zip(ends, refills, strict=False)]


def read_times(folder: Path) -> list[WorkerTimes]:
    return [WorkerTimes(**orjson.loads(file.read_bytes())) for file in folder.iterdir()]
