"""A hub of data sets in memory, with the routes that the real client uses: HTTP on loopback, all requests recorded.

Repository  `hub.commit(repo, {name: bytes})` makes a commit and moves `main` to it; older commits stay. Files of more
            than `LARGE` bytes are listed by their SHA-256, as the hub does with large files, others by git's hash.
Faults      `hub.faults[part of a path]` is a list of what happens to the next downloads of such a path: a status, or
            `CutConnection(n)`: the connection ends after n bytes.
"""

import hashlib
import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

LARGE = 1000


class CutConnection(NamedTuple):
    """The connection ends after so many bytes."""

    after: int


class HubRequest(NamedTuple):
    """A request to the hub."""

    method: str
    path: str
    range: str | None
    authorization: str | None


class ScriptedHub:
    """The data sets of a hub, and the faults of its downloads."""

    def __init__(self) -> None:
        self.url = ""
        self.commits: dict[str, dict[str, Mapping[str, bytes]]] = defaultdict(dict)
        """Files by repository and commit."""
        self.branches: dict[str, str] = {}
        """Commit of `main` by repository."""
        self.token: str | None = None
        """When set, only requests with this token are accepted."""
        self.faults: dict[str, list[int | CutConnection]] = defaultdict(list)
        self.wrong: set[str] = set()
        """Names of files that are sent with a wrong last byte."""
        self.requests: list[HubRequest] = []

    def commit(self, repo: str, files: Mapping[str, bytes]) -> str:
        """Make a commit of these files alone, and move `main` to it; its hash."""
        facts = repr((len(self.commits[repo]), sorted(files.items())))
        sha = hashlib.sha1(facts.encode(), usedforsecurity=False).hexdigest()
        self.commits[repo][sha] = dict(files)
        self.branches[repo] = sha
        return sha

    def downloads(self, name: str) -> list[HubRequest]:
        """Requests for the bytes of a file."""
        return [request for request in self.requests if request.method == "GET" and request.path.endswith(f"/{name}")]

    def fault(self, path: str) -> int | CutConnection | None:
        left = next((faults for part, faults in self.faults.items() if part in path and faults), None)
        return left.pop(0) if left else None


@contextmanager
def scripted_hub() -> Iterator[ScriptedHub]:
    """A hub that listens on loopback."""
    hub = ScriptedHub()

    class BoundHandler(_HubHandler):
        script = hub

    with _HubServer(("127.0.0.1", 0), BoundHandler) as server:
        hub.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()


class _HubServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no event here."""


class _HubHandler(BaseHTTPRequestHandler):
    script: ScriptedHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        request = HubRequest(self.command, self.path, self.headers.get("range"), self.headers.get("authorization"))
        self.script.requests.append(request)
        path = unquote(urlsplit(self.path).path)
        if match := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)(?:/revision/(.+))?", path):
            self._info(match[1], match[2] or "main", request)
        elif match := re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._file(match[1], match[2], match[3], request)
        else:
            self._answer(404, b"")

    def _info(self, repo: str, revision: str, request: HubRequest) -> None:
        sha = self._commit(repo, revision, request)
        if sha is not None:
            siblings = [_listed(name, body) for name, body in self.script.commits[repo][sha].items()]
            self._answer(200, json.dumps({"id": repo, "sha": sha, "siblings": siblings}).encode())

    def _file(self, repo: str, revision: str, name: str, request: HubRequest) -> None:
        sha = self._commit(repo, revision, request)
        if sha is None:
            return
        body = self.script.commits[repo][sha].get(name)
        if body is None:
            self._answer(404, b"", {"x-error-code": "EntryNotFound"})
            return
        listed = _listed(name, body)
        headers = {"etag": f'"{listed["blobId"]}"', "x-repo-commit": sha, "accept-ranges": "bytes"}
        if "lfs" in listed:
            headers["x-linked-etag"] = f'"{hashlib.sha256(body).hexdigest()}"'
        fault = self.script.fault(self.path) if self.command == "GET" else None
        if isinstance(fault, int):
            self._answer(fault, b"", headers)
            return
        if name in self.script.wrong:
            body = body[:-1] + b"?"
        start = int(request.range.removeprefix("bytes=").rstrip("-")) if request.range else 0
        if start:
            headers["content-range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        self._answer(206 if start else 200, body[start:], headers, cut=fault)

    def _commit(self, repo: str, revision: str, request: HubRequest) -> str | None:
        """The commit of a request; None: it was refused, and has its answer."""
        script = self.script
        if script.token is not None and request.authorization != f"Bearer {script.token}":
            self._answer(401, b"", {"x-error-code": "RepoNotFound", "x-error-message": "Invalid username or password."})
        elif repo not in script.branches:
            self._answer(404, b"", {"x-error-code": "RepoNotFound", "x-error-message": "Repository not found"})
        elif revision == "main":
            return script.branches[repo]
        elif revision in script.commits[repo]:
            return revision
        else:
            self._answer(404, b"", {"x-error-code": "RevisionNotFound", "x-error-message": "Invalid rev id"})
        return None

    def _answer(
        self, status: int, body: bytes, headers: Mapping[str, str] = {}, cut: CutConnection | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body if cut is None else body[: cut.after])
        if cut is not None:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


def _listed(name: str, body: bytes) -> dict[str, object]:
    """A file as the hub lists it."""
    blob = hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).hexdigest()
    listed: dict[str, object] = {"rfilename": name, "size": len(body), "blobId": blob}
    if len(body) > LARGE:
        listed["lfs"] = {"size": len(body), "sha256": hashlib.sha256(body).hexdigest(), "pointerSize": 130}
    return listed
