"""The wire: the routes of servers, and the client that calls them: directly, over ASGI, or over HTTP.

`Route` fixes a route's path and both directions' codecs; `Peer` is a handle on one server. A `DirectPeer` passes the
records themselves; an `HttpPeer` sends JSON, replays what may be replayed, and raises the owner's own error.
`headers_for(url)` gives other HTTP clients the token that a server of ours asks for.
"""

from paddock.http.access import headers_for, token_for
from paddock.http.client import DirectPeer, Handler, HttpPeer, Peer, RetryPolicy
from paddock.http.context import Call
from paddock.http.routes import (
    AGGREGATE,
    CHAT,
    FORGET,
    MESSAGES,
    PLAIN_CHAT,
    PLAIN_MESSAGES,
    PLAIN_RESPONSES,
    RESPONSES,
    RUN,
    SCORE_STEP,
    SCRIPT,
    SEED,
    SETTINGS,
    TRANSCRIPT,
    TURNS,
    VERIFY,
    WITHDRAW,
    AggregateMetrics,
    AggregateRequest,
    EventStream,
    ModelReply,
    ReplayScript,
    Route,
    VerifyRequest,
    new_secret,
    read_row,
    require_response,
    rollout_from_wire,
    rollout_to_wire,
)
from paddock.http.step_scores import StepRequest, StepScore

__all__ = [
    "AGGREGATE",
    "CHAT",
    "FORGET",
    "MESSAGES",
    "PLAIN_CHAT",
    "PLAIN_MESSAGES",
    "PLAIN_RESPONSES",
    "RESPONSES",
    "RUN",
    "SCORE_STEP",
    "SCRIPT",
    "SEED",
    "SETTINGS",
    "TRANSCRIPT",
    "TURNS",
    "VERIFY",
    "WITHDRAW",
    "AggregateMetrics",
    "AggregateRequest",
    "Call",
    "DirectPeer",
    "EventStream",
    "Handler",
    "HttpPeer",
    "ModelReply",
    "Peer",
    "ReplayScript",
    "RetryPolicy",
    "Route",
    "StepRequest",
    "StepScore",
    "VerifyRequest",
    "headers_for",
    "new_secret",
    "read_row",
    "require_response",
    "rollout_from_wire",
    "rollout_to_wire",
    "token_for",
]
