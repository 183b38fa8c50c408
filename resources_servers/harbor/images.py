"""Images of tasks: an existing one by its name, a Dockerfile built by a container engine; each is got once.

Names   a published image has its own name in the store; a built one `harbor/<folder>:<hash>`, of its context's files,
        so a changed task is built anew. `paddock/python:3.N` is this package's own (`paddock.sandbox.images.build`).
Errors  ConfigError where no engine works; InfraError for a build or a registry that fails; RowError for an image that
        is nowhere.
"""

import asyncio
import hashlib
import logging
import re
import shutil
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from paddock.errors import RowError
from paddock.resources_servers.harbor.task import ImageRecipe, folder_digest
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.build import python_image
from paddock.sandbox.images.dockerfile import Builder, BuildNetwork, build_dockerfile
from paddock.sandbox.images.pull import Puller
from paddock.sandbox.images.store import LocalImage

_OWN = re.compile(r"paddock/python:(3\.\d+)")
_log = logging.getLogger("paddock.harbor")


class HarborImages(BaseModel):
    """The `images` block of a Harbor server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    builder: Builder | None = None
    """The container engine for Dockerfiles; None: the first of podman, buildah and docker that works."""
    build_network: BuildNetwork = "default"
    """The network of a build's commands: the engine's own, this machine's, or none."""
    prefer_built: bool = False
    """Build the Dockerfile of a task that names an image, too; else that image is taken."""
    get_missing: bool = True
    """Build or pull what is not in the store; false: such a row is an error."""


class TaskImages:
    """The images of tasks in one store."""

    def __init__(self, store: ImageStore, settings: HarborImages) -> None:
        self._store = store
        self._settings = settings
        self._locks: dict[str, asyncio.Lock] = {}

    async def ensure(self, recipe: ImageRecipe) -> LocalImage:
        """Get the image of a recipe into the store where it is not there."""
        context = recipe.context if recipe.name is None or self._settings.prefer_built else None
        if context or recipe.files:
            name = await asyncio.to_thread(_built_name, context, recipe)
        else:
            name = str(recipe.name)
        async with self._locks.setdefault(name, asyncio.Lock()):
            if await asyncio.to_thread(self._store.has, name):
                return await asyncio.to_thread(self._store.get, name)
            if not self._settings.get_missing:
                raise RowError(f"image {name} is not in the store (images.get_missing)", kind="image_missing")
            return await self._get(recipe, name, context)

    async def _get(self, recipe: ImageRecipe, name: str, context: Path | None) -> LocalImage:
        if context is None and recipe.files is not None:
            base = await self.ensure(recipe._replace(files=None))
            workdir = recipe.workdir or base.record.workdir
            fill = partial(_copy_files, self._store, recipe.files, workdir)
            return await asyncio.to_thread(self._store.add, name, fill, base=base.record.name, workdir=workdir)
        if context is not None:
            return await build_dockerfile(
                self._store,
                name,
                context,
                builder=self._settings.builder,
                network=self._settings.build_network,
                timeout_s=recipe.timeout_s,
            )
        own = _OWN.fullmatch(name)
        if own:
            return await python_image(self._store, own[1], _log.info)
        async with Puller(self._store) as puller:
            return await puller.pull(name)


def _copy_files(store: ImageStore, files: Path, workdir: str, tree: Path) -> None:
    """Fill a layer with a folder's files at the workdir."""
    target = tree / workdir.strip("/")
    shutil.copytree(files, target, symlinks=True)
    store.own([tree, *tree.rglob("*")])


def _built_name(context: Path | None, recipe: ImageRecipe) -> str:
    """Name what is made: by the Dockerfile's folder, or by the image, the workdir and the files that go there."""
    if context is None:
        assert recipe.files is not None
        key = hashlib.sha256(f"{recipe.name} {recipe.workdir} {folder_digest(recipe.files)}".encode()).hexdigest()
        return f"harbor/{_label(recipe.files)}:{key[:16]}"
    return f"harbor/{_label(context)}:{folder_digest(context)[:16]}"


def _label(context: Path) -> str:
    folder = context.parent if context.name in ("environment", "tests") else context
    return re.sub(r"[^a-z0-9_.-]+", "-", folder.name.lower()).strip("-.") or "task"
