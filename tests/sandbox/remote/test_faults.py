"""What goes wrong between a client and a node: answers that are lost, clients and nodes that die."""

import asyncio
import signal
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress

import aiohttp
import pytest
from tests.sandbox.remote.conftest import TOKEN, LossyProxy, NodeFixture

from paddock.sandbox import (
    ExecRequest,
    Provider,
    SandboxError,
    SandboxGone,
    SandboxSettings,
    SandboxSpec,
    ShellRequest,
)
from paddock.sandbox.remote.client import RemoteProvider

pytestmark = pytest.mark.sandbox
ClientOf = Callable[..., RemoteProvider]
CLIENT = """
import asyncio, sys
from paddock.sandbox import SandboxSettings, SandboxSpec
from paddock.sandbox.remote.client import RemoteProvider

async def main(url, token, image):
    provider = RemoteProvider(SandboxSettings(nodes=(url,), lease_ttl_s=3), token=token)
    handle = await provider.create(SandboxSpec(image=image), request_id="same")
    print(handle.sandbox_id, flush=True)
    await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""


async def created(provider: Provider, image: str) -> str:
    return (await provider.create(SandboxSpec(image=image), request_id=uuid.uuid4().hex)).sandbox_id


async def out(provider: Provider, sandbox_id: str, script: str) -> bytes:
    request = ExecRequest(argv=["sh", "-c", script], timeout_s=30)
    return bytes((await provider.exec(sandbox_id, request, request_id=uuid.uuid4().hex)).stdout)


async def until(holds: Callable[[], bool], *, within_s: float = 15.0) -> None:
    async with asyncio.timeout(within_s):
        while not holds():
            await asyncio.sleep(0.02)


async def test_a_lost_answer_is_asked_for_again_and_nothing_is_done_twice(
    node: NodeFixture, proxy: tuple[str, LossyProxy], client_of: ClientOf, image: str
) -> None:
    url, lossy = proxy
    client = client_of(url)
    first = await created(client, image)
    lossy.losses = 1
    second = await created(client, image)
    assert {handle.sandbox_id for handle in node.provider.live()} == {first, second}
    for losses in (1, 3):
        lossy.losses = losses
        await out(client, first, "echo x >> /tmp/commands")
        assert lossy.losses == 0
    assert await out(client, first, "cat /tmp/commands") == b"x\nx\n"
    lossy.losses = 1
    shell = await client.open_shell(first, ShellRequest())
    lossy.losses = 1
    reading = await client.shell_run(first, shell, "echo x >> /tmp/lines; read a; echo got $a", wait_s=1)
    assert reading.running
    lossy.losses = 1
    await client.shell_type(first, shell, b"word\n")
    result = await client.shell_poll(first, shell, wait_s=10)
    assert b"got word" in bytes(result.output)
    assert await client.read(first, "/tmp/lines") == b"x\n"
    lossy.losses = 1
    await client.write(first, "/tmp/file", b"content")
    lossy.losses = 1
    assert await client.read(first, "/tmp/file") == b"content"
    lossy.losses = 1
    await client.snapshot(first, "kept")
    lossy.losses = 1
    await client.destroy(second)
    assert [handle.sandbox_id for handle in node.provider.live()] == [first]


@pytest.mark.slow
async def test_a_killed_client_loses_its_sandboxes_and_no_other_does(
    node: NodeFixture, client_of: ClientOf, image: str
) -> None:
    other = client_of(node.url)
    kept = (await other.create(SandboxSpec(image=image), request_id="same")).sandbox_id
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, node.url, TOKEN, image, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    lost = (await process.stdout.readline()).decode().strip()
    assert {handle.sandbox_id for handle in node.provider.live()} == {kept, lost}
    await asyncio.sleep(3.5)  # longer than its lease, which it renews
    assert len(node.provider.live()) == 2
    with pytest.raises(SandboxGone):
        other._sandboxes[lost] = other._sandboxes[kept]
        await out(other, lost, "true")
    process.send_signal(signal.SIGKILL)
    await process.wait()
    await until(lambda: {handle.sandbox_id for handle in node.provider.live()} == {kept})
    assert await out(other, kept, "echo here") == b"here\n"


@pytest.mark.slow
async def test_a_node_that_stops_is_the_machines_failure(node: NodeFixture, client_of: ClientOf, image: str) -> None:
    client = client_of(node.url, lease_ttl_s=2, answer_margin_s=1)
    sandbox = await created(client, image)
    running = asyncio.ensure_future(out(client, sandbox, "touch /tmp/started; sleep 25"))
    endless = asyncio.ensure_future(client.exec(sandbox, ExecRequest(argv=["sleep", "60"]), request_id="endless"))
    while True:
        try:
            await client.read(sandbox, "/tmp/started")
            break
        except FileNotFoundError:
            await asyncio.sleep(0.02)
    await node.stop()
    for task in (running, endless):
        with pytest.raises(SandboxError):
            await asyncio.wait_for(task, 20)
    with pytest.raises(SandboxError):
        await asyncio.wait_for(created(client, image), 20)
    await asyncio.wait_for(client.destroy(sandbox), 20)


@pytest.mark.slow
async def test_a_silent_node_is_given_up_in_the_time_of_a_lease(
    image: str, client_of: ClientOf, node: NodeFixture
) -> None:
    """It accepts, and never answers."""
    held: list[asyncio.StreamWriter] = []
    silent = False

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", int(node.url.rpartition(":")[2]))
        held.append(inner_writer)

        async def ask() -> None:
            while data := await reader.read(65536):
                if not silent:
                    inner_writer.write(data)

        asking = asyncio.ensure_future(ask())
        while data := await inner_reader.read(65536):
            writer.write(data)
        asking.cancel()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = client_of(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", lease_ttl_s=2, answer_margin_s=1)
    sandbox = await created(client, image)
    silent = True
    with pytest.raises(SandboxError, match="lease_ttl_s"):
        await asyncio.wait_for(client.exec(sandbox, ExecRequest(argv=["true"]), request_id="x"), 20)
    with pytest.raises(SandboxGone):
        await client.stats(sandbox)
    assert not client.live()
    await until(lambda: not node.provider.live())
    for writer in held:
        writer.close()
    server.close()


@pytest.mark.slow
async def test_a_command_outlives_a_cut_of_the_network(
    node: NodeFixture, proxy: tuple[str, LossyProxy], client_of: ClientOf, image: str
) -> None:
    url, lossy = proxy
    client = client_of(url)
    sandbox = await created(client, image)
    script = "echo x >> /tmp/starts; until [ -e /tmp/go ]; do sleep 0.05; done; cat /tmp/starts"
    running = asyncio.ensure_future(out(client, sandbox, script))
    while True:
        with suppress(FileNotFoundError):
            await client.read(sandbox, "/tmp/starts")
            break
    lossy.down = True
    lossy.cut()
    await asyncio.sleep(1)
    assert not running.done()
    await node.provider.write(sandbox, "/tmp/go", b"")
    lossy.down = False
    assert await running == b"x\n"


async def test_a_cancelled_command_is_ended_at_the_node(node: NodeFixture, client_of: ClientOf, image: str) -> None:
    client = client_of(node.url)
    sandbox = await created(client, image)
    running = asyncio.ensure_future(out(client, sandbox, "touch /tmp/started; sleep 25; touch /tmp/ended"))
    await asyncio.sleep(0.3)
    running.cancel()
    await asyncio.wait([running])
    assert b"sleep" not in await out(client, sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")


async def test_nobody_acts_without_token_and_lease(node: NodeFixture) -> None:
    async with aiohttp.ClientSession() as session:
        for path in ("/status", "/v1/sandboxes/x/stats"):
            async with session.get(node.url + path) as reply:
                assert reply.status == 401
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with session.get(node.url + "/v1/sandboxes/x/stats", headers=headers) as reply:
            assert (reply.status, (await reply.json())["error"]["kind"]) == (410, "lease_unknown")
        link = "/v1/sandboxes/x/tunnels/y/link"
        for own in ({}, headers):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(node.url + link, headers=own)
            assert refused.value.status == 403
        async with session.get(node.url + "/healthz") as reply:
            assert (reply.status, (await reply.json())["status"]) == (200, "ok")
        async with session.get(node.url + "/status", headers=headers) as reply:
            body = await reply.json()
            assert (body["sandboxes"], body["leases"]) == (0, 0)
            assert body["room"]["free"]["disk_mib"] > 0


@pytest.mark.slow
async def test_a_client_with_a_wrong_token_is_told(node: NodeFixture, image: str) -> None:
    client = RemoteProvider(SandboxSettings(nodes=(node.url,)), token="another")
    with pytest.raises(SandboxError, match="needs `Authorization") as refused:
        await created(client, image)
    assert (refused.value.kind, refused.value.retryable) == ("unauthorized", False)
    await client.close()


async def test_names_that_are_no_text_reach_the_sandbox(node: NodeFixture, client_of: ClientOf, image: str) -> None:
    client = client_of(node.url)
    sandbox = await created(client, image)
    await client.write(sandbox, "/tmp/\udcff & ?#=%41", b"content")
    assert await client.read(sandbox, "/tmp/\udcff & ?#=%41") == b"content"
    request = ExecRequest(argv=["cat", "/tmp/\udcff & ?#=%41"])
    assert bytes((await client.exec(sandbox, request, request_id="cat")).stdout) == b"content"
