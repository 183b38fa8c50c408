"""A node of sandboxes on loopback with a client of it, for the checks of the provider `remote`."""

import secrets
from contextlib import AsyncExitStack

from paddock.sandbox import Provider, SandboxSettings
from paddock.sandbox.admission import AdmissionSettings
from paddock.sandbox.remote.client import RemoteProvider
from paddock.sandbox_server import serve_node
from paddock.server.access import Access
from paddock.server.sockets import LOOPBACK, Address, bind

ROOM = AdmissionSettings(memory_per_sandbox_mib=1, cores_per_sandbox=0.0, disk_per_sandbox_mib=0)
"""As much as is asked for: the suite is about sandboxes, and may hold many large ones."""


class NodeProvider(RemoteProvider):
    """A client that stops its node when it is closed."""

    def __init__(self, settings: SandboxSettings, token: str, node: AsyncExitStack) -> None:
        super().__init__(settings, token=token)
        self._node = node

    async def close(self) -> None:
        await super().close()
        await self._node.aclose()


async def open_node(settings: SandboxSettings) -> Provider:
    """A provider over a node of these settings, which runs in this process."""
    token = secrets.token_urlsafe()
    bound = bind("node", Address(LOOPBACK, 0))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(serve_node(settings, bound, access=Access(token), admission=ROOM))
        return NodeProvider(settings.model_copy(update={"nodes": (bound.url,)}), token, stack.pop_all())
    raise AssertionError("unreachable")
