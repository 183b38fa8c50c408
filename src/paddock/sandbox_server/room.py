"""The room of a node: a sandbox is made where it fits beside all that were granted, else refused at once.

Law     what is granted is reserved until the sandbox is gone. Nobody waits here: who is refused asks again.
Errors  NodeFullError; ConfigError for a sandbox that could never fit.
"""

from paddock.sandbox import Provider, SandboxHandle, SandboxSpec
from paddock.sandbox.admission import Admission, AdmissionSettings, Capacity
from paddock.sandbox.remote.room import FreeRoom, NodeFullError, NodeRoom
from paddock.sandbox_server.images import NodeImages


class AdmittedSandboxes:
    """Makes and destroys sandboxes of a provider within the room that there is."""

    def __init__(self, provider: Provider, settings: AdmissionSettings, images: NodeImages) -> None:
        """`settings`: with all amounts in numbers."""
        self.provider = provider
        self._images = images
        self.draining = False
        self._settings = settings
        self._admission = Admission(settings.total())
        self._granted: dict[str, Capacity] = {}

    def report(self, *, waiting: int) -> NodeRoom:
        """The room at this moment. `waiting`: as its clients say."""
        free = FreeRoom.of(self._admission.free)
        return NodeRoom(
            admission=self._settings,
            free=free,
            waiting=waiting,
            draining=self.draining,
            fetches_images=self._images.fetches,
        )

    async def create(self, spec: SandboxSpec, *, request_id: str, waiting: int = 0) -> SandboxHandle:
        """`waiting`: what a refusal tells."""
        demand = self._settings.demand(spec.limits.memory_mib)
        self._admission.check(demand)
        if self.draining or not self._admission.take_now(demand):
            raise NodeFullError(self.report(waiting=waiting))
        try:
            await self._images.ensure(spec.image)
            handle = await self.provider.create(spec, request_id=request_id)
        except BaseException:
            self._admission.give(demand)
            raise
        self._granted[handle.sandbox_id] = demand
        return handle

    async def destroy(self, sandbox_id: str) -> None:
        try:
            await self.provider.destroy(sandbox_id)
        finally:
            if (granted := self._granted.pop(sandbox_id, None)) is not None:
                self._admission.give(granted)
