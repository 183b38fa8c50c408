"""Traces of OpenTelemetry: spans of rollouts and of what happens in them, sent where the standard variables say.

On      where `OTEL_TRACES_EXPORTER`, `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT` is set, and
        neither `OTEL_SDK_DISABLED` nor `OTEL_TRACES_EXPORTER=none` is. Off, nothing of OpenTelemetry is imported, and a
        span is one look at a variable of this module.
Law     no message, tool argument or secret is an attribute. Traces never fail or hold up what they are of.
Source  names and attributes: https://github.com/open-telemetry/semantic-conventions-genai; `paddock.*` are ours.
"""

from paddock.tracing.names import agent_span, chat_span, note_chat, note_rollout, tool_span
from paddock.tracing.spans import (
    NO_SPAN,
    AnySpan,
    NoSpan,
    RequestSpan,
    TraceSpan,
    inject,
    is_on,
    span,
    traced,
    variables,
)

__all__ = [
    "NO_SPAN",
    "AnySpan",
    "NoSpan",
    "RequestSpan",
    "TraceSpan",
    "agent_span",
    "chat_span",
    "inject",
    "is_on",
    "note_chat",
    "note_rollout",
    "span",
    "tool_span",
    "traced",
    "variables",
]
