"""Servers for tests of workers: a model that answers by the row and may fail to start, and one for all workers."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from paddock.conformance.scripted import ModelConfig, ScriptedModel
from paddock.errors import InfraError
from paddock.http import Call, ModelReply
from paddock.types import JsonObject
from paddock.types.responses import message_item


class RowModelConfig(ModelConfig):
    starts: Path | None = None
    """A file that each start of it adds its process to."""
    max_starts: int = 10**9
    """Number of starts, over all processes, after which none succeeds."""


class RowModel(ScriptedModel):
    """Says `yes` to a question whose number has an even sum of digits, else `no`; of a deadly question it dies."""

    config_type = RowModelConfig
    config: RowModelConfig

    async def start(self) -> None:
        if self.config.starts is None:
            return
        with self.config.starts.open("a") as file:
            file.write(f"{os.getpid()}\n")
        if len(started(self.config.starts)) > self.config.max_starts:
            raise InfraError("it does not start again")

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        if "deadly" in str(body["input"]):
            os.kill(os.getpid(), signal.SIGKILL)
        even = sum(map(int, filter(str.isdecimal, str(body["input"])))) % 2 == 0
        reply = await super().responses(body, call)
        assert isinstance(reply, dict)
        return {**reply, "output": [message_item("yes" if even else "no")]}


class OnlyModel(RowModel):
    """One serves all workers."""

    SHARED: ClassVar[bool] = True


def started(starts: Path) -> list[int]:
    """The processes that started one."""
    return [int(line) for line in _lines(starts)]


def _lines(path: Path) -> Iterator[str]:
    yield from path.read_text().splitlines() if path.exists() else ()
