"""Container images in memory, and a registry that fails on cue: real HTTP on loopback, counted.

Image   `make_image([layer, ...])` with layers from `make_layer`; every blob by its digest.
Faults  `registry.faults[path part]` is a list of what happens to the next answers whose path holds that part: a status,
        `RetryLater(s)`: a 503 that asks for so much patience, or `CutBody(n)`: the connection ends after n bytes of the
        body.
"""

import gzip
import hashlib
import io
import json
import re
import tarfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from paddock.types import JsonObject

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


class TarEntry(NamedTuple):
    """One member of a layer."""

    name: str
    content: bytes = b""
    type: bytes = tarfile.REGTYPE
    link: str = ""
    mode: int = 0o644
    device: tuple[int, int] = (0, 0)


class Image(NamedTuple):
    """An image: its manifest, and every blob by digest."""

    manifest: bytes
    blobs: dict[str, bytes]
    layers: tuple[str, ...]
    """Digests of the layers."""

    @property
    def digest(self) -> str:
        return digest_of(self.manifest)


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def make_layer(entries: Iterable[TarEntry]) -> bytes:
    """A layer's plain tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for entry in entries:
            member = tarfile.TarInfo(entry.name)
            member.type, member.linkname, member.mode = entry.type, entry.link, entry.mode
            member.devmajor, member.devminor = entry.device
            member.size, member.mtime = len(entry.content), 1_000_000_000
            member.uid, member.gid = 12345, 54321
            tar.addfile(member, io.BytesIO(entry.content))
    return buffer.getvalue()


def make_image(
    tars: Iterable[bytes], *, config: JsonObject | None = None, arch: str = "amd64", media_type: str = LAYER
) -> Image:
    """An image of layers, gzipped where the media type says so."""
    plain = list(tars)
    packed = [gzip.compress(tar, 1, mtime=0) if media_type.endswith("gzip") else tar for tar in plain]
    described = {
        "architecture": arch,
        "os": "linux",
        "config": config or {},
        "rootfs": {"type": "layers", "diff_ids": [digest_of(tar) for tar in plain]},
    }
    body = json.dumps(described).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": CONFIG, "digest": digest_of(body), "size": len(body)},
        "layers": [{"mediaType": media_type, "digest": digest_of(blob), "size": len(blob)} for blob in packed],
    }
    blobs = {digest_of(blob): blob for blob in (body, *packed)}
    return Image(json.dumps(manifest).encode(), blobs, tuple(digest_of(blob) for blob in packed))


class CutBody(NamedTuple):
    """The connection ends after so many bytes of the body."""

    after: int


class RetryLater(NamedTuple):
    """Not now: ask again after so many seconds."""

    after_s: int


Fault = int | CutBody | RetryLater


class RegistryRequest(NamedTuple):
    """One request."""

    path: str
    range: str | None
    authorization: str | None


class ScriptedRegistry:
    """A registry of images by `repository:tag`."""

    def __init__(self) -> None:
        self.images: dict[str, Image] = {}
        self.manifests: dict[str, bytes] = {}
        """More manifests, such as lists, by `repository:reference`."""
        self.faults: dict[str, list[Fault]] = defaultdict(list)
        self.requests: list[RegistryRequest] = []
        self.sent: Counter[str] = Counter()
        """Bytes of bodies sent, by path."""
        self.busiest = 0
        """Blobs that were being sent at once."""
        self.pause_s = 0.0
        """Before each blob."""
        self.ranges = True
        """Whether it can resume."""
        self.token: str | None = None
        """When set, only this bearer token is let in; `/token` gives it for `user:secret`."""
        self.redirects: dict[str, str] = {}
        """Hosts to which requests are sent on, with their path, by a part of it."""
        self.corrupt = False
        """Blobs are sent with a wrong first byte."""
        self.host = ""
        self._sending = 0
        self._lock = threading.Lock()

    def blob(self, digest: str) -> bytes | None:
        return next((image.blobs[digest] for image in self.images.values() if digest in image.blobs), None)

    def manifest(self, repository: str, reference: str) -> bytes | None:
        if (body := self.manifests.get(f"{repository}:{reference}")) is not None:
            return body
        if (image := self.images.get(f"{repository}:{reference}")) is not None:
            return image.manifest
        return next((image.manifest for image in self.images.values() if image.digest == reference), None)

    @contextmanager
    def sending(self) -> Iterator[None]:
        with self._lock:
            self._sending += 1
            self.busiest = max(self.busiest, self._sending)
        try:
            yield
        finally:
            with self._lock:
                self._sending -= 1

    def fault(self, path: str) -> Fault | None:
        with self._lock:
            for part, faults in self.faults.items():
                if part in path and faults:
                    return faults.pop(0)
        return None


@contextmanager
def scripted_registry() -> Iterator[ScriptedRegistry]:
    """A registry that listens on loopback."""
    registry = ScriptedRegistry()

    class ScriptHandler(_RegistryHandler):
        script = registry

    with _RegistryServer(("127.0.0.1", 0), ScriptHandler) as server:
        registry.host = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()


class _RegistryServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no event here."""


class _RegistryHandler(BaseHTTPRequestHandler):
    script: ScriptedRegistry
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        script = self.script
        request = RegistryRequest(self.path, self.headers.get("range"), self.headers.get("authorization"))
        script.requests.append(request)
        fault = script.fault(self.path)
        if isinstance(fault, int):
            self._answer(fault, b"", {"retry-after": "0"})
        elif isinstance(fault, RetryLater):
            self._answer(503, b"", {"retry-after": str(fault.after_s)})
        elif self.path.startswith("/token"):
            granted = request.authorization == "Basic dXNlcjpzZWNyZXQ="
            self._answer(200 if granted else 401, json.dumps({"token": script.token}).encode() if granted else b"")
        elif script.token is not None and request.authorization != f"Bearer {script.token}":
            self._answer(401, b"", {"www-authenticate": f'Bearer realm="http://{script.host}/token",service="here"'})
        elif (host := next((host for part, host in script.redirects.items() if part in self.path), None)) is not None:
            self._answer(307, b"", {"location": f"http://{host}{self.path}"})
        elif match := re.fullmatch(r"/v2/(.+)/manifests/(.+)", self.path):
            body = script.manifest(match[1], match[2])
            self._answer(200 if body else 404, body or b"")
        elif match := re.fullmatch(r"/v2/(.+)/blobs/(.+)", self.path):
            with script.sending():
                time.sleep(script.pause_s)
                self._blob(script.blob(match[2]), request, fault)
        else:
            self._answer(200, b"{}")

    def _blob(self, body: bytes | None, request: RegistryRequest, cut: CutBody | None) -> None:
        if body is None:
            self._answer(404, b"")
            return
        if self.script.corrupt:
            body = b"?" + body[1:]
        start = int(request.range.removeprefix("bytes=").rstrip("-")) if request.range and self.script.ranges else 0
        headers = {"content-range": f"bytes {start}-{len(body) - 1}/{len(body)}"} if start else {}
        self._answer(206 if start else 200, body[start:], headers, cut=cut)

    def _answer(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, cut: CutBody | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        sent = body if cut is None else body[: cut.after]
        self.wfile.write(sent)
        self.script.sent[self.path] += len(sent)
        if cut is not None:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass
