"""The rollout clients of this process: one for each config and engine, opened when it is first needed.

Law     agent loops are made for each sample; the servers are not. A client is bound to the event loop of the worker
        that asked, for there its engine runs; when that loop is closed, the client is closed at the next call.
Errors  those of `open_rollouts`; a later call tries again.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from paddock.rollouts import RolloutClient

OpenClient = Callable[[], RolloutClient]


class _Opening(NamedTuple):
    """A client that is open, or being opened, and whose it is."""

    loop: asyncio.AbstractEventLoop
    owner: object
    client: "asyncio.Task[RolloutClient]"


_openings: dict[tuple[str, int, int], _Opening] = {}


async def client_of(key: str, owner: object, open_client: OpenClient) -> RolloutClient:
    """The client of a config and of the engine of `owner`, in this event loop. `open_client` is called in a thread."""
    await _close_left_ones()
    loop = asyncio.get_running_loop()
    name = (key, id(owner), id(loop))
    if name not in _openings:
        opening = asyncio.create_task(asyncio.to_thread(open_client))
        _openings[name] = _Opening(loop, owner, opening)
    try:
        return await asyncio.shield(_openings[name].client)
    except Exception:
        _openings.pop(name, None)
        raise


async def close_clients() -> None:
    """Close all clients of this process."""
    for name in list(_openings):
        await _close(_openings.pop(name))


async def _close_left_ones() -> None:
    for name, opening in list(_openings.items()):
        if opening.loop.is_closed() and _openings.pop(name, None) is not None:
            await _close(opening)


async def _close(opening: _Opening) -> None:
    task = opening.client
    if task.done() and not task.cancelled() and task.exception() is None:
        await asyncio.to_thread(task.result().close)
