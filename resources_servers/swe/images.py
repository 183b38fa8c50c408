"""Which image of the store an instance runs in."""

import asyncio

from paddock.errors import RowError
from paddock.resources_servers.swe.instance import Instance
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.build import build_image


def resolve_image(instance: Instance) -> str:
    """The name that the image store has it under."""
    if not instance.image:
        raise RowError(f"{instance.instance_id}: the row names no image", kind="image_missing", stage="seed")
    return instance.image


async def ensure_image(store: ImageStore, instance: Instance, *, build: bool) -> str:
    """The same, once it is in the store; `build` makes it from the row's recipe where it is not."""
    name = resolve_image(instance)
    if build and instance.build is not None and not await asyncio.to_thread(store.has, name):
        await build_image(store, name, instance.build)
    return name
