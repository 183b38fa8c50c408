"""The sub-commands of `paddock images` that make images: bounded, with a bar per image, each failing alone.

Output  one line on stdout per image that is there; how long it took, or why another is not, on stderr. Bars only on a
        terminal.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from paddock.cli.image_builds import BuildOptions, open_builder
from paddock.cli.image_rows import flat, image_settings, label, named_image, read_instance, read_rows, say
from paddock.cli.local_repositories import local_repositories
from paddock.cli.publishers import publishers
from paddock.cli.workers import items_at_once, worker_spread
from paddock.errors import ConfigError, PaddockError, RowError, describe
from paddock.sandbox.failures import ImageMissing
from paddock.sandbox.images import (
    ImageSource,
    ImageStore,
    ProgressMeter,
    Puller,
    Recipe,
    RegistryOptions,
    candidates,
    replace_registry,
    to_sif,
    to_store,
)
from paddock.sandbox.images.names import parse_name

RECIPE_KEYS = (
    "a recipe is the key `build` of a row of the own format, the key `paddock` of any other: an object with "
    f"{', '.join(Recipe.model_fields)}"
)
Job = Callable[[ProgressMeter], Awaitable[str | None]]
"""Returns what is to be said of the image besides its time."""


def pull(store: ImageStore, args: argparse.Namespace) -> int:
    _check(args)
    if not args.names and args.rows is None:
        raise ConfigError("name images, or rows: --rows FILE", kind="no_images")
    settings, tools = image_settings(args), publishers(args)
    named = [ImageSource(_full_name(name), _docker_source(name, args.registry)) for name in args.names]
    rows = read_rows(args) if args.rows else []

    async def work() -> int:
        async with Puller(store, _options(args)) as puller:
            jobs = {source.name: _pull_first(puller, [source], args.again) for source in named}
            failed = 0
            for row in rows:
                try:
                    places = candidates(flat(row), settings)
                    if not places:
                        places = candidates({**flat(row), "image": named_image(row, settings.dataset, tools)}, settings)
                    jobs.setdefault(places[0].name, _pull_first(puller, places, args.again))
                except PaddockError as error:
                    failed += 1
                    say(f"{label(row)}: {error}")
            return await _run(jobs, args.jobs, failed)

    return asyncio.run(work())


def convert(store: ImageStore, args: argparse.Namespace) -> int:
    _check(args)
    target, source = Path(args.target), args.source
    if source.startswith("docker://"):
        source = _docker_source(source, args.registry)

    async def work() -> int:
        async with Puller(store, _options(args)) as puller:

            async def job(meter: ProgressMeter) -> None:
                if target.suffix == ".sif":
                    await to_sif(puller, source, target, meter=meter)
                else:
                    await to_store(puller, source, args.target, meter=meter)

            return await _run({args.target: job}, 1, 0)

    return asyncio.run(work())


def build(store: ImageStore, args: argparse.Namespace) -> int:
    _check(args)
    if (args.recipe is None) == (args.rows is None):
        raise ConfigError("name a recipe's file, or rows with recipes: --rows FILE", kind="no_recipe")
    if args.recipe is not None and args.name is None:
        raise ConfigError("--name NAME: what shall the store call it?", kind="no_name")
    local = local_repositories(args)
    recipes, failed = ({args.name: read_recipe(Path(args.recipe))}, 0) if args.recipe else _row_recipes(args)

    if (bare := [name for name, recipe in recipes.items() if not recipe.is_hashed]) and not args.require_hashes:
        more = f" and {len(bare) - 1} more" if len(bare) > 1 else ""
        say(f"{bare[0]}{more}: the recipe's pins have no hashes: what comes is what the package index has now")

    options = BuildOptions(
        home=args.home.absolute() if args.home else None,
        limits=store.limits,
        local_repositories=local,
        require_hashes=args.require_hashes,
    )
    at_once, spread, n_images = items_at_once(args, "jobs"), worker_spread(args), len(recipes)

    async def work() -> int:
        async with open_builder(options, spread, at_once=at_once, n_images=n_images) as build_one:

            def job(name: str, recipe: Recipe) -> Job:
                return lambda meter: build_one(name, recipe, meter.stage)

            jobs = {name: job(name, recipe) for name, recipe in recipes.items()}
            return await _run(jobs, spread.n_at_once(at_once, n_images), failed)

    try:
        return asyncio.run(work())
    except ConfigError:
        raise
    except PaddockError as error:
        say(error.message)
        return 1


def read_recipe(path: Path) -> Recipe:
    """A recipe from a YAML or JSON file."""
    import yaml

    try:
        return Recipe.model_validate(yaml.safe_load(path.read_bytes()))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", kind="recipe") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: neither YAML nor JSON: {error}", kind="recipe") from None
    except ValidationError as error:
        raise ConfigError(f"{path}: {describe(error)}", kind="recipe") from None


def _row_recipes(args: argparse.Namespace) -> tuple[dict[str, Recipe], int]:
    """Recipes of rows by the names that their images have for `resources_servers/swe`, and how many can't be read."""
    recipes, failed, tools = {}, 0, publishers(args)
    for row in read_rows(args):
        try:
            instance = read_instance(row, tools)
        except RowError as error:
            failed += 1
            say(f"{label(row)}: {error.message}")
            continue
        if instance.build is not None:
            recipes[instance.image] = instance.build
    if not recipes:
        raise ConfigError(f"{args.rows}: no row has a recipe; {RECIPE_KEYS}", kind="no_recipe")
    return recipes, failed


