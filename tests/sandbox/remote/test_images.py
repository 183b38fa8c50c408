"""Images between nodes: one that lacks an image fetches it from a peer, each layer once, whole or not at all."""

import asyncio
import os
import stat
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.sandbox.remote.conftest import TOKEN, LossyProxy, NodeFixture, Serve

from paddock.sandbox import ExecRequest, ImageMissing, Provider, SandboxError, SandboxSettings, SandboxSpec
from paddock.sandbox.images import ImageStore
from paddock.sandbox.remote.client import RemoteProvider
from paddock.sandbox.remote.wire import DIGEST_HEADER

pytestmark = pytest.mark.sandbox
ClientOf = Callable[..., RemoteProvider]
WHITEOUT = (stat.S_IFCHR, 0)


def store_of(home: Path) -> ImageStore:
    return ImageStore(home, payload_id=SandboxSettings().payload_id)


@pytest.fixture(scope="module")
def changed(home: Path, image: str) -> str:
    """An image of two layers: the second changes, removes and hides what the first has."""
    store = store_of(home)

    def fill(tree: Path) -> None:
        (tree / "data").mkdir()
        (tree / "data" / "own").write_bytes(b"x" * 3_000_000)
        os.link(tree / "data" / "own", tree / "data" / "again")
        (tree / "data" / "link").symlink_to("/nowhere")
        (tree / os.fsdecode(b"data/\xff")).write_text("no UTF-8")
        (tree / "etc").mkdir()
        os.setxattr(tree / "etc", "user.overlay.opaque", b"y")
        (tree / "etc" / "only").write_text("this")
        (tree / "tmp").mkdir(mode=0o777)
        os.mknod(tree / "var", stat.S_IFCHR, os.makedev(0, 0))
        store.own([tree, *(Path(folder) / name for folder, dirs, files in os.walk(tree) for name in (*dirs, *files))])

    store.add("changed", fill, base=image, workdir="/data", env={"COLOUR": "blue"})
    return "changed"


async def created(provider: Provider, image: str) -> str:
    return (await provider.create(SandboxSpec(image=image), request_id=uuid.uuid4().hex)).sandbox_id


async def out(provider: Provider, sandbox_id: str, script: str) -> bytes:
    request = ExecRequest(argv=["sh", "-c", script], timeout_s=30)
    return bytes((await provider.exec(sandbox_id, request, request_id=uuid.uuid4().hex)).stdout)


def contents(tree: Path) -> dict[str, object]:
    """What a layer holds: by path, its kind and bytes, and whether it is opaque."""
    found: dict[str, object] = {}
    for folder, folders, files in os.walk(tree):
        for name in (*folders, *files):
            path = Path(folder) / name
            info = path.lstat()
            kind = stat.S_IFMT(info.st_mode)
            what: object = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
            opaque = "user.overlay.opaque" in os.listxattr(path, follow_symlinks=False)
            found[str(path.relative_to(tree))] = (kind, info.st_rdev, info.st_uid, info.st_nlink, what, opaque)
    return found


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes the removals of overlayfs")
async def test_a_node_fetches_what_it_lacks_and_it_is_the_same(
    home: Path, homes: Path, serve: Serve, client_of: ClientOf, changed: str, image: str
) -> None:
    peer = await serve(home)
    lacking = await serve(homes / "lacking", peers=[peer.url])
    client = client_of(lacking.url)
    made = await asyncio.gather(*(created(client, name) for name in (changed, changed, image)))
    there, here = store_of(home), store_of(homes / "lacking")
    assert here.get(changed).record == there.get(changed).record
    for own, theirs in zip(here.get(changed).layers, there.get(changed).layers, strict=True):
        assert contents(own) == contents(theirs)
    layers = {layer for name in (changed, image) for layer in there.get(name).record.layers}
    assert {folder.name for folder in (homes / "lacking" / "layers").iterdir()} == layers
    listing = await out(client, made[0], "cat /etc/*; ls -A /data | wc -l; ls /var; echo $COLOUR")
    assert listing.decode().split() == ["this4", "blue"]


