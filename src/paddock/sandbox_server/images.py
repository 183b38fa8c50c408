"""Images between nodes: a node gives those that it has, and fetches from its peers what it lacks.

Law     a layer is fetched once, whoever waits for it, under the id that it has there: what two images share is shared
        here too. It is unpacked as a registry's is, by entries that nobody vouches for, and its digest is checked. A
        name appears when all its layers are whole.
Errors  ImageMissing: neither this node nor a peer has it; SandboxError of kind `peer_unreachable`, `peer_damaged` or
        `node_unreadable`: what a peer says is held against what was asked.
"""

import asyncio
import tempfile
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from pydantic import Field, ValidationError, field_validator
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from paddock.errors import InfraError, PaddockError, boundary
from paddock.sandbox.failures import ImageInvalid, ImageMissing, SandboxError
from paddock.sandbox.images.build.stage import name_lock
from paddock.sandbox.images.single_layer import in_thread
from paddock.sandbox.images.store import ImageRecord, ImageStore, is_layer_id
from paddock.sandbox.images.unpack import UnpackTree, apply_layer, write_layer
from paddock.sandbox.remote import wire
from paddock.sandbox.remote.errors import error_to_wire, status_of
from paddock.sandbox.remote.http import Message, NodeHttp, UnreachableError
from paddock.sandbox.settings import check_node_url
from paddock.types import Record

FETCH_TIMEOUT_S = 3600.0
"""Seconds in which a node has to have an image that it was asked to fetch."""
CHUNK_BYTES = 1 << 20
_DAMAGED = ("image_damaged", "digest_mismatch")


