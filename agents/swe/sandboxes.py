"""One rollout's sandbox, from its creation to its end, and the limit of the rollout's time.

Law     every sandbox is destroyed before its rollout ends, also when the rollout is cancelled.
Errors  SandboxError, BudgetExceeded; InfraError when the rollout's time is over.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

from paddock.agents.swe.task_spec import TaskSpec
from paddock.errors import InfraError
from paddock.http import Call
from paddock.sandbox import Provider
from paddock.types import Stamp


@asynccontextmanager
async def sandbox(provider: Provider, task_spec: TaskSpec, stamp: Stamp) -> AsyncIterator[str]:
    """Create a sandbox for the rollout of a stamp and give its id; it is destroyed at the end."""
    spec = task_spec.sandbox.model_copy(update={"group": _group_of(stamp)})
    handle = await provider.create(spec, request_id=uuid.uuid4().hex)
    try:
        yield handle.sandbox_id
    finally:
        await run_to_end(provider.destroy(handle.sandbox_id))


@asynccontextmanager
async def time_limit(call: Call) -> AsyncIterator[None]:
    """Raise InfraError when the rollout's time is over."""
    try:
        async with asyncio.timeout(call.remaining_s) as clock:
            yield
    except TimeoutError as error:
        if not clock.expired():
            raise
        raise InfraError("the rollout's time is over (rollout_timeout_s)", kind="timeout") from error


async def run_to_end(work: Awaitable[None]) -> None:
    """Await `work` to its end, also when the caller is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _group_of(stamp: Stamp) -> str | None:
    """Name the group of a rollout: no member of another one has the same name. None: it is in none."""
    if stamp.group_id is None:
        return None
    return f"{stamp.run_id}:{stamp.epoch}:{stamp.cohort}:{stamp.group_id}"
