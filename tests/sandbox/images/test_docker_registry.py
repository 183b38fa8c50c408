"""Claims about Debian's `docker-registry`: pulled from as it is, also through a line that breaks."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx
import pytest
from tests.support.images import MANIFEST, Image, TarEntry, make_image, make_layer

from paddock.sandbox.failures import ImageMissing
from paddock.sandbox.images import ImageStore, Puller, RegistryOptions

BIG = 8_000_000


@pytest.fixture(scope="module")
def image() -> Image:
    layers = [make_layer([TarEntry("data", os.urandom(BIG))]), make_layer([TarEntry("bin/sh", b"#!", mode=0o755)])]
    return make_image(layers, config={"Env": ["A=1"], "WorkingDir": "/w"})


@pytest.fixture
async def name(docker_registry: str, image: Image) -> str:
    """An image that lies in the registry."""
    async with httpx.AsyncClient(base_url=f"http://{docker_registry}", trust_env=False) as client:
        for digest, blob in image.blobs.items():
            started = await client.post("/v2/t/big/blobs/uploads/")
            url = httpx.URL(started.headers["location"]).copy_merge_params({"digest": digest})
            assert (await client.put(url, content=blob)).status_code == 201
        headers = {"content-type": MANIFEST}
        put = await client.put("/v2/t/big/manifests/v1", content=image.manifest, headers=headers)
        assert put.status_code == 201
    return "t/big:v1"


class Line:
    """A TCP line to a registry that breaks once, after so many bytes of answers."""

    def __init__(self, to: str, cut_after: int) -> None:
        self.host, _, port = to.partition(":")
        self.port = int(port)
        self.cut_after = cut_after
        self.carried = 0
        self.ranges: list[bytes] = []
        self.cuts = 0
        self.serving: set[asyncio.Task[None]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving.add(asyncio.create_task(self.serve(reader, writer)))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, up = await asyncio.open_connection(self.host, self.port)
        asked = asyncio.create_task(self._ask(reader, up))
        with suppress(ConnectionError):
            while data := await upstream.read(1 << 16):
                self.carried += len(data)
                if not self.cuts and self.carried > self.cut_after:
                    self.cuts += 1
                    break
                writer.write(data)
                await writer.drain()
        asked.cancel()
        for one in (writer, up):
            one.close()
            with suppress(ConnectionError):
                await one.wait_closed()

    async def _ask(self, reader: asyncio.StreamReader, up: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            self.ranges += re.findall(rb"(?i)range: (.*)\r\n", data)
            up.write(data)
            await up.drain()
        up.close()


@asynccontextmanager
async def breaking(to: str, cut_after: int) -> AsyncIterator[tuple[Line, str]]:
    line = Line(to, cut_after)
    server = await asyncio.start_server(line.accept, "127.0.0.1", 0)
    async with server:
        yield line, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.gather(*line.serving)


@pytest.mark.slow
async def test_an_image_is_pulled_by_tag_and_by_digest(
    store: ImageStore, options: RegistryOptions, docker_registry: str, name: str, image: Image
) -> None:
    async with Puller(store, options) as puller:
        by_tag = await puller.pull(f"{docker_registry}/{name}")
        by_digest = await puller.pull("mine", f"docker://{docker_registry}/t/big@{image.digest}")
    for found in (by_tag, by_digest):
        assert found.record.env == {"A": "1"}
        assert (found.layers[0] / "data").stat().st_size == BIG
    assert store.names() == sorted([f"{docker_registry}/{name}", "mine"])


async def test_a_line_that_breaks_costs_no_byte_twice(
    store: ImageStore, options: RegistryOptions, docker_registry: str, name: str, image: Image
) -> None:
    async with breaking(docker_registry, cut_after=3_000_000) as (line, host), Puller(store, options) as puller:
        await puller.pull("mine", f"docker://{host}/{name}")
    (resumed,) = line.ranges
    start = int(resumed[len("bytes=") : -1])
    assert 2_000_000 < start <= 3_000_000
    whole = sum(len(blob) for blob in image.blobs.values())
    # Headers, and the last read, which was counted and not handed on.
    assert line.carried < whole + len(image.manifest) + 8_000 + (1 << 16)
    assert (store.get("mine").layers[0] / "data").stat().st_size == BIG


async def test_a_tag_that_is_not_there_is_missing(
    store: ImageStore, options: RegistryOptions, docker_registry: str
) -> None:
    async with Puller(store, options) as puller:
        with pytest.raises(ImageMissing, match="t/none"):
            await puller.pull(f"{docker_registry}/t/none:v1")