class NodeImageSettings(Record):
    """Where a node finds images that it lacks."""

    peers: tuple[str, ...] = ()
    """URLs of nodes that are asked for an image, in this order; their token is that of `node_token_file`."""
    max_concurrent_fetches: int = Field(default=2, ge=1)
    """Images that are fetched at the same time."""

    @field_validator("peers")
    @classmethod
    def _urls(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for url in value:
            check_node_url(url)
        return value


class NodeImages:
    """The images of one node, and the way to those of its peers."""

    def __init__(self, store: ImageStore, peers: Sequence[NodeHttp], settings: NodeImageSettings) -> None:
        self.fetches = bool(peers)
        """Whether there is anybody to ask for what is lacking."""
        self._store = store
        self._peers = peers
        self._room = asyncio.Semaphore(settings.max_concurrent_fetches)

    async def ensure(self, name: str) -> None:
        """Have an image here, fetched from the first peer that has it."""
        if not self.fetches or await asyncio.to_thread(self._store.has, name):
            return
        async with self._room, name_lock(self._store, name):
            if not self._store.has(name):
                await self._fetch(name)

    async def close(self) -> None:
        for peer in self._peers:
            await peer.close()

    def add_to(self, app: Router) -> None:
        app.add_route(wire.IMAGE, _answering(self._record), methods=["GET"])
        app.add_route(wire.IMAGE, _answering(self._ensure), methods=["POST"])
        app.add_route(wire.LAYER, _answering(self._layer), methods=["GET"])

    async def _fetch(self, name: str) -> None:
        troubles = []
        for peer in self._peers:
            try:
                await self._fetch_from(peer, name)
                return
            except ImageMissing:
                continue
            except UnreachableError as error:
                troubles.append(f"{peer.url}: {error}")
        places = ", ".join(peer.url for peer in self._peers)
        if troubles:
            raise SandboxError(f"image {name!r} could not be fetched: {'; '.join(troubles)}", kind="peer_unreachable")
        raise ImageMissing(f"{name!r}: neither this node nor a peer has this image ({places})", kind="image_missing")

    async def _fetch_from(self, peer: NodeHttp, name: str) -> None:
        answer = await peer.send(Message("GET", wire.IMAGE + wire.query(name=name)), {})
        try:
            record = wire.decode(ImageRecord, answer.content(peer.url))
        except ValidationError as error:
            raise SandboxError(f"{peer.url}: is no node of sandboxes", kind="node_unreadable") from error
        if record.name != name or not all(map(is_layer_id, record.layers)):
            raise SandboxError(f"{peer.url}: answers with another record than {name!r}'s", kind="node_unreadable")
        for layer in record.layers:
            async with name_lock(self._store, layer):
                if self._store.layer(layer) is None:
                    await self._fetch_layer(peer, layer)
        await asyncio.to_thread(self._store.name, record)

    async def _fetch_layer(self, peer: NodeHttp, layer: str) -> None:
        with cast(BinaryIO, tempfile.TemporaryFile(dir=self._store.home)) as file:
            answer = await peer.download(wire.LAYER.format(layer=layer), file)
            answer.content(peer.url)
            digest = answer.headers.get(wire.DIGEST_HEADER)
            if digest is None:
                raise SandboxError(f"{peer.url}: layer {layer} comes without its digest", kind="node_unreadable")
            file.seek(0)
            what = f"layer {layer} of {peer.url}"

            def copy(stop: threading.Event) -> None:
                def fill(root: Path) -> None:
                    tree = UnpackTree(root, owner=self._store.payload_id, stop=stop, limits=self._store.limits)
                    apply_layer(tree, file, diff_id=digest, what=what, keep_removals=True)

                with boundary(InfraError, what, stage="image"):
                    self._store.copy_layer(layer, fill)

            try:
                await in_thread(copy)
            except ImageInvalid as error:
                if error.kind not in _DAMAGED:
                    raise
                # What came is not what the peer has: the machines' failure, and not the row's.
                raise SandboxError(error.message, kind="peer_damaged") from error

    async def _record(self, request: Request) -> Response:
        record = (await asyncio.to_thread(self._store.get, _name(request))).record
        return Response(wire.encode(record), media_type=wire.JSON)

    async def _ensure(self, request: Request) -> Response:
        name = _name(request)
        await self.ensure(name)
        await asyncio.to_thread(self._store.get, name)
        return Response(wire.encode(wire.Nothing()), media_type=wire.JSON)

    async def _layer(self, request: Request) -> Response:
        root = self._store.layer(request.path_params["layer"])
        if root is None:
            raise ImageMissing("no such layer", kind="image_missing")
        file = cast(BinaryIO, tempfile.TemporaryFile(dir=self._store.home))  # noqa: SIM115 - closed by the response
        try:
            tar = await in_thread(lambda _stop: write_layer(root, file))
            file.seek(0)
        except BaseException:
            file.close()
            raise
        headers = {wire.DIGEST_HEADER: tar.digest, "content-length": str(tar.size)}
        return _FileContent(file, headers)


async def ask_to_fetch(node: NodeHttp, name: str) -> None:
    """Have a node fetch an image that it lacks; returns when it is there."""
    try:
        message = Message("POST", wire.IMAGE + wire.query(name=name))
        answer = await node.send(message, {}, timeout_s=FETCH_TIMEOUT_S)
    except UnreachableError as error:
        raise SandboxError(f"{node.url}: {error}", kind="node_unreachable") from error
    answer.content(node.url)


def _name(request: Request) -> str:
    name = wire.parse_query(request.scope["query_string"]).get("name", "")
    if not name:
        raise ImageMissing("name: give an image's name", kind="image_missing")
    return name


class _FileContent(StreamingResponse):
    """The content of an open file, which is closed when it is sent, or its client has gone."""

    def __init__(self, file: BinaryIO, headers: dict[str, str]) -> None:
        super().__init__(iter(lambda: file.read(CHUNK_BYTES), b""), media_type=wire.BYTES, headers=headers)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await super().__call__(scope, receive, send)


def _answering(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint whose errors are answers that a client raises again."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except PaddockError as error:
            return JSONResponse(error_to_wire(error), status_of(error))

    return answer
