"""What builds images of recipes: this process, or worker processes here or on the nodes of a cluster.

Spread  a recipe goes to the worker that is free first, and its image to the store of that worker's machine alone; the
        node is said. An image that a store has already is not built again there, and that is said, too.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from paddock.collect.item_work import ItemResult, MakeItem, WorkItem
from paddock.collect.items import ItemWork, open_item_workers
from paddock.collect.worker_spread import WorkerSpread
from paddock.sandbox.images import ImageLimits, ImageStore, Recipe
from paddock.sandbox.images.build import Progress, build_image
from paddock.sandbox.settings import SandboxSettings
from paddock.types import JsonObject, Record

OPENS = f"{__name__}:open_builds"
Build = Callable[[str, Recipe, Progress], Awaitable[str]]
"""Builds an image of a name; returns what is to be said of it, nothing most of the time."""


class BuildOptions(Record):
    """How images are built."""

    home: Path | None = None
    """The store; None: as each machine has it."""
    limits: ImageLimits = ImageLimits()
    local_repositories: list[Path] = []
    """Folders of this machine, or of each worker's, that a recipe's repository may lie in."""
    require_hashes: bool = False


@asynccontextmanager
async def open_builder(
    options: BuildOptions, spread: WorkerSpread, *, at_once: int | None, n_images: int
) -> AsyncIterator[Build]:
    """What builds that many images. `at_once`: None: one by each worker."""
    if spread.is_here:
        yield _builder(options)
        return
    work = ItemWork(OPENS, options.model_dump(mode="json"))
    async with open_item_workers(work, spread, at_once=at_once, n_items=n_images) as workers:

        async def build_there(name: str, recipe: Recipe, progress: Progress) -> str:
            item = {"name": name, "recipe": recipe.model_dump(mode="json")}
            made = await workers.make(item, on_progress=progress)
            where = f", on {made.where}" if made.where is not None else ""
            return f"{made.result['note']}{where}"

        yield build_there


@asynccontextmanager
async def open_builds(given: JsonObject) -> AsyncIterator[MakeItem]:
    """What a worker does."""
    build = _builder(BuildOptions.model_validate(given))

    async def make(item: WorkItem) -> ItemResult:
        recipe = Recipe.model_validate(item.value["recipe"])
        return ItemResult({"note": await build(item.value["name"], recipe, item.on_progress)})

    yield make


def _builder(options: BuildOptions) -> Build:
    settings = SandboxSettings(home=options.home) if options.home is not None else SandboxSettings()
    store = ImageStore(settings.home, payload_id=settings.payload_id, limits=options.limits)

    async def build(name: str, recipe: Recipe, progress: Progress) -> str:
        before = store.get(name).record if store.has(name) else None
        image = await build_image(
            store,
            name,
            recipe,
            progress=progress,
            local_repositories=options.local_repositories,
            require_hashes=options.require_hashes,
        )
        return ", was there already" if image.record == before else ""

    return build
