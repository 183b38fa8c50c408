"""The routes of a node and the bodies that go over them: one route per method of a provider.

Bodies  JSON of records, bytes in it as base64; the content of a file goes as it is (octet-stream), its path in the
        query. An answer that is not there within `Wait` seconds is 202, and asked for again under `/v1/calls/ID`.
Calls   each has an id of its client's making, and may be sent again with it: it is acted on once.
Text    may have bytes that are no UTF-8 as surrogates, as Python writes paths.
"""

import json
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

from pydantic import Field, ValidationError
from pydantic_core import PydanticSerializationError

from paddock.sandbox.layers import Archive, Patch
from paddock.sandbox.records import (
    BytesRecord,
    ExecRequest,
    ExecResult,
    MemoryKill,
    PathChange,
    SandboxHandle,
    SandboxSpec,
    ShellRequest,
    ShellResult,
    Stats,
)
from paddock.types import Record

LEASE_HEADER = "x-paddock-lease"
CALL_HEADER = "x-paddock-call"
WAIT_HEADER = "x-paddock-wait-s"
"""Seconds that a node may take before it answers 202."""
DONE_HEADER = "x-paddock-done"
"""Ids of calls, with commas, for which nobody waits: their answers are forgotten, and what still runs is ended."""
WAITING_HEADER = "x-paddock-waiting"
"""How many sandboxes the client wants that had no room anywhere."""
JSON = "application/json"
BYTES = "application/octet-stream"
LEASES = "/v1/leases"
RENEWAL = "/v1/leases/renewal"
CALLS = "/v1/calls/{call_id}"
HEALTH = "/healthz"
STATUS = "/status"
IMAGES = "/images"
METRICS = "/metrics"
IMAGE = "/v1/images"
"""`GET ?name=`: the record of an image; `POST ?name=`: have the node fetch it from its peers where it lacks it."""
LAYER = "/v1/layers/{layer}"
"""The tar of a layer, with its digest in `DIGEST_HEADER`."""
DIGEST_HEADER = "x-paddock-digest"
DRAIN = "/drain"
UNCORDON = "/uncordon"
TUNNEL_LINK = "/v1/sandboxes/{sandbox_id}/tunnels/{tunnel_id}/link"
CALL_UNKNOWN = "call_unknown"
LEASE_UNKNOWN = "lease_unknown"

Request = TypeVar("Request", bound=Record)
Reply = TypeVar("Reply", bound=Record)


class Nothing(Record):
    """No words."""


class LeaseRequest(Record):
    """What a client asks of its lease."""

    ttl_s: float = Field(gt=0, le=24 * 3600)
    """Seconds after which it ends unless it is renewed."""


class LeaseGrant(Record):
    """A lease: its id is known to its holder alone."""

    lease_id: str


class ShellId(Record):
    shell_id: str


class LineRequest(Record):
    """A line for a shell."""

    line: str
    timeout_s: float | None = None
    wait_s: float | None = None


class ShellWait(Record):
    wait_s: float = 0.0


class ShellInput(BytesRecord):
    """What is typed at a terminal."""

    data: bytes


class FilePath(Record):
    """A file to read."""

    path: str
    max_bytes: int | None = None


class FileTarget(Record):
    """A file to write."""

    path: str
    mode: int | None = None


class ChangesQuery(Record):
    under: str = "/"


class Changes(Record):
    paths: list[PathChange]


class PatchRequest(Record):
    """What `Provider.patch` takes."""

    root: str
    exclude: list[str] = []
    ended: bool = False


class ArchiveRequest(Record):
    """What `Provider.archive` takes."""

    paths: list[str]
    exclude: list[str] = []
    max_bytes: int
    ended: bool = False


class SnapshotName(Record):
    name: str


class TunnelPort(Record):
    port: int


class TunnelGrant(Record):
    """A tunnel's id, and the port inside."""

    tunnel_id: str
    port: int


class Kills(Record):
    kills: list[MemoryKill]


class NodeRoute(NamedTuple, Generic[Request, Reply]):
    """One method of a provider."""

    method: str
    path: str
    request: type[Request]
    """`Nothing`: there is no body."""
    reply: type[Reply]

    def url(self, **words: str) -> str:
        return self.path.format(**{name: quote(word, safe="") for name, word in words.items()})


_SANDBOX = "/v1/sandboxes/{sandbox_id}"
_SHELL = _SANDBOX + "/shells/{shell_id}"
FILE = _SANDBOX + "/file"
CREATE = NodeRoute("POST", "/v1/sandboxes", SandboxSpec, SandboxHandle)
DESTROY = NodeRoute("DELETE", _SANDBOX, Nothing, Nothing)
EXEC = NodeRoute("POST", f"{_SANDBOX}/exec", ExecRequest, ExecResult)
OPEN_SHELL = NodeRoute("POST", f"{_SANDBOX}/shells", ShellRequest, ShellId)
SHELL_RUN = NodeRoute("POST", f"{_SHELL}/run", LineRequest, ShellResult)
SHELL_POLL = NodeRoute("POST", f"{_SHELL}/poll", ShellWait, ShellResult)
SHELL_TYPE = NodeRoute("POST", f"{_SHELL}/type", ShellInput, Nothing)
SHELL_INTERRUPT = NodeRoute("POST", f"{_SHELL}/interrupt", Nothing, ShellResult)
CLOSE_SHELL = NodeRoute("DELETE", _SHELL, Nothing, Nothing)
CHANGES = NodeRoute("POST", f"{_SANDBOX}/changes", ChangesQuery, Changes)
PATCH = NodeRoute("POST", f"{_SANDBOX}/patch", PatchRequest, Patch)
ARCHIVE = NodeRoute("POST", f"{_SANDBOX}/archive", ArchiveRequest, Archive)
SNAPSHOT = NodeRoute("POST", f"{_SANDBOX}/snapshot", SnapshotName, SnapshotName)
STATS = NodeRoute("GET", f"{_SANDBOX}/stats", Nothing, Stats)
KILLS = NodeRoute("POST", f"{_SANDBOX}/kills", Nothing, Kills)
OPEN_TUNNEL = NodeRoute("POST", f"{_SANDBOX}/tunnels", TunnelPort, TunnelGrant)
CLOSE_TUNNEL = NodeRoute("DELETE", _SANDBOX + "/tunnels/{tunnel_id}", Nothing, Nothing)


def encode(record: Record) -> bytes:
    """A record as the wire has it."""
    try:
        return record.model_dump_json().encode()
    except PydanticSerializationError:  # there are bytes of a path in its text, as surrogates
        return json.dumps(record.model_dump(mode="json")).encode()


def decode(cls: type[Reply], body: bytes) -> Reply:
    """The record of a body; ValidationError where it is none."""
    try:
        return cls.model_validate_json(body)
    except ValidationError as error:
        if error.errors(include_url=False, include_input=False)[0]["type"] != "json_invalid":
            raise
        try:
            fields = json.loads(body)
        except ValueError:
            raise error from None
        return cls.model_validate(fields)


def query(**words: str | int | None) -> str:
    """The end of a URL with these words; any text, surrogates too. None: it is left out."""
    fields = {name: word for name, word in words.items() if word is not None}
    return "?" + urlencode(fields, errors="surrogatepass")


def parse_query(text: bytes) -> dict[str, str]:
    """The words of `query`."""
    if not text:
        return {}
    return dict(parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="surrogatepass"))
