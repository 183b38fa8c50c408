"""One rollout's sandbox, from its making to its end, and the way to its model.

Law     what is made is unmade: also when the rollout is cancelled, and before it is said to have ended.
Errors  SandboxError, BudgetExceeded; InfraError when the rollout's time is over.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

from paddock.agents.swe.brief import Brief
from paddock.errors import InfraError
from paddock.http import Call
from paddock.sandbox import Provider


@asynccontextmanager
async def sandbox(provider: Provider, brief: Brief) -> AsyncIterator[str]:
    """The id of a fresh sandbox."""
    handle = await provider.create(brief.spec, request_id=uuid.uuid4().hex)
    try:
        yield handle.sandbox_id
    finally:
        await surely(provider.destroy(handle.sandbox_id))


@asynccontextmanager
async def due(call: Call) -> AsyncIterator[None]:
    """InfraError when the rollout's time is over."""
    try:
        async with asyncio.timeout(call.remaining_s) as clock:
            yield
    except TimeoutError as error:
        if not clock.expired():
            raise
        raise InfraError("the rollout's time is over (rollout_timeout_s)", kind="timeout") from error


async def surely(work: Awaitable[None]) -> None:
    """To its end, whatever becomes of the caller."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
