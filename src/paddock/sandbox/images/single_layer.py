"""Makes an image of one layer for the store: in a stage, in a thread, and it appears whole or not at all.

Cancel   a cancelled caller waits until its thread has let go of the stage; a killed one's stage is swept by the next.
Errors   ImageInvalid as the maker says; what the machine could not do (disk full, no rights) is InfraError.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from paddock.errors import InfraError, boundary
from paddock.sandbox.images.build.base import mover
from paddock.sandbox.images.build.stage import BuildStage, new_stage
from paddock.sandbox.images.store import ImageStore, LocalImage
from paddock.sandbox.images.unpack import UnpackTree
from paddock.types import JsonObject

T = TypeVar("T")


class ImageMetadata(NamedTuple):
    """What an image has beside its tree."""

    env: dict[str, str]
    workdir: str
    origin: JsonObject
    """`make_image` adds `bytes` and `left_out`."""


Fill = Callable[[BuildStage, UnpackTree], ImageMetadata]


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """What `work` returns; when the caller is cancelled, its event is set and its end is waited for."""
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
    with new_stage(store) as stage:

        def work(stop: threading.Event) -> ImageMetadata:
            tree = UnpackTree(stage.tree, owner=store.payload_id, stop=stop, limits=store.limits)
            with boundary(InfraError, f"image {name}", stage="image"):
                metadata = fill(stage, tree)
            return metadata._replace(origin={**metadata.origin, "bytes": tree.bytes, "left_out": tree.left_out})

        metadata = await in_thread(work)
        stage.tree.chmod(stage.tree.stat().st_mode | 0o700)
        return store.add(name, mover(stage.tree), env=metadata.env, workdir=metadata.workdir, origin=metadata.origin)
