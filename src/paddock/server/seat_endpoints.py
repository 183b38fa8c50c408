"""The ways of an environment's own program to models, on this machine's loopback, each with a key of its own.

Law     the rollout's secret is added on this side; neither the environment nor a record of its has it.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from paddock.errors import PaddockError
from paddock.http import FORGET, SETTINGS, Call, Peer, new_secret
from paddock.sandbox.socket_listener import loopback_listener
from paddock.sandbox.tunnel import Tunnel, TunnelSettings
from paddock.server.rollout import JOIN_TIMEOUT_S
from paddock.server.upstream import PeerUpstream
from paddock.types import JsonObject, RolloutSettings


class SeatEndpoint(NamedTuple):
    """One way to a model."""

    tunnel: Tunnel
    key: str
    """What a caller has to bring."""


class SeatModel(NamedTuple):
    """The model that answers there."""

    peer: Peer
    name: str
    """What callers call it."""
    sampling: JsonObject = {}
    """Parameters that hold for every call, over the caller's."""


@asynccontextmanager
async def open_endpoint(
    model: SeatModel, call: Call, secret: str, settings: TunnelSettings
) -> AsyncIterator[SeatEndpoint]:
    """A way whose calls are turns of `secret`, until the deadline of `call`."""
    peer, name, sampling = model
    if sampling:
        await peer.call(SETTINGS, RolloutSettings(sampling=sampling), Call(deadline=call.deadline), secret=secret)
    upstream, key = PeerUpstream(peer, call, secret=secret, model=name), secrets.token_hex(16)
    async with Tunnel(loopback_listener(), upstream, settings, hidden=[secret], api_key=key) as tunnel:
        yield SeatEndpoint(tunnel, key)


@asynccontextmanager
async def open_unrecorded(model: SeatModel, call: Call, settings: TunnelSettings) -> AsyncIterator[SeatEndpoint]:
    """A way whose calls are no part of the rollout: their turns are forgotten when it is closed."""
    secret = new_secret()
    try:
        async with open_endpoint(model, call, secret, settings) as endpoint:
            yield endpoint
    finally:
        with suppress(PaddockError):  # the store forgets by age what it is not told to forget
            await model.peer.call(FORGET, {}, Call().within(JOIN_TIMEOUT_S), secret=secret)
