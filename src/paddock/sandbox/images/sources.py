"""Candidates for a row's image, in a stated order, compared whole, never by substring or pattern.

Order   what is here comes before what must be fetched; in each of both: the row's own field, the dataset's rule, then
        `container_formatter`, entry by entry, each with every known rewrite of the id.
Places  `store:NAME`, a path (a `.sif` file or a directory) or `docker://NAME`. `registry` replaces the registry of
        names that rows and rules say, and nothing in the formatter.
Names   whatever the place, the store calls the image by the row's field or rule; only a row that has neither is
        called by the place.
Errors  ImageMissing lists every candidate that was tried.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from string import Formatter
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, field_validator

from paddock.errors import RowError
from paddock.sandbox.failures import ImageMissing
from paddock.sandbox.images.names import (
    Dataset,
    dataset_of,
    field_name,
    parse_name,
    replace_registry,
    rewrites,
    rule_name,
)
from paddock.sandbox.images.unpack.limits import ImageLimits
from paddock.types import Json

STORE = "store:"
REMOTE = ("docker://", "oras://", "library://", "shub://")
"""Kinds of places that nothing here can look up."""


class ImageSettings(BaseModel):
    """The `images` block of a config."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    container_formatter: str | list[str] = []
    """Places with `{instance_id}` in them; a directory without it stands for `DIRECTORY/{instance_id}.sif`."""
    registry: str | None = None
    """`host[:port][/path]` in front of the namespace of names that rows say or that are computed; None: as they are."""
    dataset: Dataset | None = None
    """Whose rule names images; None: by the row's `dataset` or `dataset_name`."""
    local_repositories: list[Path] = []
    """Folders of this machine, absolute or from `~`: a row's recipe may name a git repository in or below them, links
    followed. Empty: rows may name URLs alone. Who writes rows can have the files of these repositories in an image."""
    require_hashes: bool = False
    """Refuse to build a row's recipe whose pins have no hashes; else what the package index has on the day is taken."""
    limits: ImageLimits = ImageLimits()
    """What one image may take of this machine when it is unpacked; more is refused before it is written."""

    @field_validator("local_repositories")
    @classmethod
    def _absolute(cls, folders: list[Path]) -> list[Path]:
        for folder in folders:
            if not (folder.is_absolute() or folder.parts[:1] == ("~",)):
                raise ValueError(f"{str(folder)!r} is no absolute path; a row is read wherever the server was started")
        return [folder.expanduser() for folder in folders]

    @field_validator("container_formatter")
    @classmethod
    def _fields(cls, value: str | list[str]) -> str | list[str]:
        for entry in [value] if isinstance(value, str) else value:
            unknown = {name for _text, name, *_rest in Formatter().parse(entry) if name is not None} - {"instance_id"}
            if unknown:
                raise ValueError(f"{entry!r}: {sorted(unknown)} unknown; only {{instance_id}} is filled in")
        return value

    @property
    def entries(self) -> list[str]:
        return [self.container_formatter] if isinstance(self.container_formatter, str) else self.container_formatter


class ImageSource(NamedTuple):
    """An image, and where it is."""

    name: str
    """As the store calls it, or shall."""
    location: str
    """`store:NAME`, a path, or `docker://NAME`."""

    @property
    def kind(self) -> Literal["store", "file", "remote"]:
        if self.location.startswith(STORE):
            return "store"
        return "remote" if self.location.startswith(REMOTE) else "file"


def candidates(row: Mapping[str, Json], settings: ImageSettings) -> list[ImageSource]:
    """Every place that may hold the row's image, the best first."""
    dataset = settings.dataset or dataset_of(str(row.get("dataset") or row.get("dataset_name") or ""))
    own_name = field_name(row)
    name_by_rule = rule_name(row, dataset) if dataset and (row.get("instance_id") or row.get("commit_hash")) else None
    named = list(dict.fromkeys(name for name in (own_name, name_by_rule) if name is not None))
    own = named[0] if named else None
    sources = [ImageSource(name, STORE + name) for name in named]
    instance_id = row.get("instance_id")
    formatted = _formatted(settings.entries, instance_id) if isinstance(instance_id, str) and instance_id else []
    for location in formatted:
        sources.append(ImageSource(own or _called(location), location))
        if own is None:
            sources.append(ImageSource(_called(location), STORE + _called(location)))
    # A local build has no registry: its name would be looked up where anyone may own it.
    sources += [
        ImageSource(name, "docker://" + (replace_registry(name, settings.registry) if settings.registry else name))
        for name in named
        if dataset != "swe_bench_local" or name == own_name
    ]
    order = {"store": 0, "file": 1, "remote": 2}
    return sorted(dict.fromkeys(sources), key=lambda source: (order[source.kind], source.location in formatted))


def resolve(row: Mapping[str, Json], settings: ImageSettings, exists: Callable[[ImageSource], bool]) -> ImageSource:
    """The first candidate that is there; `exists` decides, also whether a registry may be asked."""
    sources = candidates(row, settings)
    for source in sources:
        if exists(source):
            return source
    if not sources:
        raise RowError(
            f"row {row.get('instance_id')!r} names no image, no dataset is known to compute it by, "
            "and no container_formatter is set",
            kind="image_unnamed",
        )
    places = "\n  ".join(source.location for source in sources)
    raise ImageMissing(f"no image for {row.get('instance_id')!r}; tried:\n  {places}", kind="image_missing")


def _formatted(entries: list[str], instance_id: str) -> list[str]:
    if "/" in instance_id or "\0" in instance_id or instance_id in (".", ".."):
        raise RowError(f"instance_id {instance_id!r} is no name: it would lead out of a folder", kind="instance_id")
    locations = []
    for entry in entries:
        whole = entry if "{" in entry else f"{entry.rstrip('/')}/{{instance_id}}.sif"
        for form in rewrites(instance_id):
            location = whole.format(instance_id=form)
            # A registry's names are lower case: another form could not be asked for.
            if not location.startswith("docker://") or location == location.lower():
                locations.append(location)
    return list(dict.fromkeys(locations))


def _called(location: str) -> str:
    """The name of an image that only its place names."""
    return str(parse_name(location)) if location.startswith("docker://") else Path(location).name.removesuffix(".sif")
