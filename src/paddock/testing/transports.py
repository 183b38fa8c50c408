"""Running servers for a test, over each of the three ways to reach them, so that one test proves all three.

Shapes  `over` starts built servers and gives peers by name: `direct` passes records, `asgi` goes through the app and
        the codecs without a socket, `http` through real connections on loopback.
Law     servers are started before and stopped after; a server that was made with a dict as `peers` finds the others
        there.
"""

from collections.abc import AsyncIterator, Mapping, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Literal, get_args

import httpx

from paddock.http import DirectPeer, HttpPeer, Peer
from paddock.http.transport import make_client
from paddock.server import Server
from paddock.server.access import Access
from paddock.server.app import build_app
from paddock.server.lifecycle import serve_http, start_servers
from paddock.server.sockets import LOOPBACK, Address, Bound, bind

Transport = Literal["direct", "asgi", "http"]
TRANSPORTS: tuple[Transport, ...] = get_args(Transport)
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 2.0


@asynccontextmanager
async def over(transport: Transport, *servers: Server[Any], token: str | None = None) -> AsyncIterator[dict[str, Peer]]:
    """Peers of the servers, by name. With a token, apps ask for it and the peers bring it."""
    named = {server.name: server for server in servers}
    async with AsyncExitStack() as stack:
        bound: dict[str, Bound] = {}
        if transport == "http":
            bound = {name: bind(name, Address(LOOPBACK, 0)) for name in named}
            for at in bound.values():
                stack.callback(at.sock.close)
        peers = {name: _peer(transport, server, bound, token, stack) for name, server in named.items()}
        for server in servers:
            if isinstance(server.peers, MutableMapping):
                server.peers.update(peers)
        await stack.enter_async_context(
            start_servers(servers, start_timeout_s=START_TIMEOUT_S, stop_timeout_s=STOP_TIMEOUT_S)
        )
        if bound:
            await stack.enter_async_context(
                serve_http(named, bound, access=Access(token), stop_timeout_s=STOP_TIMEOUT_S)
            )
        yield peers


def _peer(
    transport: Transport, server: Server[Any], bound: Mapping[str, Bound], token: str | None, stack: AsyncExitStack
) -> Peer:
    match transport:
        case "direct":
            return DirectPeer(server.name, server.handlers)
        case "asgi":
            app = httpx.ASGITransport(build_app(server, access=Access(token)))
            client = httpx.AsyncClient(transport=app, timeout=None)  # noqa: S113 - callers hold the clock
            url = f"http://{server.name.replace('_', '-')}"
        case "http":
            client, url = make_client(), bound[server.name].url
    stack.push_async_callback(client.aclose)
    return HttpPeer(server.name, client, url, token=token)
