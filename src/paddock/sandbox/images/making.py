"""How an image gets into the store: its one layer is made aside, in a thread, and appears whole or not at all.

Stopped  a cancelled caller waits until its thread has let go of the stage; a killed one's stage is swept by the next.
Errors   ImageInvalid as the maker says; what the machine could not do (disk full, no rights) is InfraError.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from paddock.errors import InfraError, boundary
from paddock.sandbox.images.build.base import mover
from paddock.sandbox.images.build.staging import Stage, staged
from paddock.sandbox.images.store import ImageStore, LocalImage
from paddock.sandbox.images.unpack import Tree
from paddock.types import JsonObject

T = TypeVar("T")


class Made(NamedTuple):
    """What is known of an image beside its tree."""

    env: dict[str, str]
    workdir: str
    origin: JsonObject
    """`bytes` and `left_out` are added by who makes the tree."""


Fill = Callable[[Stage, Tree], Made]


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """What `work` returns; when we are cancelled, it is told to stop and waited for."""
    stop = threading.Event()
    running = asyncio.ensure_future(asyncio.to_thread(work, stop))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        with suppress(Exception):
            await running
        raise


async def make_image(store: ImageStore, name: str, fill: Fill) -> LocalImage:
    """Make an image of one layer from what `fill` writes to a tree."""
    with staged(store) as stage:

        def work(stop: threading.Event) -> Made:
            tree = Tree(stage.tree, owner=store.payload_id, stop=stop, limits=store.limits)
            with boundary(InfraError, f"image {name}", stage="image"):
                made = fill(stage, tree)
            return made._replace(origin={**made.origin, "bytes": tree.bytes, "left_out": tree.left_out})

        made = await in_thread(work)
        stage.tree.chmod(stage.tree.stat().st_mode | 0o700)
        return store.add(name, mover(stage.tree), env=made.env, workdir=made.workdir, origin=made.origin)