def _pull_first(puller: Puller, places: list[ImageSource], again: bool) -> Job:
    """Take an image from the first of its places that has it."""

    async def job(meter: ProgressMeter) -> None:
        attempts = []
        for source in places:
            if source.kind == "store":
                if puller.store.has(source.name) and not again:
                    return
                continue
            if source.kind == "file" and not Path(source.location).exists():  # noqa: ASYNC240 - one look
                attempts.append(source.location)
                continue
            try:
                if source.location.startswith("docker://"):
                    await puller.pull(source.name, source.location, meter=meter, again=again)
                else:
                    await to_store(puller, source.location, source.name, meter=meter)
                return
            except ImageMissing as error:
                attempts.append(f"{source.location}: {error}")
        raise ImageMissing("nowhere; tried:\n  " + "\n  ".join(attempts), kind="image_missing")

    return job


async def _run(jobs: dict[str, Job], at_once: int, failed: int) -> int:
    """Run jobs by name; the exit code."""
    slots = asyncio.Semaphore(at_once)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bars:

        async def run_job(name: str, job: Job) -> bool:
            async with slots:
                bar = ProgressBar(bars, name)
                try:
                    note = await job(bar)
                except (PaddockError, OSError) as error:
                    bars.console.print(
                        f"paddock images: {name}: {error}", markup=False, highlight=False, soft_wrap=True
                    )
                    return False
                finally:
                    bar.close()
                print(name, flush=True)  # noqa: T201 - the command's voice
                bars.console.print(
                    f"{name}: {bar.seconds:.1f} s{note or ''}", markup=False, highlight=False, soft_wrap=True
                )
                return True

        done = await asyncio.gather(*(run_job(name, job) for name, job in jobs.items()))
    return 1 if failed or not all(done) else 0


class ProgressBar:
    """A meter on the terminal, from when something is said by it: workers may come to its job later."""

    def __init__(self, bars: Progress, name: str) -> None:
        self._bars = bars
        self._name = name if len(name) <= 60 else "..." + name[-57:]
        self._since = time.monotonic()
        self._shown: TaskID | None = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._since

    def total(self, all_bytes: int) -> None:
        self._bars.update(self._task, total=all_bytes)

    def advance(self, fetched_bytes: int) -> None:
        self._bars.advance(self._task, fetched_bytes)

    def stage(self, what: str) -> None:
        self._bars.update(self._task, description=f"{self._name} [dim]{what}[/dim]")

    def close(self) -> None:
        if self._shown is not None:
            self._bars.remove_task(self._shown)

    @property
    def _task(self) -> TaskID:
        if self._shown is None:
            self._shown, self._since = self._bars.add_task(self._name, total=None), time.monotonic()
        return self._shown


def _full_name(name: str) -> str:
    try:
        return str(parse_name(name))
    except RowError as error:
        raise ConfigError(error.message, kind="image_name") from None


def _docker_source(name: str, registry: str | None) -> str:
    """Where a name is asked for."""
    name = _full_name(name)
    return f"docker://{_full_name(replace_registry(name, registry)) if registry else name}"


def _options(args: argparse.Namespace) -> RegistryOptions:
    return RegistryOptions(connections=args.connections, insecure=frozenset(args.insecure))


def _check(args: argparse.Namespace) -> None:
    for flag in ("jobs", "connections", "limit"):
        value = getattr(args, flag, None)
        if value is not None and value < 1:
            raise ConfigError(f"--{flag} needs 1 or more", kind="flag_invalid")
