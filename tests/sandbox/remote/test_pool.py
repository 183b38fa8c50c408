"""Several nodes, each with real sandboxes and a room of its own, and clients that place over them."""

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
from tests.sandbox.remote.conftest import TOKEN, NodeFixture, Serve

from paddock.errors import ConfigError
from paddock.sandbox import (
    ExecRequest,
    ImageMissing,
    Provider,
    SandboxError,
    SandboxGone,
    SandboxLimits,
    SandboxSettings,
    SandboxSpec,
)
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.tiny import tiny_image
from paddock.sandbox.remote.client import RemoteProvider

pytestmark = pytest.mark.sandbox
ClientOf = Callable[..., RemoteProvider]


async def created(provider: Provider, image: str, **limits: int) -> str:
    spec = SandboxSpec(image=image, limits=SandboxLimits(**limits))
    return (await provider.create(spec, request_id=uuid.uuid4().hex)).sandbox_id


async def out(provider: Provider, sandbox_id: str, script: str) -> bytes:
    request = ExecRequest(argv=["sh", "-c", script], timeout_s=30)
    return bytes((await provider.exec(sandbox_id, request, request_id=uuid.uuid4().hex)).stdout)


def live(node: NodeFixture) -> set[str]:
    return {handle.sandbox_id for handle in node.provider.live()}


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def other_home(homes: Path, image: str) -> Path:
    """A second home with the image."""
    home = homes / "other"
    assert tiny_image(ImageStore(home, payload_id=SandboxSettings().payload_id), rich=True) == image
    return home


@pytest.mark.slow
async def test_sandboxes_fill_both_nodes_and_the_next_waits_for_the_first_that_ends(
    home: Path, other_home: Path, serve: Serve, client_of: ClientOf, image: str
) -> None:
    one, other = await serve(home, max_sandboxes=2), await serve(other_home, max_sandboxes=1)
    client = client_of(one.url, other.url)
    made = await asyncio.gather(*(created(client, image) for _ in range(3)))
    assert (len(live(one)), len(live(other))) == (2, 1)
    assert {handle.sandbox_id for handle in client.live()} == set(made) == live(one) | live(other)
    for name in made:
        await client.write(name, "/tmp/name", name.encode())
    assert [await out(client, name, "cat /tmp/name") for name in made] == [name.encode() for name in made]
    waiting = [asyncio.ensure_future(created(client, image)) for _ in range(2)]
    await asyncio.sleep(0.5)
    assert not any(task.done() for task in waiting)
    (there,) = live(other)
    await client.destroy(there)
    await waiting[0]
    assert live(other) == {waiting[0].result()}
    assert not waiting[1].done()
    waiting[1].cancel()
    await client.destroy(waiting[0].result())
    await created(client, image)


async def test_clients_share_a_node_whose_room_it_decides_itself(
    home: Path, serve: Serve, client_of: ClientOf, image: str
) -> None:
    node = await serve(home, max_sandboxes=1)
    first, second = client_of(node.url), client_of(node.url, lease_ttl_s=1)
    kept = await created(first, image)
    await second.why_not_ready()
    waiting = asyncio.ensure_future(created(second, image))
    bounded = asyncio.ensure_future(asyncio.wait_for(created(second, image), 0.5))
    with pytest.raises(TimeoutError):
        await bounded
    assert not waiting.done()
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession() as session, session.get(node.url + "/status", headers=headers) as reply:
        room = (await reply.json())["room"]
        assert (room["free"]["sandboxes"], room["admission"]["max_sandboxes"]) == (0, 1)
    await first.destroy(kept)
    assert {await waiting} == live(node)


