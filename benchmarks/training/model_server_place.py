"""CPU of rollouts where the worker's model server is in a process of its own, and where it is in the worker's.

Work    rollouts of one answer (a short row, and one of 30 kB), and of ten answers whose calls of a tool each give a
        kilobyte. The engine answers at once, in a process of its own; both places ask it over HTTP.
CPU     of the worker's process and, where it is apart, the model server's; not the engine's. Both places run in turns
        in one program, and ratios are of two that followed each other.
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from secrets import token_urlsafe
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple

import orjson
import psutil
import uvloop

from benchmarks.bodies import text
from benchmarks.processes import running
from paddock.config import Config, load
from paddock.models_servers.vllm.server import VllmServer
from paddock.ports import LOOPBACK, free_port
from paddock.server.exact import Equipment
from paddock.server.loops import spare_collector
from paddock.testing.engines import JsonCallParser
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary, write_model_folder
from paddock.tokens import ChatTemplate, Prompter, Vocabulary
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.grpo.environment import EngineHost
from paddock.training.grpo.roles import GroupJob
from paddock.training.grpo.rows import IndexedRows
from paddock.training.grpo.worker import RolloutWorker, WorkerSettings
from paddock.types import JsonObject

GROUPS, SIZE, ROUNDS = 16, 8, 5
TURNS = 10
RESULT_CHARS = 1000
SAMPLED_CHARS = 300
SCRIPTED = "paddock.conformance.scripted:ScriptedEnvironment"
_RESULT = text(random.Random(0), RESULT_CHARS)


def look(path: str) -> str:
    """Read a file.

    Args:
        path: Its path.
    """
    return _RESULT


class ServerInPlace(VllmServer):
    """vLLM's model server, with a parser that any interpreter has, in its callers' process."""

    OWN_PROCESS: ClassVar[bool] = False

    async def equip(self) -> Equipment:
        return (await super().equip())._replace(parsers=lambda tools, prompt_ids: JsonCallParser())


class ServerApart(ServerInPlace):
    """The same in a process of its own."""

    OWN_PROCESS: ClassVar[bool] = True


class PlaceCase(NamedTuple):
    name: str
    row_chars: int
    turns: int


CASES = (PlaceCase("short", 300, 1), PlaceCase("long", 30_000, 1), PlaceCase("tools", 1500, TURNS))


def measure() -> list[dict[str, Any]]:
    spare_collector()
    with TemporaryDirectory() as name, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        folder = Path(name)
        write_model_folder(folder / "model", chat_template=TEMPLATES["chatml"].source)
        return [runner.run(_case(case, folder)) for case in CASES]


async def _case(case: PlaceCase, folder: Path) -> dict[str, Any]:
    vocabulary = small_vocabulary()
    (end,) = vocabulary.encode(vocabulary.special_texts["eos_token"])
    row = _row(case)
    answers, port = folder / f"{case.name}.json", free_port()
    answers.write_bytes(orjson.dumps(_answers(case, vocabulary, end)))
    messages = row["responses_create_params"]["input"]
    prompter = Prompter(ChatTemplate(TEMPLATES["chatml"].source, vocabulary.special_texts), vocabulary)
    first = prompter.whole(messages, row["responses_create_params"].get("tools", [])).count(end)
    engine = ["benchmarks.training.scripted_vllm", str(answers), "--port", str(port)]
    url = f"http://{LOOPBACK}:{port}"
    with running([*engine, "--end", str(end), "--first", str(first)], f"{url}/health"):
        async with AsyncExitStack() as stack:
            apart, near = [
                await stack.enter_async_context(_started(case, folder, url, row, server))
                for server in (ServerApart, ServerInPlace)
            ]
            for worker in (apart, near):
                await worker.run()
            rounds = [(await _measured(apart), await _measured(near)) for _ in range(ROUNDS)]
    return {
        "case": case.name,
        "turns": case.turns,
        "apart_cpu_ms": median(one.cpu_ms for one, _ in rounds),
        "in_process_cpu_ms": median(two.cpu_ms for _, two in rounds),
        "cpu_ratio": median(two.cpu_ms / one.cpu_ms for one, two in rounds),
        "wall_ratio": median(two.wall_s / one.wall_s for one, two in rounds),
        "load": psutil.getloadavg()[0],
    }


class PlaceCost(NamedTuple):
    cpu_ms: float
    """Per rollout."""
    wall_s: float


async def _measured(worker: "WorkerInPlace") -> PlaceCost:
    cpu, started = worker.cpu_s(), time.perf_counter()
    await worker.run()
    wall_s = time.perf_counter() - started
    return PlaceCost((worker.cpu_s() - cpu) * 1e3 / (GROUPS * SIZE), wall_s)


class WorkerInPlace:
    """A rollout worker, and the processes that its rollouts take."""

    def __init__(self, worker: RolloutWorker, rows: IndexedRows, processes: list[psutil.Process]) -> None:
        self._worker = worker
        self._rows = rows
        self._processes = processes

    async def run(self) -> None:
        """All groups at once."""
        await asyncio.gather(*map(self._group, range(GROUPS)))

    async def _group(self, number: int) -> None:
        planned = self._rows.group(0, size=SIZE, epoch=number, run_id="places", sampling={})
        finished = await self._worker.run_group(GroupJob(number, 0, number), planned, 0)
        for member in finished.group.members:
            if member.reward != 1.0 or not member.samples:
                raise RuntimeError(f"{member.outcome}, reward {member.reward}: {finished.lines.failures[:1]}")

    def cpu_s(self) -> float:
        times = [process.cpu_times() for process in self._processes]
        return sum(one.user + one.system for one in times)


@asynccontextmanager
async def _started(
    case: PlaceCase, folder: Path, url: str, row: JsonObject, server: type[VllmServer]
) -> AsyncIterator[WorkerInPlace]:
    config = _config(case, folder, url, server)
    rows = folder / f"{case.name}.jsonl"
    rows.write_bytes(orjson.dumps(row) + b"\n")
    before = set(_servers())
    engines = EngineHost(config, "policy_model", LOOPBACK, token_urlsafe()) if server.OWN_PROCESS else None
    if engines is not None:
        await engines.start()
    address = await engines.address() if engines is not None else None
    worker = RolloutWorker(config, WorkerSettings(GrpoSettings(), GroupSettings()), address)
    try:
        await worker.start()
        yield WorkerInPlace(worker, IndexedRows(config, rows, {}), [psutil.Process(), *(set(_servers()) - before)])
    finally:
        await worker.stop()
        if engines is not None:
            await engines.stop()


def _servers() -> list[psutil.Process]:
    below = psutil.Process().children(recursive=True)
    return [one for one in below if "paddock.server.child" in one.cmdline()]


def _config(case: PlaceCase, folder: Path, url: str, server: type[VllmServer]) -> Config:
    agent: JsonObject = {
        "resources_server": {"type": "resources_servers", "name": "environment"},
        "model_server": {"type": "models_servers", "name": "policy_model"},
    }
    if case.turns > 1:
        agent["functions"] = [f"{__name__}:look"]
    model = {"base_url": url, "model": "scripted", "tokenizer": str(folder / "model")}
    tree = {
        "environment": {"resources_servers": {SCRIPTED: {}}},
        "agent": {"agents": {"tools" if case.turns > 1 else "single_step": agent}},
        "policy_model": {"models_servers": {f"{__name__}:{server.__name__}": model}},
    }
    return load([], extra=tree, servers=())


def _row(case: PlaceCase) -> JsonObject:
    question = text(random.Random(1), case.row_chars)
    request: JsonObject = {"input": [{"role": "user", "content": question}], "temperature": 1.0}
    return {"responses_create_params": request, "answer": "yes"}


def _answers(case: PlaceCase, vocabulary: Vocabulary, end: int) -> list[list[int]]:
    call = f"<tool_call>\n{json.dumps({'name': 'look', 'arguments': {'path': 'a.py'}})}\n</tool_call>"
    thoughts = [text(random.Random(nth), SAMPLED_CHARS) for nth in range(case.turns)]
    texts = [f"<think>{thought}</think>{call}" for thought in thoughts[:-1]] + [f"<think>{thoughts[-1]}</think>yes"]
    return [[*vocabulary.encode(one), end] for one in texts]
