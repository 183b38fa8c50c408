"""Whatever comes on a keeper's socket: no error in the loop, no descriptor left, no process of the host signalled."""

import asyncio
import json
import os
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.sandbox.keeper import messages
from paddock.sandbox.keeper_client import KeeperClient
from paddock.sandbox.keeper_factory import KeeperProcess

OPS = [
    "ready",
    "started",
    "exited",
    "opened",
    "closed",
    "listening",
    "alive",
    "refused",
    "broken",
    "failed",
    "died",
    "x",
]
values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just([]), st.just({}))
ids = st.one_of(st.integers(0, 4), values)
answers = st.fixed_dictionaries(
    {"op": st.one_of(st.sampled_from(OPS), values)},
    optional={"id": ids, "pid": st.one_of(st.just(0), values), "code": values, "errno": values, "error": values},
)
bodies = st.one_of(answers.map(lambda answer: json.dumps(answer).encode()), st.binary(max_size=40))
packets = st.lists(st.tuples(bodies, st.integers(0, 10)), max_size=8)


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def play(sent: list[tuple[bytes, int]], canary: int) -> list[Any]:
    """What the event loop was told of."""
    troubles: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    messages.ask_for_senders(ours)
    with subprocess.Popen(["sleep", "60"]) as keeper, theirs:  # noqa: ASYNC220
        client = KeeperClient("one", KeeperProcess(ours, os.getpid(), os.pidfd_open(keeper.pid)), 60.0)
        asked = [
            asyncio.ensure_future(one)
            for one in (
                client.exec(["true"], {}, "/", []),
                client.open("/a", write=False),
                client.listen(1),
                client.alive(),
            )
        ]
        await asyncio.sleep(0)
        for body, n_fds in sent:
            body = body.replace(b'"pid": 0', f'"pid": {canary}'.encode())
            with suppress(OSError):
                socket.send_fds(theirs, [body], [theirs.fileno()] * n_fds)
        await asyncio.sleep(0.01)
        theirs.close()
        keeper.kill()
        await asyncio.wait_for(client.gone.wait(), 30)
        for result in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(result, socket.socket):
                result.close()
    return troubles


def run(sent: list[tuple[bytes, int]]) -> None:
    with subprocess.Popen(["sleep", "60"]) as canary:
        before = open_descriptors()
        assert asyncio.run(play(sent, canary.pid)) == []
        assert open_descriptors() == before
        assert canary.poll() is None
        canary.kill()


@pytest.mark.slow
@given(packets)
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
def test_any_packets_end_a_link_or_are_answers(sent: list[tuple[bytes, int]]) -> None:
    run(sent)


@pytest.mark.long
@given(packets)
@settings(max_examples=600, deadline=None, derandomize=True, database=None)
def test_very_many_packets_end_a_link_or_are_answers(sent: list[tuple[bytes, int]]) -> None:
    run(sent)