async def test_a_refusal_says_what_is_free_and_how_many_wait(
    home: Path, serve: Serve, client_of: ClientOf, image: str
) -> None:
    node = await serve(home, max_sandboxes=1)
    client = client_of(node.url, lease_ttl_s=1)
    await created(client, image)
    waiting = [asyncio.ensure_future(created(client, image)) for _ in range(2)]
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        async with session.post(node.url + "/v1/leases", json={"ttl_s": 60}) as reply:
            lease = {"x-paddock-lease": (await reply.json())["lease_id"]}
        async with asyncio.timeout(20):
            while True:
                own = {**lease, "x-paddock-call": uuid.uuid4().hex}
                async with session.post(node.url + "/v1/sandboxes", json={"image": image}, headers=own) as reply:
                    assert reply.status == 409
                    error = (await reply.json())["error"]
                assert (error["kind"], error["retryable"]) == ("node_full", True)
                assert error["room"]["free"]["sandboxes"] == 0
                if error["room"]["waiting"] == 2:
                    break
                await asyncio.sleep(0.1)
        assert "2 wait" in error["message"]
    for task in waiting:
        task.cancel()


@pytest.mark.slow
async def test_all_nodes_together_hold_no_more_than_the_client_may(
    home: Path, other_home: Path, serve: Serve, client_of: ClientOf, image: str
) -> None:
    nodes = await serve(home), await serve(other_home)
    client = client_of(*(node.url for node in nodes), max_sandboxes=2)
    made = [asyncio.ensure_future(created(client, image)) for _ in range(3)]
    await asyncio.gather(*made[:2])
    await asyncio.sleep(0.3)
    assert sum(len(live(node)) for node in nodes) == 2
    await client.destroy(made[0].result())
    await made[2]


@pytest.mark.slow
async def test_a_sandbox_goes_where_its_image_is(
    home: Path, homes: Path, serve: Serve, client_of: ClientOf, image: str
) -> None:
    store = ImageStore(homes / "bare", payload_id=SandboxSettings().payload_id)
    one, bare = await serve(home, max_sandboxes=2), await serve(homes / "bare")
    client = client_of(one.url, bare.url)
    kept = await created(client, image)
    assert {kept} == live(one)
    with pytest.raises(ImageMissing, match=r"no node has this image"):
        await created(client, "unheard-of")
    assert await client.snapshot(kept, "forked") == "forked"
    assert len({await created(client, "forked")} & live(one)) == 1
    late = store.add("late", lambda tree: tree.mkdir(exist_ok=True), base=tiny_image(store, rich=True))
    assert {await created(client, late.record.name)} == live(bare)
    store.remove("late")
    with pytest.raises(ImageMissing):
        await created(client, "late")


async def test_what_no_node_could_hold_is_a_mistake_of_who_asks(
    home: Path, serve: Serve, client_of: ClientOf, image: str
) -> None:
    node = await serve(home, memory_mib=500, memory_per_sandbox_mib=None)
    client = client_of(node.url)
    await created(client, image, memory_mib=400)
    with pytest.raises(ConfigError, match=r"600 MiB.*never fits"):
        await created(client, image, memory_mib=600)


@pytest.mark.slow
async def test_a_node_that_goes_takes_its_sandboxes_alone_and_is_used_again_when_it_is_back(
    home: Path, other_home: Path, serve: Serve, client_of: ClientOf, image: str
) -> None:
    one, other = await serve(home, max_sandboxes=2), await serve(other_home, max_sandboxes=2)
    client = client_of(one.url, other.url, lease_ttl_s=2, answer_margin_s=5)
    made = [await created(client, image) for _ in range(2)]
    (lost,), (kept,) = live(one), live(other)
    assert {lost, kept} == set(made)
    await one.stop()
    with pytest.raises(SandboxError) as failure:
        await out(client, lost, "true")
    assert failure.value.retryable
    with pytest.raises(SandboxGone):
        await client.stats(lost)
    assert await out(client, kept, "echo here") == b"here\n"
    assert await created(client, image) in live(other)
    waiting = asyncio.ensure_future(created(client, image))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    back = await serve(home, port=int(one.url.rpartition(":")[2]), max_sandboxes=1)
    assert {await waiting} == live(back)
    await client.destroy(lost)
    assert await client.why_not_ready() is None
