"""Many clients that ask the same at once, and what an exchange costs for each chunk of a stream.

Joined  identical requests of one rollout, all before the answer: the engine is asked once.
Chunks  an answer of many small batches, read through an `Exchange` by one client; the floor iterates over the same
        generator. CPU, medians of rounds.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from statistics import median
from typing import Any

import uvloop

from benchmarks.tokens.scripted_rollout import TOOLS, ScriptedRollout
from paddock.http import Call
from paddock.server.dialects import Answer, ItemDelta
from paddock.server.exchange import Batch, Exchange
from paddock.types import JsonObject

CLIENTS = 2000
CHUNKS = 5000
ROUNDS = 7


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        joined = runner.run(_joined_requests(Path(name)))
        pairs = [(runner.run(_exchange()), runner.run(_bare())) for _ in range(ROUNDS)]
    return {
        **joined,
        "exchange_us_per_chunk": median(ours for ours, _ in pairs),
        "floor_us_per_chunk": median(floor for _, floor in pairs),
    }


async def _joined_requests(folder: Path) -> dict[str, Any]:
    scripted = ScriptedRollout(1, sampled=250, result_chars=100)
    engine = scripted.engine()
    server = scripted.server(folder / "turns", engine)
    await server.start()
    body: JsonObject = {"model": "policy", "input": scripted.question, "tools": TOOLS}
    call = Call(path={"secret": "ro_joined"})
    cpu = time.process_time()
    answers = await asyncio.gather(*(server.responses(body, call) for _ in range(CLIENTS)))
    cpu = time.process_time() - cpu
    call_ids = {answer["output"][-1]["call_id"] for answer in answers if isinstance(answer, dict)}
    turns = len(server.store.turns("ro_joined"))
    await server.stop()
    if len(answers) != CLIENTS or len(call_ids) != 1 or turns != 1:
        raise RuntimeError(f"{CLIENTS} clients got {len(call_ids)} answers of {turns} turns")
    return {
        "clients": CLIENTS,
        "engine_calls": engine.n_started,
        "turns": turns,
        "cpu_ms_per_client": cpu * 1e3 / CLIENTS,
    }


async def _batches() -> AsyncGenerator[Batch, None]:
    for _ in range(CHUNKS):
        await asyncio.sleep(0)
        yield [ItemDelta(0, "text", "a")]
    yield [Answer([], "stop")]


async def _exchange() -> float:
    cpu = time.process_time()
    exchange = Exchange(_batches(), grace_s=0.0, on_end=lambda: None)
    reader = exchange.add_reader()
    count = 0
    while await reader.batch(15.0) is not None:
        count += 1
    reader.close()
    cpu = time.process_time() - cpu
    if count != CHUNKS + 1:
        raise RuntimeError(f"{count} batches of {CHUNKS + 1} were read")
    return cpu * 1e6 / CHUNKS


async def _bare() -> float:
    cpu = time.process_time()
    async for _ in _batches():
        pass
    return (time.process_time() - cpu) * 1e6 / CHUNKS
