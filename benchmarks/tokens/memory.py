"""Memory of one server that holds idle rollouts, in a process of its own; and a call that reads its rollout from disk.

200 rollouts of 50 turns, each turn some 600 new ids and 250 sampled ones with their log-probs, default settings. One is
made, the others are copies of its file; the server starts anew, and each rollout makes its next call, which reads its
file, and one more. Floor of the reading: the file's lines parsed. Target: under 1 GB.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import orjson
import psutil

from benchmarks.tokens.scripted_rollout import TOOLS, ScriptedRollout, extend_history, turn_file
from paddock.http import Call
from paddock.server.exact import ExactServer
from paddock.types import JsonObject

ROLLOUTS = 200
TURNS = 50
SAMPLED = 250
RESULT_CHARS = 1630
"""600 ids with the template's."""


def measure() -> dict[str, Any]:
    """In a new process."""
    done = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import main; main()"], check=True, stdout=subprocess.PIPE
    )
    figures: dict[str, Any] = orjson.loads(done.stdout)
    return figures


async def _figures(folder: Path) -> dict[str, Any]:
    scripted = ScriptedRollout(TURNS + 2, sampled=SAMPLED, result_chars=RESULT_CHARS)
    secrets = [f"ro_{nth}" for nth in range(ROLLOUTS)]
    history = await _make_rollouts(folder, scripted, secrets)
    rss = psutil.Process().memory_info().rss
    server = scripted.server(folder, scripted.engine())
    await server.start()
    cold, warm = [], []
    for secret in secrets:
        scripted.rewind(TURNS)
        going_on = list(history)
        cold.append(await _call(server, secret, going_on, scripted.results[TURNS]))
        warm.append(await _call(server, secret, going_on, scripted.results[TURNS]))
    grown = psutil.Process().memory_info().rss - rss
    turns = server.store.turns(secrets[0])
    await server.stop()
    floor = [_parse(turn_file(folder, secret)) for secret in secrets]
    return {
        "rollouts": ROLLOUTS,
        "turns": TURNS,
        "prompt_ids": len(turns[1].prompt_ids or ()),
        "sampled_ids": len(turns[1].sampled_ids or ()),
        "rss_growth_mib": grown / 2**20,
        "kib_per_turn": grown / 1024 / (ROLLOUTS * len(turns)),
        "read_back_call_cpu_ms": median(cold),
        "next_call_cpu_ms": median(warm),
        "read_back_over_parsing": (median(cold) - median(warm)) / median(floor),
    }


async def _make_rollouts(folder: Path, scripted: ScriptedRollout, secrets: list[str]) -> list[JsonObject]:
    """Files of all rollouts; the history of each."""
    engine = scripted.engine()
    server = scripted.server(folder, engine)
    await server.start()
    history = list(scripted.question)
    for turn in range(TURNS):
        await _call(server, secrets[0], history, scripted.results[turn])
    await server.stop()
    data = turn_file(folder, secrets[0]).read_bytes()
    for secret in secrets[1:]:
        turn_file(folder, secret).write_bytes(data)
    return history


def _parse(file: Path) -> float:
    """CPU milliseconds."""
    cpu = time.process_time()
    for line in file.read_bytes().splitlines():
        orjson.loads(line)
    return (time.process_time() - cpu) * 1e3


async def _call(server: ExactServer[Any], secret: str, history: list[JsonObject], result: str) -> float:
    """CPU milliseconds."""
    cpu = time.process_time()
    body: JsonObject = {"model": "policy", "input": history, "tools": TOOLS, "temperature": 1.0}
    answer = await server.responses(body, Call(path={"secret": secret}))
    cpu = time.process_time() - cpu
    assert isinstance(answer, dict)  # no stream was asked for
    extend_history(history, answer["output"], result)
    return cpu * 1e3


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        figures = asyncio.run(_figures(Path(name) / "turns"))
    sys.stdout.buffer.write(orjson.dumps(figures))
