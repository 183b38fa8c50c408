"""Groups of 16 that are compared in pairs, beside the same questions put to the bare judge in the same run.

Judge   the scripted one, without delay, in a process of its own behind HTTP. Loop and collector are those of
        `paddock eval`.
Floor   the same questions over raw connections, with no HTTP library.
Ours    members of `GROUPS_AT_ONCE` groups arrive together at the server, which runs in this process; circular.
Figures medians over rounds, ratios medians of the rounds' ratios. `in_flight`: the most questions that were open
        at once.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import orjson

from benchmarks.raw_http import RawConnection
from paddock.config import load
from paddock.http import PLAIN_RESPONSES, VERIFY, Call, Peer, Route, VerifyRequest
from paddock.server.loops import loop_factory, spare_collector
from paddock.server.runtime import Runtime, open_runtime
from paddock.types import JsonObject, Row, Stamp
from paddock.types.responses import make_response, message_item

ROUNDS, GROUPS, GROUPS_AT_ONCE, SIZE = 7, 96, 16, 16
CONVERSATION_CHARS, ANSWER_CHARS = 4000, 2000


class JudgeRound(NamedTuple):
    seconds: float
    cpu_s: float
    """CPU seconds of this process."""
    in_flight: int


class CountingPeer:
    """A peer that counts, and keeps its first requests."""

    def __init__(self, peer: Peer) -> None:
        self.name = peer.name
        self.most = 0
        self.bodies: list[JsonObject] = []
        self._peer = peer
        self._open = 0

    async def call(self, route: Route[Any, Any], request: Any, call: Call, **path: str) -> Any:
        self._open += 1
        self.most = max(self.most, self._open)
        if len(self.bodies) < GROUPS * SIZE:
            self.bodies.append(request)
        try:
            return await self._peer.call(route, request, call, **path)
        finally:
            self._open -= 1


def run() -> dict[str, Any]:
    spare_collector()
    with asyncio.Runner(loop_factory=loop_factory()) as runner, tempfile.TemporaryDirectory() as folder:
        return runner.run(_run(folder))


async def _run(folder: str) -> dict[str, Any]:
    judge = {"paddock.testing.judges:ScriptedJudge": {"prefers": "hash", "keep_seen": 0, "python": sys.executable}}
    settings = {"genrm_model_server": {"type": "models_servers", "name": "judge"}, "state_dir": folder}
    tree = {
        "serve": {"loopback_token": False},
        "genrm": {"resources_servers": {"genrm": settings}},
        "judge": {"models_servers": judge},
    }
    async with open_runtime(load([], extra=tree)) as runtime:
        judge_peer = CountingPeer(runtime.peers["judge"])
        runtime.peers["judge"] = judge_peer
        await _groups(runtime, _members_of_all("warm-up"))
        pairs = []
        for nth in range(ROUNDS):
            requests = _members_of_all(f"round-{nth}")
            judge_peer.most = 0
            ours = await _measure(_groups(runtime, requests), judge_peer)
            judge_peer.most = 0
            pairs.append((ours, await _measure(_bare(judge_peer, runtime.servers["judge"].url or ""), judge_peer)))
    return _figures(pairs)


async def _measure(work: Awaitable[None], judge_peer: CountingPeer) -> JudgeRound:
    started, cpu = time.perf_counter(), time.process_time()
    await work
    return JudgeRound(time.perf_counter() - started, time.process_time() - cpu, judge_peer.most)


async def _groups(runtime: Runtime, requests: list[list[VerifyRequest]]) -> None:
    """All groups of one round, some at once."""

    async def one(members: list[VerifyRequest]) -> None:
        await asyncio.gather(*(runtime.peers["genrm"].call(VERIFY, request, Call()) for request in members))

    await _at_once(GROUPS_AT_ONCE, (partial(one, members) for members in requests))


async def _bare(judge: CountingPeer, url: str) -> None:
    """The same questions, as many at once as members wait above."""
    bodies = iter([orjson.dumps(body) for body in judge.bodies])

    async def worker() -> None:
        async with RawConnection(url) as connection:
            judge.most += 1
            for body in bodies:
                await connection.post(f"{url}{PLAIN_RESPONSES.path}", body)

    await asyncio.gather(*(worker() for _ in range(GROUPS_AT_ONCE * SIZE)))


async def _at_once(limit: int, work: Iterator[Callable[[], Awaitable[Any]]]) -> None:
    async def worker() -> None:
        for begin in work:
            await begin()

    await asyncio.gather(*(worker() for _ in range(limit)))


def _members_of_all(run_id: str) -> list[list[VerifyRequest]]:
    """Requests of fresh groups: the judge has answered nothing of them."""
    return [_members(run_id, group_id) for group_id in range(GROUPS)]


def _members(run_id: str, group_id: int) -> list[VerifyRequest]:
    draw = random.Random(f"{run_id} {group_id}")
    question = _text(draw, CONVERSATION_CHARS)
    stamps = [Stamp(run_id=run_id, group_id=group_id, group_size=SIZE, member=nth, attempt=0) for nth in range(SIZE)]
    rows = [Row(responses_create_params={"input": question}, stamp=stamp) for stamp in stamps]
    answers = [make_response([message_item(_text(draw, ANSWER_CHARS))], {}, model="policy") for _ in rows]
    return [VerifyRequest(row=row, response=response) for row, response in zip(rows, answers, strict=True)]


def _text(draw: random.Random, chars: int) -> str:
    words = [f"{draw.getrandbits(32):x}" for _ in range(chars // 9 + 1)]
    return " ".join(words)[:chars]


def _figures(pairs: list[tuple[JudgeRound, JudgeRound]]) -> dict[str, Any]:
    answers = GROUPS * SIZE
    ours, bare = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return {
        "groups_of_16_per_s": median(GROUPS / one.seconds for one in ours),
        "answers_per_s": median(answers / one.seconds for one in ours),
        "bare_answers_per_s": median(answers / one.seconds for one in bare),
        "ratio": median(b.seconds / a.seconds for a, b in pairs),
        "in_flight": max(one.in_flight for one in ours),
        "bare_in_flight": max(one.in_flight for one in bare),
        "cpu_ms_per_answer": median(1000 * one.cpu_s / answers for one in ours),
        "bare_cpu_ms_per_answer": median(1000 * one.cpu_s / answers for one in bare),
    }
