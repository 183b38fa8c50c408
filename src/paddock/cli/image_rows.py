"""Rows as `paddock images` reads them, and its sub-commands that only look, name and remove.

Rows    JSONL; fields of the row itself, of its `responses_create_params.metadata` and of an `instance_dict` in it count
        as one, the outer ones first. Two rows of one image are one image. What names no image so is read as the `swe`
        resources server reads it.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from paddock.cli.publishers import publishers
from paddock.errors import ConfigError, PaddockError, RowError, describe
from paddock.sandbox.images import (
    DATASETS,
    ImageSettings,
    ImageStore,
    disk_bytes,
    image_name,
    layers_in_use,
    prune,
)
from paddock.sandbox.images.names import Dataset, dataset_of
from paddock.types import Json, JsonObject

if TYPE_CHECKING:
    from paddock.resources_servers.swe.instance import SweInstance
    from paddock.resources_servers.swe.publishers import PublisherTools

UNITS = ("B", "kB", "MB", "GB", "TB")


def read_rows(args: argparse.Namespace) -> list[JsonObject]:
    """The rows that a command names, as they are; ConfigError says which line is none."""
    if args.rows is None:
        raise ConfigError("name a file of rows: --rows FILE", kind="no_rows")
    try:
        lines = args.rows.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"{args.rows}: {error.strerror}", kind="rows_unreadable") from None
    rows = list(_parse(args.rows, lines))
    return rows if args.limit is None else rows[: args.limit]


def image_settings(args: argparse.Namespace) -> ImageSettings:
    """The `images` settings that flags say."""
    dataset = None
    if args.dataset is not None:
        dataset = dataset_of(args.dataset)
        if dataset is None:
            raise ConfigError(f"--dataset {args.dataset!r}: known are {', '.join(DATASETS)}", kind="dataset_unknown")
    try:
        return ImageSettings(
            container_formatter=getattr(args, "formatter", []),
            registry=getattr(args, "registry", None),
            dataset=dataset,
        )
    except ValueError as error:
        raise ConfigError(f"--formatter: {error}", kind="formatter") from None


def print_names(args: argparse.Namespace) -> int:
    settings, tools = image_settings(args), publishers(args)
    failed = 0
    seen = set()
    for row in read_rows(args):
        try:
            name = named_image(row, settings.dataset, tools)
        except RowError as error:
            failed += 1
            say(f"{label(row)}: {error}")
            continue
        if name not in seen:
            seen.add(name)
            print(name)  # noqa: T201 - the command's voice
    return 1 if failed else 0


def named_image(row: JsonObject, dataset: Dataset | None, tools: "PublisherTools | None" = None) -> str:
    """The name of a row's image: by its fields or a dataset's rule, else as an evaluation reads it."""
    try:
        return image_name(flat(row), dataset)
    except RowError as unnamed:
        if dataset is not None:
            raise
        try:
            return read_instance(row, tools).image
        except RowError as unread:
            raise RowError(f"{unnamed.message}; and as an instance: {unread.message}", kind=unnamed.kind) from unread


def read_instance(row: JsonObject, tools: "PublisherTools | None" = None) -> "SweInstance":
    """The instance of a row, as the `swe` resources server reads it."""
    from paddock.resources_servers.swe.rows import read
    from paddock.types import Row

    try:
        return read(Row.from_wire({"responses_create_params": {"input": []}, **row}), tools)
    except ValidationError as error:
        raise RowError(describe(error), kind="row_invalid") from error


def print_images(store: ImageStore) -> int:
    records = store.records()
    sizes: dict[str, int] = {}
    for record in records:
        for layer in record.layers:
            if layer not in sizes:
                sizes[layer] = disk_bytes([store.home / "layers" / layer])
    width = max((len(record.name) for record in records), default=0)
    for record in records:
        size = human(sum(sizes[layer] for layer in record.layers))
        origin = " ".join(f"{key}={_brief(value)}" for key, value in record.origin.items() if key in _SHOWN)
        print(f"{record.name:<{width}}  {size:>8}  {len(record.layers)} layers  {origin}")  # noqa: T201 - as above
    total = human(sum(sizes.values()))
    print(f"{len(records)} images, {len(sizes)} layers, {total} in {store.home}")  # noqa: T201 - as above
    return 0


def remove(store: ImageStore, names: list[str]) -> int:
    """Forget images; one that a living sandbox stands on stays."""
    used, failed = layers_in_use(), 0
    for name in names:
        try:
            record = store.get(name).record
            others = {layer for other in store.records() if other.name != name for layer in other.layers}
            if (set(record.layers) - others) & used:
                raise RowError(f"{name} is in use by a sandbox: remove it when that has ended", kind="image_in_use")
            store.remove(name)
        except PaddockError as error:
            failed += 1
            say(str(error))
    return 1 if failed else 0


def prune_store(store: ImageStore, *, everything: bool) -> int:
    done = prune(store, everything=everything)
    parts = f"{done.blobs} downloads, {done.layers} layers, {done.stages} unfinished builds"
    print(f"{human(done.bytes)} freed: {parts}")  # noqa: T201 - as above
    if done.busy:
        say("a pull is running: its downloads were not touched; prune again when it has ended")
    return 1 if done.busy else 0


def label(row: JsonObject) -> str:
    return str(row.get("instance_id") or row.get("commit_hash") or "row")


def human(size: float) -> str:
    for unit in UNITS:
        if size < 1000 or unit == UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError(size)


def say(text: str) -> None:
    print(f"paddock images: {text}", file=sys.stderr)  # noqa: T201 - the command's voice


_SHOWN = ("registry", "oci", "oci-archive", "docker-archive", "folder", "sif", "recipe")


def _brief(value: Json) -> str:
    if isinstance(value, dict):
        value = value.get("sdist") or value.get("git") or "..."
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _parse(path: Path, lines: list[bytes]) -> Iterator[JsonObject]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            flat(row)
        except (ValueError, TypeError, AttributeError) as error:
            raise ConfigError(f"{path}:{number}: no row: {error}", kind="row_invalid") from None
        yield row


def flat(row: JsonObject) -> JsonObject:
    """A row with the fields of its metadata and instance at its top level."""
    metadata = (row.get("responses_create_params") or {}).get("metadata") or {}
    instance = metadata.get("instance_dict") or row.get("instance_dict") or {}
    inner = json.loads(instance) if isinstance(instance, str) else instance
    return {**inner, **metadata, **row}
