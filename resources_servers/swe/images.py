"""Which image of the store an instance runs in, and how it gets there: built by its recipe, else pulled.

Where   `paddock.sandbox.images.sources`: the row's own name or its dataset's rule, `container_formatter`, a registry.
Errors  RowError for a row that names no image, or one that is nowhere (every place that was tried is listed);
        ImageDamaged for one that this machine's store has lost a part of and may not make again; InfraError names the
        row and its image.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from paddock.config import RenamedKeys
from paddock.errors import InfraError, RowError
from paddock.resources_servers.swe.instance import SweInstance
from paddock.sandbox import ImageDamaged, ImageMissing
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.build import build_image
from paddock.sandbox.images.convert import to_store
from paddock.sandbox.images.pull import Puller
from paddock.sandbox.images.sources import ImageSettings, ImageSource, resolve

_log = logging.getLogger(__name__)


class SweImages(RenamedKeys, ImageSettings):
    """The `images` block of a SWE server."""

    OLD_NAMES: ClassVar[Mapping[str, str]] = {"gets_at_once": "max_concurrent_images"}

    get_missing: bool = True
    """Build an image that is not in the store where its row has a recipe, else convert or pull it. Needs the package
    indexes, or the registry; false: such a row is an error."""
    max_concurrent_images: int = Field(default=2, ge=1)
    """Images that are built or pulled at the same time."""


def resolve_image(instance: SweInstance) -> str:
    """Return the name that the store has the instance's image under; RowError where the row names none."""
    if not instance.image:
        raise RowError(f"{instance.instance_id}: the row names no image", kind="image_missing", stage="seed")
    return instance.image


class Images:
    """The images of instances in one store; each is got once."""

    def __init__(self, store: ImageStore, settings: SweImages) -> None:
        self._store = store
        self._settings = settings
        self._turns = asyncio.Semaphore(settings.max_concurrent_images)
        self._locks: dict[str, asyncio.Lock] = {}

    async def ensure(self, instance: SweInstance) -> str:
        """Get the instance's image into the store where it is not there; returns its name."""
        name = resolve_image(instance)
        if await asyncio.to_thread(self._store.has, name):
            return name
        # One getter per image: the others find it there.
        async with self._locks.setdefault(name, asyncio.Lock()), self._turns:
            if not await asyncio.to_thread(self._store.has, name):
                try:
                    await self._get(instance, name)
                except ImageDamaged:
                    raise
                except InfraError as error:
                    message = f"{instance.instance_id}: image {name}: {error.message}"
                    raise InfraError(message, kind=error.kind, stage=error.stage, retryable=error.retryable) from error
        return name

    async def _get(self, instance: SweInstance, name: str) -> None:
        settings = self._settings
        if instance.build is not None and settings.get_missing:
            if not instance.build.is_hashed and not settings.require_hashes:
                _log.warning("%s: the recipe's pins have no hashes: what comes is what the package index has now", name)
            await build_image(
                self._store,
                name,
                instance.build,
                local_repositories=settings.local_repositories,
                require_hashes=settings.require_hashes,
            )
            return
        try:
            source = resolve({"instance_id": instance.instance_id, "image": name}, settings, self._is_there)
        except ImageMissing:
            with suppress(ImageMissing):
                await asyncio.to_thread(self._store.get, name)  # one that is there and damaged says so
            raise
        async with Puller(self._store) as puller:
            await to_store(puller, source.location, name)

    def _is_there(self, source: ImageSource) -> bool:
        if source.kind == "store":
            return self._store.has(source.name)
        if source.kind == "file":
            return Path(source.location).exists()
        return self._settings.get_missing
