"""The end of a process of asyncio's that was killed."""

import asyncio


async def reap(process: asyncio.subprocess.Process) -> None:
    """Wait until a process that has ended, or was killed, is collected, and close what is open of its pipes.

    Cancelled: it waits all the same, before it raises that. A loop that is closed before the process was collected, or
    with a pipe of it open, leaves both to the garbage collector, which complains in somebody else's time.
    """
    waiting = asyncio.ensure_future(process.wait())
    try:
        await asyncio.shield(waiting)
    except asyncio.CancelledError:
        await asyncio.wait([waiting])
        raise
    finally:
        # A child that left the group may hold a pipe.
        process._transport.close()  # type: ignore[attr-defined]
    await asyncio.sleep(0)
