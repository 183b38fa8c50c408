"""Traces of OpenTelemetry: spans of rollouts and of what happens in them, sent where the standard variables say.

On      where `OTEL_TRACES_EXPORTER`, `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT` is set, and
        neither `OTEL_SDK_DISABLED` nor `OTEL_TRACES_EXPORTER=none` is. Off, nothing of OpenTelemetry is imported, and a
        model call or a rollout asks `is_on`, and no more.
Law     no message, tool argument or secret is an attribute. Traces never fail or hold up what they are of.
Source  names and attributes: https://github.com/open-telemetry/semantic-conventions-genai; `paddock.*` are ours.
"""

from paddock.tracing.names import chat_span, note_chat, tool_span, traced_rollout
from paddock.tracing.spans import (
    NO_SPAN,
    AnySpan,
    NoSpan,
    TraceSpan,
    inject,
    is_on,
    request_span,
    span,
    traced,
    variables,
)

__all__ = [
    "NO_SPAN",
    "AnySpan",
    "NoSpan",
    "TraceSpan",
    "chat_span",
    "inject",
    "is_on",
    "note_chat",
    "request_span",
    "span",
    "tool_span",
    "traced",
    "traced_rollout",
    "variables",
]
