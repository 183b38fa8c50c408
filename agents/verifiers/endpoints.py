"""The ways of an environment to the model, on this machine's loopback, each with a key of its own.

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
from paddock.server.dialects.conversation import sampling_of
from paddock.server.rollout import JOIN_TIMEOUT_S, RolloutRun
from paddock.server.upstream import PeerUpstream
from paddock.types import RolloutSettings


class SeatEndpoint(NamedTuple):
    """One way to the model."""

    tunnel: Tunnel
    key: str
    """What a caller has to bring."""


@asynccontextmanager
async def open_endpoint(
    model: Peer, run: RolloutRun, secret: str, name: str, settings: TunnelSettings
) -> AsyncIterator[SeatEndpoint]:
    """A way whose calls are turns of `secret`, sampled as the row says. `name`: what the model is called."""
    sampling = sampling_of(run.row.responses_create_params)
    if sampling:
        await model.call(SETTINGS, RolloutSettings(sampling=sampling), Call(deadline=run.call.deadline), secret=secret)
    upstream, key = PeerUpstream(model, run.call, secret=secret, model=name), secrets.token_hex(16)
    async with Tunnel(loopback_listener(), upstream, settings, hidden=[secret], api_key=key) as tunnel:
        yield SeatEndpoint(tunnel, key)


@asynccontextmanager
async def open_unrecorded(
    model: Peer, run: RolloutRun, name: str, settings: TunnelSettings
) -> AsyncIterator[SeatEndpoint]:
    """A way whose calls are no part of the rollout: their turns are forgotten when it is closed."""
    secret = new_secret()
    try:
        async with open_endpoint(model, run, secret, name, settings) as endpoint:
            yield endpoint
    finally:
        with suppress(PaddockError):  # the store forgets by age what it is not told to forget
            await model.call(FORGET, {}, Call().within(JOIN_TIMEOUT_S), secret=secret)
