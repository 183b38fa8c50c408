"""A collector of traces: OTLP over HTTP on loopback, decoded by the protocol's own classes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status


class CollectedSpan(NamedTuple):
    """A span as it came."""

    name: str
    id: bytes
    parent: bytes
    trace: bytes
    kind: str
    attributes: dict[str, Any]
    error: str | None
    """The status' message; None: it is no error."""
    seconds: float
    pid: int
    service: str


class TraceCollector:
    """What has come."""

    def __init__(self) -> None:
        self.spans: list[CollectedSpan] = []
        self.bodies: list[bytes] = []
        self.endpoint = ""

    def add(self, body: bytes) -> None:
        self.bodies.append(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            process = {one.key: one.value for one in resource.resource.attributes}
            service = process["service.name"].string_value
            pid = process["process.pid"].int_value if "process.pid" in process else 0
            for scope in resource.scope_spans:
                self.spans += [_span(span, pid, service) for span in scope.spans]

    def named(self, start: str) -> list[CollectedSpan]:
        return [span for span in self.spans if span.name.startswith(start)]

    def parent(self, span: CollectedSpan) -> CollectedSpan | None:
        return next((one for one in self.spans if one.id == span.parent), None)

    def path(self, span: CollectedSpan) -> list[str]:
        """Names from the root to the span; `?` where a parent never came."""
        above = self.parent(span)
        if above is not None:
            return [*self.path(above), span.name]
        return ["?", span.name] if span.parent else [span.name]


def _span(span: WireSpan, pid: int, service: str) -> CollectedSpan:
    return CollectedSpan(
        span.name,
        span.span_id,
        span.parent_span_id,
        span.trace_id,
        WireSpan.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
        {one.key: _value(one.value) for one in span.attributes},
        span.status.message if span.status.code == Status.STATUS_CODE_ERROR else None,
        (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
        pid,
        service,
    )


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind)


@contextmanager
def collecting() -> Iterator[TraceCollector]:
    """A collector while the block runs."""
    collector = TraceCollector()

    class Requests(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.add(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Requests) as server:
        collector.endpoint = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
