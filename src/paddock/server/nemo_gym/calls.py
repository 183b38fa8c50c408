"""Requests of NeMo-Gym's own agents to their resources servers, as one route of ours."""

from pydantic import JsonValue

from paddock.http import Route
from paddock.types import Record


class GymCall(Record):
    """A request of NeMo-Gym's own agent to its resources server, as it came."""

    path: str
    body: JsonValue
    cookies: dict[str, str] = {}
    epoch: int | None = None
    """The server's when the rollout began (`GymCallReply`); None: this is its first request."""


class GymCallReply(Record):
    """What the server answered, below 500."""

    status: int
    body: str
    cookies: dict[str, str]
    """All of the session's."""
    epoch: int
    """Grows whenever the server has lost what it kept."""


GYM_CALL = Route[GymCall, GymCallReply](
    "POST",
    "/gym_call",
    "A request of NeMo-Gym's own agent, passed on",
    to_wire=lambda request: request.model_dump(),
    from_wire=GymCall.model_validate,
    reply_to_wire=lambda _, reply: reply.model_dump(),
    reply_from_wire=lambda _, wire: GymCallReply.model_validate(wire),
    replayable=False,
    long=True,
    request_type=GymCall,
    reply_type=GymCallReply,
)
