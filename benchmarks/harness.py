"""Native harnesses beside a bare loop that calls the same endpoint: CPU time of one process per turn, and wall clock.

Ours is a harness with its toolbox over `RolloutModel` and our HTTP client; the floor builds the same requests from a
list, posts them over a raw connection and answers each call with the same text. The model is a scripted endpoint in a
process of its own that always calls the shell tool; commands end at once, in process, so no sandbox is measured.
Targets: less than 2 ms of CPU over the loop's in each turn, and at most twice the loop's at each length.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any, NamedTuple

import httpx
import orjson
import uvloop

from benchmarks.processes import running
from benchmarks.raw_http import RawConnection
from paddock.conformance.harnesses.tools import ShownTools
from paddock.harness import ExecOutput, RunLimits, ShellOutput, ShellSession, Task, make_harness
from paddock.http import Call, HttpPeer
from paddock.http.transport import make_client
from paddock.ports import free_port
from paddock.server.rollout_model import RolloutModel
from paddock.testing.native import WorkspaceWithoutPrograms
from paddock.types import JsonObject
from paddock.types.responses import calls

HARNESSES = ("codeact", "opencode", "codex")
SETTINGS: dict[str, JsonObject] = {"codex": {"profile": "codex_0_63"}}
"""A face whose shell tool runs each command to its end; the others' is a session with a terminal."""
TURNS = (50, 100, 200)
AT_ONCE = 64
AT_ONCE_TURNS = 50
DELAY_S = 0.05
ROUNDS = 5
LINE = "pytest -q tests/test_1.py"
WRITTEN = "".join(f"tests/test_1.py::test_{number} PASSED\n" for number in range(50)).encode()
"""What each command writes: 2 kB."""
PROMPT = "Please fix the bug. " * 100
Rollout = Callable[[httpx.AsyncClient, str, int], Awaitable[int]]


class InstantWorkspace(WorkspaceWithoutPrograms):
    """A workspace whose commands end at once."""

    workdir = "/testbed"

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> ExecOutput:
        return ExecOutput(0, WRITTEN)

    async def read(self, path: str) -> bytes:
        raise FileNotFoundError(path)

    async def write(self, path: str, data: bytes) -> None:
        return

    async def shell(self) -> ShellSession:
        return InstantShell()


class InstantShell:
    async def run(self, line: str, *, timeout_s: float | None = None, wait_s: float | None = None) -> ShellOutput:
        return ShellOutput(0, WRITTEN, InstantWorkspace.workdir)

    async def poll(self, *, wait_s: float = 0.0) -> ShellOutput:
        return ShellOutput(0, b"", InstantWorkspace.workdir)

    async def type(self, data: bytes, *, wait_s: float = 0.0) -> ShellOutput:
        return ShellOutput(0, b"", InstantWorkspace.workdir)

    async def interrupt(self) -> ShellOutput:
        return ShellOutput(0, b"", InstantWorkspace.workdir)

    async def close(self) -> None:
        return


class HarnessRound(NamedTuple):
    cpu_ms: float
    """CPU milliseconds of this process, per turn."""
    wall_s: float


def run() -> dict[str, Any]:
    return {
        "turns": TURNS,
        "result_bytes": len(WRITTEN),
        "alone": [case for name in HARNESSES for case in _alone(name)],
        "at_once": [_at_once(name) for name in HARNESSES],
    }


def _alone(name: str) -> list[dict[str, Any]]:
    """One rollout after the other, at each length."""
    with endpoint(name, delay_s=0.0) as url:
        _measure(_ours(name), url, TURNS[0])
        _measure(_bare(name), url, TURNS[0])
        return [_compare(name, url, turns, at_once=1) for turns in TURNS]


def _at_once(name: str) -> dict[str, Any]:
    with endpoint(name, delay_s=DELAY_S) as url:
        return {"rollouts": AT_ONCE, "delay_ms": DELAY_S * 1e3, **_compare(name, url, AT_ONCE_TURNS, at_once=AT_ONCE)}


def _compare(name: str, url: str, turns: int, *, at_once: int) -> dict[str, Any]:
    pairs = [
        (_measure(_ours(name), url, turns, at_once=at_once), _measure(_bare(name), url, turns, at_once=at_once))
        for _ in range(ROUNDS if at_once == 1 else 1)
    ]
    return {
        "harness": name,
        "turns": turns,
        "cpu_ms_per_turn": median(ours.cpu_ms for ours, _ in pairs),
        "floor_cpu_ms_per_turn": median(floor.cpu_ms for _, floor in pairs),
        "over_floor_ms": median(ours.cpu_ms - floor.cpu_ms for ours, floor in pairs),
        "cpu_ratio": median(ours.cpu_ms / floor.cpu_ms for ours, floor in pairs),
        "wall_s": median(ours.wall_s for ours, _ in pairs),
        "floor_wall_s": median(floor.wall_s for _, floor in pairs),
    }


@contextmanager
def endpoint(name: str, *, delay_s: float, line: str = LINE) -> Iterator[str]:
    """The scripted endpoint, which always calls the harness's shell tool."""
    call = ShownTools(_tools(name)).shell(line)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    words = ["--port", str(port), "--delay-s", str(delay_s), "--call", call["name"], call["arguments"]]
    with running(["paddock.testing.upstream", *words], f"{url}/v1/models"):
        yield url


def _ours(name: str) -> Rollout:
    async def rollout(client: httpx.AsyncClient, url: str, turns: int) -> int:
        model = RolloutModel(HttpPeer("model", client, url), Call(), secret="s", name="scripted")
        task = Task(prompt=PROMPT, system=PROMPT)
        harness = make_harness(name, SETTINGS.get(name))
        exit_ = await harness.run(task, InstantWorkspace(), model, RunLimits(max_turns=turns), lambda _step: None)
        if exit_.malformed or exit_.ended != "turn_limit":
            raise RuntimeError(f"{name} ended as {exit_}")
        return exit_.turns

    return rollout


def _bare(name: str) -> Rollout:
    tools = _tools(name)

    async def rollout(_client: httpx.AsyncClient, url: str, turns: int) -> int:
        history: list[JsonObject] = [{"role": "system", "content": PROMPT}, {"role": "user", "content": PROMPT}]
        async with RawConnection(url) as connection:
            for _ in range(turns):
                body = orjson.dumps({"model": "scripted", "input": history, "tools": tools})
                output = orjson.loads(await connection.post(f"{url}/r/s/v1/responses", body))["output"]
                history += output
                results = [
                    {"type": "function_call_output", "call_id": call.call_id, "output": WRITTEN.decode()}
                    for call in calls(output)
                ]
                history += results
        return turns

    return rollout


def _tools(name: str) -> list[JsonObject]:
    harness: Any = make_harness(name, SETTINGS.get(name))
    tools: list[JsonObject] = harness.profile.tools
    return tools


def _measure(rollout: Rollout, url: str, turns: int, *, at_once: int = 1) -> HarnessRound:
    async def run_all() -> None:
        async with make_client(max_connections=at_once) as client:
            done = await asyncio.gather(*(rollout(client, url, turns) for _ in range(at_once)))
            if set(done) != {turns}:
                raise RuntimeError(f"of {turns} turns {set(done)} were made")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        started, cpu = time.perf_counter(), time.process_time()
        runner.run(run_all())
        return HarnessRound((time.process_time() - cpu) * 1e3 / (turns * at_once), time.perf_counter() - started)
