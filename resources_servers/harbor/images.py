"""Images of tasks: an existing one by its name, a Dockerfile built by a container engine; each is got once.

Folders every task finds `/logs/agent`, `/logs/verifier`, `/logs/artifacts` and its workdir: a layer over its image.
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
LOGS = ("logs/agent", "logs/verifier", "logs/artifacts")
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
        """Get the image of a recipe, with the folders that every task has, into the store where it is not there."""
        context = recipe.context if recipe.name is None or self._settings.prefer_built else None
        name = await asyncio.to_thread(_built_name, context) if context else str(recipe.name)
        async with self._locks.setdefault(name, asyncio.Lock()):
            base = await self._base(recipe, name, context)
            shown = await asyncio.to_thread(_shown_name, base, recipe)
            if not await asyncio.to_thread(self._store.has, shown):
                await asyncio.to_thread(self._add_folders, base, recipe, shown)
            return await asyncio.to_thread(self._store.get, shown)

    async def _base(self, recipe: ImageRecipe, name: str, context: Path | None) -> LocalImage:
        if await asyncio.to_thread(self._store.has, name):
            return await asyncio.to_thread(self._store.get, name)
        if not self._settings.get_missing:
            raise RowError(f"image {name} is not in the store (images.get_missing)", kind="image_missing")
        return await self._get(recipe, name, context)

    async def _get(self, recipe: ImageRecipe, name: str, context: Path | None) -> LocalImage:
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

    def _add_folders(self, base: LocalImage, recipe: ImageRecipe, name: str) -> None:
        """Make a layer over the base: the folders for logs, the workdir, and in that the files of the recipe."""
        workdir = recipe.workdir or base.record.workdir
        if ".." in Path(workdir).parts or not workdir.startswith("/"):
            raise RowError(f"{name}: workdir {workdir!r}: needs an absolute path without `..`", kind="harbor_invalid")

        def fill(tree: Path) -> None:
            for folder in LOGS:
                (tree / folder).mkdir(parents=True)
            if recipe.files is not None:
                shutil.copytree(recipe.files, tree / workdir.strip("/"), symlinks=True, dirs_exist_ok=True)
            elif not _has_folder(base, workdir):
                (tree / workdir.strip("/")).mkdir(parents=True)
            self._store.own([tree, *tree.rglob("*")])

        self._store.add(name, fill, base=base.record.name, workdir=workdir)


def _has_folder(image: LocalImage, path: str) -> bool:
    return any((layer / path.strip("/")).exists() for layer in image.layers)


def _shown_name(base: LocalImage, recipe: ImageRecipe) -> str:
    """Name what sandboxes are made of: by the base's layers, the workdir and the files that go there."""
    files = folder_digest(recipe.files) if recipe.files else ""
    key = "\0".join([*base.record.layers, recipe.workdir or "", files])
    return f"{base.record.name}#harbor-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def _built_name(context: Path) -> str:
    folder = context.parent if context.name in ("environment", "tests") else context
    label = re.sub(r"[^a-z0-9_.-]+", "-", folder.name.lower()).strip("-.") or "task"
    return f"harbor/{label}:{folder_digest(context)[:16]}"
