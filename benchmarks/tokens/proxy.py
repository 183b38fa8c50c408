"""What the exact server adds to a call, over HTTP: client, server, upstream, beside the client at the upstream itself.

Calls of ours go on with rollouts whose record is there: histories of 5 to 200 turns, sent whole each time. The floor
asks the upstream with as many ids. Whole answers; and streams, whose ids say when they were sent. `cpu_ms`: of the
server alone, per call. Target: less than 1.5 ms added to the p50 of a call at one connection and 30 kB of history.
`forwarder_added_ms`: what a proxy adds that passes on and keeps nothing (`forwarder`), in turns with ours; it serves
nobody else where ours does.

A stream's first ids take longer, at the bare upstream and the forwarder too, where everything waited for milliseconds
before: the same code is slower then, whatever it is. So they are measured after streams whose chunks follow each other
at once, after chunks 2 ms apart, and after these while the server streams to other rollouts, as one in use does.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import orjson

from benchmarks.processes import running
from benchmarks.tokens.primed_calls import PrimedCalls, PrimedRollout
from benchmarks.tokens.scripted_rollout import TOOLS, ScriptedRollout, extend_history, turn_file
from benchmarks.tokens.wire import WireAnswer
from paddock.http import Call
from paddock.ports import free_port
from paddock.server.exact.language import TEMPLATES
from paddock.testing.vocabularies import write_model_folder
from paddock.types import JsonObject

TURNS = (5, 15, 50, 200)
"""15 turns are 30 kB."""
CONNECTIONS = (1, 16)
SAMPLED, RESULT_CHARS = 250, 1035
ROLLOUTS_ALONE = 24
"""One after the other, where there is one connection."""
CALLS = 5
"""How many calls each rollout makes, after one that reads its record from disk."""
PRIMED = "primed"
OTHERS_BEGIN_S = 2.0
"""They have all begun by then."""
CASE_TIMEOUT_S = 300.0
"""A case takes some seconds."""


class ProxyCase(NamedTuple):
    turns: int
    connections: int
    pace_us: int = 0
    """Between a stream's chunks of three ids; 0: whole answers."""
    others: int = 0
    """Rollouts that another client is streamed meanwhile."""

    @property
    def name(self) -> str:
        return "-".join(map(str, self))

    @property
    def secrets(self) -> list[str]:
        count = ROLLOUTS_ALONE if self.connections == 1 else self.connections
        return [f"{self.name}-{nth}" for nth in range(count)]

    @property
    def others_secrets(self) -> list[str]:
        return [f"{self.name}-other-{nth}" for nth in range(self.others)]


CASES = [
    *(ProxyCase(turns, connections) for turns in TURNS for connections in CONNECTIONS),
    *(ProxyCase(turns, 1, pace_us) for turns in TURNS for pace_us in (100, 2000)),
    ProxyCase(15, 1, 2000, others=8),
    ProxyCase(15, 16, 20_000),
]


def measure() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        primed = {turns: asyncio.run(_prime(folder / f"primed-{turns}", turns)) for turns in TURNS}
        store = folder / "turns"
        store.mkdir()
        for case in CASES:
            for secret in (*case.secrets, *case.others_secrets):
                turn_file(store, secret).write_bytes(primed[case.turns].data)
        prompts = folder / "prompts"
        prompts.mkdir()
        for turns in TURNS:
            (prompts / f"{turns}.json").write_bytes(orjson.dumps(primed[turns].prompt))
        with _servers(folder, store, prompts) as servers:
            return [_beside_others(case, primed[case.turns], servers, folder) for case in CASES]


async def _prime(folder: Path, turns: int) -> PrimedRollout:
    scripted = ScriptedRollout(turns, sampled=SAMPLED, result_chars=RESULT_CHARS)
    engine = scripted.engine()
    server = scripted.server(folder, engine)
    await server.start()
    history = list(scripted.question)
    for result in scripted.results:
        body: JsonObject = {"model": "scripted", "input": history, "tools": TOOLS}
        answer = await server.responses(body, Call(path={"secret": PRIMED}))
        assert isinstance(answer, dict)  # no stream was asked for
        extend_history(history, answer["output"], result)
    await server.stop()
    return PrimedRollout(history, engine.calls[-1].prompt, turn_file(folder, PRIMED).read_bytes())


class Servers(NamedTuple):
    """URLs and process ids."""

    ours: str
    ours_pid: int
    floor: str
    floor_pid: int
    forwarder: str


