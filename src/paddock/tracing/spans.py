"""Spans as the code that they are of sees them: context managers, which do nothing where no traces are wanted.

Parent  the span that is open in this task, or in the one that made it; over HTTP, the caller's (`inject`,
        `request_span`).
Errors  what a block raises is its span's: `error.type` is `owner.kind`, else the name of its class.
"""

import asyncio
import logging
import os
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Token
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar

from paddock.errors import PaddockError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

SpanKind = Literal["internal", "client", "server"]
ErrorType = str
Attribute = str | int | float | bool | list[str] | None
"""None: the attribute is left out."""
PREFIX = "OTEL_"
WANTED_BY = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
NO_ATTRIBUTES: Mapping[str, Attribute] = {}
_SECRET = re.compile(r"ro_[0-9a-f]+")
"""Of a rollout: `paddock.http.new_secret`."""
MAX_CHARS = 300
"""Of an error's message."""
_log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")


@cache
def _tracer() -> "Tracer | None":
    """This process's; None: no traces are wanted, or nothing can send them."""
    if not _is_wanted():
        return None
    try:
        from paddock.tracing.exporter import open_tracer  # the library, only where it is wanted
    except ImportError:
        _log.warning("no traces are sent: `pip install 'paddock[otel]'` brings what sends them")
        return None
    return open_tracer()


@cache
def is_on() -> bool:
    """Whether this process makes spans. What is called for each request looks here before it does anything for one."""
    return _tracer() is not None


def _is_wanted() -> bool:
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return False
    return any(os.environ.get(name, "").strip() for name in WANTED_BY)


def variables() -> dict[str, str]:
    """The variables of OpenTelemetry, for processes of other machines."""
    return {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}


class NoSpan:
    """A span that nobody sees."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        return None

    def note(self, attributes: Mapping[str, Attribute]) -> None:
        """Add attributes."""

    def fail(self, error_type: ErrorType, message: str = "") -> None:
        """Mark it as failed."""


NO_SPAN = NoSpan()


class TraceSpan(NoSpan):
    """A span of OpenTelemetry, the parent of those within its block."""

    __slots__ = ("_attributes", "_kind", "_name", "_span", "_token")

    def __init__(self, name: str, kind: SpanKind, attributes: Mapping[str, Attribute]) -> None:
        self._name = name
        self._kind = kind
        self._attributes = attributes
        self._span: Span
        self._token: Token[Context]

    def __enter__(self) -> Self:
        from opentelemetry import context, trace

        tracer = _tracer()
        assert tracer is not None
        self._span = tracer.start_span(self._name, kind=trace.SpanKind[self._kind.upper()])
        self.note(self._attributes)
        self._token = context.attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(self, *raised: Any) -> None:
        from opentelemetry import context

        context.detach(self._token)
        error = raised[1]
        if error is not None:
            self.fail(error_type(error), error.message if isinstance(error, PaddockError) else "")
        self._span.end()

    def note(self, attributes: Mapping[str, Attribute]) -> None:
        for name, value in attributes.items():
            if value is not None:
                self._span.set_attribute(name, value)

    def fail(self, error_type: ErrorType, message: str = "") -> None:
        from opentelemetry.trace import Status, StatusCode

        self._span.set_attribute("error.type", error_type)
        text = _SECRET.sub("ro_...", message)[:MAX_CHARS]
        self._span.set_status(Status(StatusCode.ERROR, text or None))


AnySpan = NoSpan | TraceSpan


def error_type(error: BaseException) -> ErrorType:
    """`error.type` of what was raised."""
    if isinstance(error, PaddockError):
        return f"{error.owner}.{error.kind}"
    return "cancelled" if isinstance(error, asyncio.CancelledError | GeneratorExit) else type(error).__name__


def span(name: str, kind: SpanKind = "internal", attributes: Mapping[str, Attribute] = NO_ATTRIBUTES) -> AnySpan:
    """A span to be entered, or started and ended."""
    return TraceSpan(name, kind, attributes) if is_on() else NO_SPAN


def name_of_open_span() -> str | None:
    """Of the span of this process that is open here; None: there is none, or it is not recorded."""
    if not is_on():
        return None
    from opentelemetry import trace

    return getattr(trace.get_current_span(), "name", None)


def traced(name: str) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, Coroutine[Any, Any, T]]]:
    """A decorator: each call of the coroutine function is a span."""

    def decorate(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        @wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            with span(name):
                return await function(*args, **kwargs)

        return call

    return decorate


def inject(headers: dict[str, str]) -> dict[str, str]:
    """The headers, with those that name the open span: `traceparent` and what `OTEL_PROPAGATORS` asks for."""
    if is_on():
        from opentelemetry import propagate

        propagate.inject(headers)
    return headers


@contextmanager
def request_span(name: str, headers: Mapping[str, Any]) -> Iterator[None]:
    """A server's span of a request: a child of the span that its caller's headers name, where they name one. `name`:
    method and template of the route. Where traces are on."""
    from opentelemetry import context, propagate

    token = context.attach(propagate.extract(headers))
    method, _, route = name.partition(" ")
    try:
        with span(name, "server", {"http.request.method": method, "http.route": route}):
            yield
    finally:
        context.detach(token)
