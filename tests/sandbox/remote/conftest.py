"""A node on loopback with real sandboxes, clients of it, and a proxy between them that loses answers on cue."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from paddock.sandbox import SandboxSettings
from paddock.sandbox.admission import AdmissionSettings
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.tiny import tiny_image
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.remote.client import RemoteProvider
from paddock.sandbox_server import serve_node
from paddock.sandbox_server.images import NodeImageSettings
from paddock.server.access import Access
from paddock.server.sockets import LOOPBACK, Address, bind

TOKEN = "of-the-node"


class NodeFixture(NamedTuple):
    """A node that serves."""

    url: str
    provider: LocalProvider
    stop: Callable[[], Awaitable[None]]


Serve = Callable[..., Awaitable[NodeFixture]]


class LossyProxy:
    """Passes bytes on between clients and a node; loses the start of an answer, and the connection, on cue."""

    def __init__(self, port: int) -> None:
        self.losses = 0
        """Answers that are still to be lost."""
        self.cut_after_bytes: int | None = None
        """An answer is cut once so much of it has passed."""
        self.down = False
        """New connections are closed at once."""
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        """Break all connections."""
        for task in self._tasks:
            task.cancel()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.down:
            writer.close()
            return
        inner_reader, inner_writer = await asyncio.open_connection(LOOPBACK, self._port)
        both = [self._pass(reader, inner_writer, answers=False), self._pass(inner_reader, writer, answers=True)]
        tasks = [asyncio.ensure_future(one) for one in both]
        self._tasks.update(tasks)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            writer.close()
            inner_writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool) -> None:
        passed = 0
        with suppress(OSError):
            while data := await reader.read(65536):
                passed += len(data)
                if answers and self.cut_after_bytes is not None and passed > self.cut_after_bytes:
                    return
                if answers and self.losses:
                    self.losses -= 1
                    return
                writer.write(data)
                await writer.drain()


@pytest.fixture(scope="module")
def homes() -> Iterator[Path]:
    """A folder for homes, where the payload's user can pass, unlike pytest's own."""
    if not shutil.which("bwrap"):
        pytest.skip("no bwrap")
    folder = Path(tempfile.mkdtemp(prefix="paddock-remote-", dir="/var/tmp"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def home(homes: Path) -> Path:
    return homes / "home"


@pytest.fixture(scope="module")
def image(home: Path) -> str:
    return tiny_image(ImageStore(home, payload_id=SandboxSettings().payload_id), rich=True)


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serves nodes: of a home, on a port or any, with the fields of their admission."""
    async with AsyncExitStack() as nodes:

        async def start(home: Path, *, port: int = 0, peers: Sequence[str] = (), **admission: float) -> NodeFixture:
            bound = bind("node", Address(LOOPBACK, port))
            settings = SandboxSettings(home=home, runtime="bubblewrap")
            room = AdmissionSettings(**{"memory_per_sandbox_mib": 1, **admission})
            stack = await nodes.enter_async_context(AsyncExitStack())
            images = NodeImageSettings(peers=tuple(peers))
            node = serve_node(settings, bound, access=Access(TOKEN), admission=room, images=images)
            return NodeFixture(bound.url, await stack.enter_async_context(node), stack.aclose)

        yield start


@pytest.fixture
async def node(home: Path, serve: Serve) -> NodeFixture:
    return await serve(home)


@pytest.fixture
async def proxy(node: NodeFixture) -> AsyncIterator[tuple[str, LossyProxy]]:
    """The URL of a proxy before the node, and the proxy."""
    lossy = LossyProxy(int(node.url.rpartition(":")[2]))
    server = await asyncio.start_server(lossy.serve, LOOPBACK, 0)
    yield f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}", lossy
    server.close()
    lossy.cut()
    await asyncio.sleep(0)


@pytest.fixture
async def client_of() -> AsyncIterator[Callable[..., RemoteProvider]]:
    """Makes clients of a URL, with settings."""
    clients: list[RemoteProvider] = []

    def make(*urls: str, **settings: Any) -> RemoteProvider:
        quick = {"node_health_s": 2.0, "node_poll_s": 0.1, **settings}
        clients.append(RemoteProvider(SandboxSettings(nodes=urls, **quick), token=TOKEN))
        return clients[-1]

    yield make
    for client in clients:
        await client.close()