@pytest.mark.slow
async def test_who_has_it_is_preferred_and_what_nobody_has_is_missing(
    home: Path, homes: Path, serve: Serve, client_of: ClientOf, image: str
) -> None:
    peer = await serve(home, max_sandboxes=1)
    lacking = await serve(homes / "roomy", peers=[peer.url])
    client = client_of(peer.url, lacking.url)
    first = await created(client, image)
    assert [handle.sandbox_id for handle in peer.provider.live()] == [first]
    second = await created(client, image)
    assert [handle.sandbox_id for handle in lacking.provider.live()] == [second]
    with pytest.raises(ImageMissing, match="neither this node nor a peer has this image"):
        await created(client_of(lacking.url), "none")


@pytest.mark.slow
async def test_a_fetch_that_breaks_leaves_nothing_and_is_made_again(
    home: Path, homes: Path, serve: Serve, client_of: ClientOf, changed: str, proxy: tuple[str, LossyProxy]
) -> None:
    url, lossy = proxy
    lacking = await serve(homes / "broken", peers=[url])
    client = client_of(lacking.url)
    lossy.down = True
    with pytest.raises(SandboxError, match="could not be fetched") as lost:
        await created(client, changed)
    assert (lost.value.kind, lost.value.retryable) == ("peer_unreachable", True)
    lossy.down, lossy.cut_after_bytes = False, 1_000_000
    with pytest.raises(SandboxError, match="could not be fetched"):
        await created(client, changed)
    assert store_of(homes / "broken").names() == []
    lossy.cut_after_bytes = None
    await created(client, changed)
    assert [path for path in (homes / "broken").iterdir() if path.is_file()] == []
    assert len(list((homes / "broken" / "layers").iterdir())) == len(store_of(home).get(changed).record.layers)


@pytest.mark.slow
async def test_images_are_spread_before_a_run(home: Path, homes: Path, serve: Serve, image: str) -> None:
    peer = await serve(home)
    nodes = [await serve(homes / name, peers=[peer.url]) for name in ("spread-1", "spread-2")]

    def spread(*names: str) -> "subprocess.CompletedProcess[str]":
        flags = [word for node in nodes for word in ("--node", node.url)]
        command = [sys.executable, "-m", "paddock", "images", "spread", *names, *flags]
        env = {**os.environ, "PADDOCK_TOKEN": TOKEN}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)

    done = await asyncio.to_thread(spread, image)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == sorted(f"{node.url}  {image}" for node in nodes)
    assert all(store_of(homes / name).has(image) for name in ("spread-1", "spread-2"))
    failed = await asyncio.to_thread(spread, "none")
    assert failed.returncode == 1
    assert failed.stderr.count("neither this node nor a peer has this image") == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("record", "content"),
    [
        ({"name": "other", "layers": []}, b""),
        ({"name": "asked", "layers": ["../../outside"]}, b""),
        ({"name": "asked", "layers": ["0" * 32]}, b"no tar of that digest"),
    ],
    ids=["another name", "a path", "other bytes"],
)
async def test_a_peer_that_lies_is_the_machines_failure_and_writes_nothing(
    homes: Path, serve: Serve, client_of: ClientOf, record: dict[str, object], content: bytes
) -> None:
    async def answer(request: web.Request) -> web.Response:
        if "layers" in request.path:
            return web.Response(body=content, headers={DIGEST_HEADER: "sha256:" + "0" * 64})
        return web.json_response(record)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as lying:
        node = await serve(homes / f"lied-{uuid.uuid4().hex}", peers=[str(lying.make_url("")).rstrip("/")])
        with pytest.raises(SandboxError) as lie:
            await created(client_of(node.url), "asked")
    assert lie.value.kind in ("node_unreadable", "peer_damaged")
    assert (node.provider.store.names(), outside(homes)) == ([], [])


def outside(homes: Path) -> list[Path]:
    return list(homes.rglob("*outside*"))


@pytest.mark.slow
async def test_no_name_reaches_outside_the_layers(node: NodeFixture, client_of: ClientOf) -> None:
    for name in ("..", "%2e%2e", "0" * 31, "../../etc"):
        assert node.provider.store.layer(name) is None