@contextmanager
def _servers(folder: Path, store: Path, prompts: Path) -> Iterator[Servers]:
    model = write_model_folder(folder / "model", chat_template=(TEMPLATES / "thinking.jinja").read_text("utf-8"))
    ours, upstream, forwarder = free_port(), free_port(), free_port()
    floor = f"http://127.0.0.1:{upstream}"
    block = {"base_url": floor, "model": "scripted", "tokenizer": str(model), "port": ours}
    block |= {"turn_store": {"folder": str(store)}, "log_probs": "any"}  # the upstream's pace is no temperature of 1
    config = folder / "proxy.yaml"  # JSON is YAML
    # The floor asks for no token.
    serve = {"loopback_token": False}
    config.write_bytes(
        orjson.dumps({"serve": serve, "proxy": {"models_servers": {"benchmarks.tokens.server:ProxyServer": block}}})
    )
    passing = ["--port", str(forwarder), "--upstream", floor, "--prompts", str(prompts)]
    with (
        running(["benchmarks.tokens.upstream", "--port", str(upstream)], f"{floor}/health") as upstream_process,
        running(["benchmarks.tokens.forwarder", *passing], f"http://127.0.0.1:{forwarder}/health"),
        running(["paddock", "serve", str(config)], f"http://127.0.0.1:{ours}/healthz") as our_process,
    ):
        yield Servers(
            f"http://127.0.0.1:{ours}", our_process.pid, floor, upstream_process.pid, f"http://127.0.0.1:{forwarder}"
        )


def _beside_others(case: ProxyCase, primed: PrimedRollout, servers: Servers, folder: Path) -> dict[str, Any]:
    if not case.others:
        return _measure_in_time(case, primed, servers)
    history = folder / "history.json"
    history.write_bytes(orjson.dumps(primed.history))
    argv = ["-m", "benchmarks.tokens.background_load", "--url", servers.ours, "--history", str(history)]
    with subprocess.Popen([sys.executable, *argv, "--secrets", *case.others_secrets], stdin=subprocess.PIPE) as others:
        time.sleep(OTHERS_BEGIN_S)
        answers = _measure_in_time(case, primed, servers)
        assert others.stdin is not None  # it is a pipe
        others.stdin.close()
    return answers


def _measure_in_time(case: ProxyCase, primed: PrimedRollout, servers: Servers) -> dict[str, Any]:
    return asyncio.run(asyncio.wait_for(_measure(case, primed, servers), CASE_TIMEOUT_S))


async def _measure(case: ProxyCase, primed: PrimedRollout, servers: Servers) -> dict[str, Any]:
    groups = [case.secrets] if case.connections > 1 else [[secret] for secret in case.secrets]
    our_answers: list[WireAnswer] = []
    floor_answers: list[WireAnswer] = []
    forwarder_answers: list[WireAnswer] = []
    cpu_ms = floor_cpu_ms = 0.0
    for secrets in groups:
        calls = [PrimedCalls(secret, primed, servers.ours, servers.floor, case.pace_us) for secret in secrets]
        forwarded = [
            PrimedCalls(str(case.turns), primed, servers.forwarder, servers.floor, case.pace_us) for _ in secrets
        ]
        await asyncio.gather(*(each.ours() for each in (*calls, *forwarded)))
        for _ in range(CALLS):
            cpu_ms -= _cpu_ms(servers.ours_pid)
            our_answers += await asyncio.gather(*(each.ours() for each in calls))
            cpu_ms += _cpu_ms(servers.ours_pid)
            floor_cpu_ms -= _cpu_ms(servers.floor_pid)
            floor_answers += await asyncio.gather(*(each.bare() for each in calls))
            floor_cpu_ms += _cpu_ms(servers.floor_pid)
            forwarder_answers += await asyncio.gather(*(each.ours() for each in forwarded))
        for each in (*calls, *forwarded):
            each.close()
    figures: dict[str, Any] = {
        "pace_us": case.pace_us,
        "others": case.others,
        "turns": case.turns,
        "kB": len(orjson.dumps(primed.history)) // 1000,
        "connections": case.connections,
        "first_ids_ms" if case.pace_us else "p50_ms": median(answer.ms for answer in our_answers),
        "floor_ms": median(answer.ms for answer in floor_answers),
        "added_ms": median(answer.ms for answer in our_answers) - median(answer.ms for answer in floor_answers),
        "added_p10_ms": _p10(our_answers) - _p10(floor_answers),
        "forwarder_added_ms": median(answer.ms for answer in forwarder_answers)
        - median(answer.ms for answer in floor_answers),
    }
    if not case.others:
        figures |= {"cpu_ms": cpu_ms / len(our_answers), "floor_cpu_ms": floor_cpu_ms / len(floor_answers)}
    if case.pace_us:
        figures["chunk_added_ms"] = _age(our_answers) - _age(floor_answers)
        figures["forwarder_chunk_added_ms"] = _age(forwarder_answers) - _age(floor_answers)
    return figures


def _age(answers: Sequence[WireAnswer]) -> float:
    return median(age for answer in answers for age in answer.ages_ms)


def _p10(answers: Sequence[WireAnswer]) -> float:
    """What it takes where nothing else runs on the machine."""
    return quantiles((answer.ms for answer in answers), n=10)[0]


def _cpu_ms(pid: int) -> float:
    """CPU milliseconds of a process's threads."""
    stats = (file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(int(stat.split()[0]) for stat in stats) / 1e6
