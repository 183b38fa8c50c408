"""Claims about a tunnel seen from inside a real sandbox, whose image has a static shell and nothing else."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from paddock.sandbox import ExecRequest, Provider, SandboxError, SandboxSettings, SandboxSpec, open_provider
from paddock.sandbox.tunnel import Tunnel
from paddock.testing.sandboxes import sandbox_home, static_image, store_of

pytestmark = pytest.mark.sandbox
SECRET = "ro_5ec2e75ec2e75ec2e7"
REQUEST = "POST {path} HTTP/1.1\\r\\nHost: {host}\\r\\nContent-Length: 2\\r\\n\\r\\n{{}}"


class Inside(NamedTuple):
    provider: Provider
    sandbox_id: str
    tunnel: Tunnel
    upstream: Any

    async def sh(self, line: str) -> str:
        request = ExecRequest(argv=["/bin/sh", "-c", line], timeout_s=20, merge_stderr=True)
        done = await self.provider.exec(self.sandbox_id, request, request_id=line)
        return f"{bytes(done.stdout).decode()}[{done.exit_code}]"

    async def ask(self, path: str = "/v1/responses", host: str = "127.0.0.1") -> str:
        """By netcat, which keeps its side open as long as it has input."""
        return await self.sh(f"(printf '{REQUEST.format(path=path, host=host)}'; sleep 0.3) | nc 127.0.0.1 8765")


@pytest.fixture
async def inside(upstream: Any) -> AsyncIterator[Inside]:
    with sandbox_home() as home:
        try:
            image = static_image(store_of(home))
            provider = await open_provider(SandboxSettings(home=home, runtime="bubblewrap"))
        except (FileNotFoundError, SandboxError) as error:
            pytest.skip(str(error))
        try:
            handle = await provider.create(SandboxSpec(image=image), request_id="one")
            listener = await provider.tunnel(handle.sandbox_id, port=8765)
            async with Tunnel(listener, upstream, hidden=[SECRET]) as tunnel:
                yield Inside(provider, handle.sandbox_id, tunnel, upstream)
        finally:
            await provider.close()


async def test_a_static_shell_gets_a_streamed_answer_and_nothing_else(inside: Inside) -> None:
    inside.upstream.go = asyncio.Event()
    asking = asyncio.create_task(inside.ask())
    while not inside.upstream.asked:
        await asyncio.sleep(0.01)
    inside.upstream.go.set()
    answer = await asking
    inside.upstream.go = None
    assert "200" in answer.splitlines()[0]
    assert "data: 1" in answer and "data: 2" in answer
    assert inside.tunnel.base_url == "http://127.0.0.1:8765/v1"
    assert "data: 2" in await inside.sh(f"wget -q -O - --post-data '{{}}' {inside.tunnel.base_url}/chat/completions")
    for path, host in (
        ("/v1/files", "127.0.0.1"),
        ("/r/ro_other/turns", "127.0.0.1"),
        ("/v1/responses", "example.org"),
    ):
        assert " 403 " in (await inside.ask(path, host)).splitlines()[0]
    assert len(inside.upstream.asked) == 2
    for elsewhere in ("example.org", "192.0.2.1", "127.0.0.1:9999"):
        assert not (await inside.sh(f"wget -q -T 2 -O - http://{elsewhere}/")).endswith("[0]")
    await _no_secret(inside)
    await _others_have_their_own(inside)
    await inside.tunnel.close()
    assert "refused" in await inside.sh(f"wget -O - --post-data '{{}}' {inside.tunnel.base_url}/responses")


async def _others_have_their_own(inside: Inside) -> None:
    """Another rollout's sandbox has no way to this one's model."""
    handle = await inside.provider.create(SandboxSpec(image="static"), request_id="two")
    other = inside._replace(sandbox_id=handle.sandbox_id)
    assert "refused" in await other.sh(f"wget -O - --post-data '{{}}' {inside.tunnel.base_url}/responses")
    upstream = type(inside.upstream)()
    async with Tunnel(await inside.provider.tunnel(handle.sandbox_id, port=8765), upstream):
        assert "data: 2" in await other.sh(f"wget -q -O - --post-data '{{}}' {inside.tunnel.base_url}/responses")
    assert (len(upstream.asked), len(inside.upstream.asked)) == (1, 2)


async def _no_secret(inside: Inside) -> None:
    found = await inside.sh(
        f"for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do tr '\\0' '\\n' < $f | grep -v grep; done 2>/dev/null"
        f" | grep -c {SECRET[:4]}; find / -xdev -type f 2>/dev/null | while read f; do grep -l ro_5ec2e7 $f; done"
    )
    assert SECRET not in found
    assert "/" not in found
