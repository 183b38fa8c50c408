"""Claims about a tunnel seen from inside each runtime's sandboxes; their image has a static shell and nothing else."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from paddock.sandbox import ExecRequest, Provider, SandboxSettings, SandboxSpec
from paddock.sandbox.cgroups import find_cgroups
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.runtimes import RUNTIMES
from paddock.sandbox.tunnel import Tunnel
from paddock.testing.sandboxes import sandbox_home, static_image, store_of

pytestmark = pytest.mark.sandbox
PORT = 8765
SECRET = "ro_5ec2e75ec2e75ec2e7"
REQUEST = "POST {path} HTTP/1.1\\r\\nHost: {host}\\r\\nContent-Length: 2\\r\\n\\r\\n{{}}"
LOOK = (
    "for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do tr '\\0' '\\n' < $f; done 2>/dev/null | grep '[e]c2e7';"
    " find / -xdev -type f | while read f; do grep -l '[e]c2e7' $f; done; true"
)
"""What it prints has the secret in it; itself it has not."""


class SandboxClient(NamedTuple):
    """One rollout: its sandbox, and what its client reaches."""

    provider: Provider
    sandbox_id: str
    tunnel: Tunnel
    upstream: Any

    async def sh(self, line: str) -> str:
        request = ExecRequest(argv=["/bin/sh", "-c", line], timeout_s=20, merge_stderr=True)
        done = await self.provider.exec(self.sandbox_id, request, request_id=uuid.uuid4().hex)
        return f"{bytes(done.stdout).decode()}[{done.exit_code}]"

    async def ask(self, path: str = "/v1/responses", host: str = "127.0.0.1", *, keep: str = "sleep 0.3") -> str:
        """By netcat, which keeps its side open as long as it has input; what has come is at `/tmp/answer`."""
        asking = f"(printf '{REQUEST.format(path=path, host=host)}'; {keep}) | nc 127.0.0.1 {PORT} > /tmp/answer"
        return await self.sh(f"{asking}; cat /tmp/answer")

    async def call(self, port: int = PORT) -> str:
        return await self.sh(f"wget -q -O - --post-data '{{}}' http://127.0.0.1:{port}/v1/responses")


Rollout = Callable[..., Awaitable[SandboxClient]]


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    with sandbox_home() as folder:
        try:
            static_image(store_of(folder))
        except FileNotFoundError as error:
            pytest.skip(str(error))
        yield folder


@pytest.fixture(
    params=[
        pytest.param(make.name, marks=() if make.name in ("bubblewrap", "apptainer") else pytest.mark.slow)
        for make in RUNTIMES
    ]
)
async def rollout(request: pytest.FixtureRequest, home: Path, upstream: Any) -> AsyncIterator[Rollout]:
    """Opens rollouts over one provider; each has a client of its own."""
    runtime = next(make() for make in RUNTIMES if make.name == request.param)
    if missing := await asyncio.to_thread(runtime.missing):
        pytest.skip(f"{runtime.name}: {missing}")
    provider = LocalProvider(SandboxSettings(home=home), runtime, await asyncio.to_thread(find_cgroups))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(provider.close)

        async def begin(port: int = PORT) -> SandboxClient:
            handle = await provider.create(SandboxSpec(image="static"), request_id=uuid.uuid4().hex)
            behind = type(upstream)()
            tunnel = Tunnel(await provider.tunnel(handle.sandbox_id, port=port), behind, hidden=[SECRET])
            return SandboxClient(provider, handle.sandbox_id, await stack.enter_async_context(tunnel), behind)

        yield begin


@pytest.mark.slow
async def test_a_static_shell_gets_a_streamed_answer_and_nothing_else(rollout: Rollout) -> None:
    inside = await rollout()
    await _streamed(inside)
    assert inside.tunnel.base_url == f"http://127.0.0.1:{PORT}/v1"
    assert "data: 2" in await inside.call()
    assert len(inside.upstream.asked) == 2
    for path, host in (
        ("/v1/files", "127.0.0.1"),
        ("/r/ro_other/turns", "127.0.0.1"),
        ("/v1/responses", "example.org"),
    ):
        assert " 403 " in (await inside.ask(path, host)).splitlines()[0]
    for elsewhere in ("example.org", "192.0.2.1", "127.0.0.1:9999"):
        assert not (await inside.sh(f"wget -q -T 2 -O - http://{elsewhere}/")).endswith("[0]")
    assert len(inside.upstream.asked) == 2
    assert "ec2e7" not in await inside.sh("env")
    assert await inside.sh(LOOK) == "[0]"
    planted = await inside.sh(f"echo ec2e7 > /tmp/file; X=ec2e7 sleep 5 & sleep 0.2; {LOOK}")
    assert [found for found in ("X=ec2e7", "/tmp/file") if found not in planted.splitlines()] == []
    await inside.tunnel.close()
    assert "refused" in await inside.sh(f"wget -O - --post-data '{{}}' {inside.tunnel.base_url}/responses")


async def _streamed(inside: SandboxClient) -> None:
    """The first part is inside before the second was said."""
    inside.upstream.go = asyncio.Event()
    asking = asyncio.create_task(inside.ask(keep="while [ ! -e /tmp/end ]; do sleep 0.05; done"))
    answer = b""
    async with asyncio.timeout(60):
        while b"data: 1" not in answer:
            await asyncio.sleep(0.02)
            answer = await _answer(inside)
    assert b"200" in answer.splitlines()[0]
    assert b"data: 2" not in answer
    inside.upstream.go.set()
    async with asyncio.timeout(60):
        while b"data: 2" not in await _answer(inside):
            await asyncio.sleep(0.02)
    await inside.provider.write(inside.sandbox_id, "/tmp/end", b"")
    await asking
    inside.upstream.go = None


async def _answer(inside: SandboxClient) -> bytes:
    try:
        return await inside.provider.read(inside.sandbox_id, "/tmp/answer")
    except FileNotFoundError:
        return b""


async def test_rollouts_at_once_reach_each_its_own_model_and_no_other(rollout: Rollout) -> None:
    one, two, same = await asyncio.gather(rollout(), rollout(PORT + 1), rollout())
    for inside, own, other in ((one, PORT, PORT + 1), (two, PORT + 1, PORT)):
        assert "data: 2" in await inside.call(own)
        assert "refused" in await inside.sh(f"wget -O - --post-data '{{}}' http://127.0.0.1:{other}/v1/responses")
        assert await inside.sh("find / -xdev -type s") == "[0]"
    assert "data: 2" in await same.call()
    assert [len(inside.upstream.asked) for inside in (one, two, same)] == [1, 1, 1]
    await one.tunnel.close()
    assert "data: 2" in await same.call()
    assert not (await one.call()).endswith("[0]")
    assert [len(inside.upstream.asked) for inside in (one, two, same)] == [1, 1, 2]
