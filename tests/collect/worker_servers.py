"""Servers for tests of workers: models that answer by the row and may fail to start, once for all workers, or when they
may, and an agent that leaves files."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from paddock.agents.single_step.server import SingleStepAgent, SingleStepConfig
from paddock.conformance.scripted import ModelConfig, ScriptedModel
from paddock.errors import InfraError
from paddock.http import Call, ModelReply
from paddock.types import JsonObject, Rollout, Row
from paddock.types.responses import message_item

SIZES = (0, 1, 64 << 10, 200_000)


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


class GatedModelConfig(ModelConfig):
    asked: Path = Path()
    """A file that each call adds a line to where it begins, and where it ends: its process and 1 or -1."""
    may_end: Path = Path()
    """No call ends before this file is there."""


class GatedModel(ScriptedModel):
    """Answers nobody before it may."""

    config_type = GatedModelConfig
    config: GatedModelConfig

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        self._count(1)
        while not self.config.may_end.exists():
            await asyncio.sleep(0.01)
        self._count(-1)
        return await super().responses(body, call)

    def _count(self, change: int) -> None:
        with self.config.asked.open("a") as file:
            file.write(f"{os.getpid()} {change}\n")


class LeavingConfig(SingleStepConfig):
    artifacts_dir: Path
    """Where each attempt leaves files."""
    large_bytes: int = 0
    """Size of one more file."""


class LeavingAgent(SingleStepAgent):
    """Leaves files of several sizes and a link; the first attempt at every third row fails after that."""

    config_type: ClassVar[type[SingleStepConfig]] = LeavingConfig

    async def run(self, row: Row, call: Call) -> Rollout:
        assert isinstance(self.config, LeavingConfig)
        stamp = row.stamp
        position = f"{stamp.group_id}-{stamp.member or 0}-{stamp.attempt or 0}-name"
        folder = self.config.artifacts_dir / str(stamp.run_id) / position
        (folder / "deep").mkdir(parents=True)
        for size in SIZES:
            (folder / f"deep/{size}").write_bytes(position.encode()[:1] * size)
        if self.config.large_bytes:
            (folder / "large").write_bytes(b"-" * self.config.large_bytes)
        (folder / "position").write_text(position)
        (folder / "link").symlink_to("/etc/passwd")
        if stamp.group_id is not None and stamp.group_id % 3 == 0 and not stamp.attempt:
            raise InfraError("the machine's", kind="scripted")
        return await super().run(row, call)


def started(starts: Path) -> list[int]:
    """The processes that started one."""
    return [int(line) for line in _lines(starts)]


def _lines(path: Path) -> Iterator[str]:
    yield from path.read_text().splitlines() if path.exists() else ()
