"""What sends spans: the SDK of OpenTelemetry with the exporter that its variables name.

Law     spans are sent by a thread beside. A collector that takes none costs them, one line a minute, and at most
        `STOP_S` seconds at the end of the process.
Needs   the extra `otel`.
"""

import atexit
import logging
import os
import threading
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Tracer

STOP_S = 2.0
SERVICE = "paddock"
GROUP = "opentelemetry_traces_exporter"
"""Entry points of exporters, by which the SDK's own start finds them too."""
PROTOCOLS = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
"""Exporters by `OTEL_EXPORTER_OTLP_PROTOCOL`."""
_log = logging.getLogger(__name__)


class ReportingExporter(SpanExporter):
    """An exporter whose own lines, several for each batch, become one that says what they mean."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS:
            _log.warning("traces are lost: no collector takes them (OTEL_EXPORTER_OTLP_ENDPOINT)")
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


def open_tracer() -> Tracer | None:
    """A tracer that sends what it makes until the process ends; None: its variables don't make one. A provider that is
    set for the process already, by `opentelemetry-instrument` or a script, is used as it is."""
    given = trace.get_tracer_provider()
    if not isinstance(given, trace.ProxyTracerProvider):
        return given.get_tracer(SERVICE)
    exporter = _exporter()
    if exporter is None:
        return None
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
    try:
        provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(ReportingExporter(exporter)))
    except Exception as error:  # noqa: BLE001 - as below: `OTEL_BSP_*` may contradict each other
        _log.warning("no traces are sent: %s", error)
        return None
    _stop_at_exit(provider.shutdown)
    return provider.get_tracer(SERVICE)


def _resource() -> Resource:
    resource = Resource.create()  # OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        return resource.merge(Resource({SERVICE_NAME: SERVICE}))
    return resource


def _exporter() -> SpanExporter | None:
    name = os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() or "otlp"
    if name == "otlp":
        own = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        protocol = (own or "http/protobuf").strip().lower()
        name = PROTOCOLS.get(protocol, protocol)
    try:
        (entry,) = entry_points(group=GROUP, name=name)
        exporter: SpanExporter = entry.load()()
    except Exception as error:  # noqa: BLE001 - a variable with a slip is no reason to end a run
        there = ", ".join(sorted(entry.name for entry in entry_points(group=GROUP)))
        _log.warning("no traces are sent: exporter %r: %s; installed are %s", name, error, there or "none")
        return None
    return exporter


def _stop_at_exit(shutdown: Callable[[], None]) -> None:
    """Call `shutdown` at the end of the process, which waits at most `STOP_S` for it."""
    asked = threading.Event()

    def wait() -> None:
        asked.wait()
        shutdown()

    # It runs already: no thread can be started at the end of a process.
    thread = threading.Thread(target=wait, name="traces-stop", daemon=True)
    thread.start()

    def stop() -> None:
        asked.set()
        thread.join(STOP_S)

    atexit.register(stop)
