"""The image store: names, and the layers that make them; everything in it belongs to the payload's uid.

Layout  `images/<quoted name>.json` an ImageRecord, written last and atomically: an image that is listed is whole;
        `layers/<id>/fs` one directory tree each, shared between images, never written again.
Layer   as overlayfs has it in a user namespace: a removed path is a character device 0:0, an opaque folder has the
        attribute `user.overlay.opaque=y`. The lowest layer has neither.
Errors  ImageMissing names the nearest image there is; ImageDamaged the record or layer that can't be used. The store
        does not have a damaged image: whoever builds or pulls it makes it again.
"""

import os
import re
import shutil
import uuid
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from pydantic import ValidationError

from paddock.errors import describe
from paddock.sandbox.failures import ImageDamaged, ImageMissing
from paddock.sandbox.images.unpack.limits import ImageLimits
from paddock.types import JsonObject, Record
from paddock.whole_file import write_whole

_LAYER_ID = re.compile("[0-9a-f]{32}")


def is_layer_id(text: str) -> bool:
    """Whether it is one, and so no path to anything else."""
    return _LAYER_ID.fullmatch(text) is not None


class ImageRecord(Record):
    """One image of the store."""

    name: str
    layers: list[str]
    """Ids, lowest first."""
    env: dict[str, str] = {}
    workdir: str = "/"
    origin: JsonObject = {}
    """What it was made from: a recipe, a registry's digest, another image."""


class LocalImage(NamedTuple):
    """An image as a runtime on this machine needs it."""

    record: ImageRecord
    layers: tuple[Path, ...]
    """Directory trees, lowest first."""


class ImageStore:
    """Images below one folder."""

    def __init__(self, home: Path, *, payload_id: int, limits: ImageLimits | None = None) -> None:
        """`limits`: of what is unpacked into it; None: the default ones."""
        self.home = home
        self.limits = limits or ImageLimits()
        self.payload_id = payload_id if os.geteuid() == 0 else os.geteuid()
        self._images = home / "images"
        self._layers = home / "layers"

    def get(self, name: str) -> LocalImage:
        path = self._path(name)
        try:
            record = _read(path)
        except FileNotFoundError:
            near = get_close_matches(name, self.names(), n=1, cutoff=0.6)
            hint = f"; nearest: {near[0]!r}" if near else ""
            raise ImageMissing(f"no image {name!r} in {self.home}{hint}", kind="image_missing") from None
        layers = tuple(self._layers / layer / "fs" for layer in record.layers)
        for layer in layers:
            if not layer.is_dir():
                raise ImageDamaged(
                    f"image {name!r}: its layer {layer} is not there; {_again(name)}", kind="image_damaged"
                )
        return LocalImage(record, layers)

    def has(self, name: str) -> bool:
        """Whether all of it is there."""
        try:
            self.get(name)
        except (ImageMissing, ImageDamaged):
            return False
        return True

    def names(self) -> list[str]:
        return sorted(unquote(path.stem) for path in self._images.glob("*.json"))

    def mark(self) -> str:
        """Another word once another name is there."""
        try:
            return f"{len(list(self._images.iterdir()))}-{self._images.stat().st_mtime_ns}"
        except FileNotFoundError:
            return "none"

    def records(self) -> list[ImageRecord]:
        return [_read(path) for path in sorted(self._images.glob("*.json"))]

    def add(
        self,
        name: str,
        fill: Callable[[Path], None],
        *,
        base: str | None = None,
        env: dict[str, str] | None = None,
        workdir: str | None = None,
        origin: JsonObject | None = None,
    ) -> LocalImage:
        """Make an image of one new layer over `base`; `fill` writes the layer's tree and gives it its owner.

        Nothing half-done stays: the name appears when the layer is whole, a failed layer is removed.
        """
        below = self.get(base).record if base else ImageRecord(name="", layers=[])
        layer = uuid.uuid4().hex
        self._add_layer(layer, fill)
        return self.name(
            ImageRecord(
                name=name,
                layers=[*below.layers, layer],
                env={**below.env, **(env or {})},
                workdir=workdir or below.workdir or "/",
                origin=origin or {},
            )
        )

    def layer(self, layer: str) -> Path | None:
        """The tree of a layer; None: the store has none of that id."""
        tree = self._layers / layer / "fs"
        return tree if is_layer_id(layer) and tree.is_dir() else None

    def copy_layer(self, layer: str, fill: Callable[[Path], None]) -> None:
        """Add a layer of another store under its id, whole or not at all. ValueError: it is no id."""
        if not is_layer_id(layer):
            raise ValueError(f"{layer!r} is no id of a layer")
        copy = uuid.uuid4().hex
        self._add_layer(copy, fill)
        try:
            (self._layers / copy).rename(self._layers / layer)
        except OSError:
            shutil.rmtree(self._layers / copy, ignore_errors=True)
            if self.layer(layer) is None:  # else somebody was quicker
                raise

    def name(self, record: ImageRecord) -> LocalImage:
        """Give layers of this store a name, replacing what had it."""
        self._make_folders()
        write_whole(self._path(record.name), record.model_dump_json(indent=1))
        return self.get(record.name)

    def remove(self, name: str) -> None:
        """Forget a name, and the layers that no other image has."""
        record = self.get(name).record
        self._path(name).unlink()
        used = {layer for other in self.records() for layer in other.layers}
        for layer in record.layers:
            if layer not in used:
                shutil.rmtree(self._layers / layer, ignore_errors=True)

    def own(self, paths: Sequence[Path]) -> None:
        """Give paths to the payload's uid, where we may."""
        if os.geteuid() == 0:
            for path in paths:
                os.chown(path, self.payload_id, self.payload_id, follow_symlinks=False)

    def _add_layer(self, layer: str, fill: Callable[[Path], None]) -> None:
        tree = self._layers / layer / "fs"
        self._make_folders()
        tree.mkdir(parents=True)
        try:
            os.chmod(tree.parent, 0o711)  # noqa: PTH101, S103 - the payload's uid must be able to pass
            fill(tree)
        except BaseException:
            shutil.rmtree(tree.parent, ignore_errors=True)
            raise

    def _path(self, name: str) -> Path:
        return self._images / f"{quote(name, safe='')}.json"

    def _make_folders(self) -> None:
        for folder in (self.home, self._images, self._layers):
            folder.mkdir(parents=True, exist_ok=True)
            os.chmod(folder, 0o711)  # noqa: PTH101, S103 - as above


def _read(path: Path) -> ImageRecord:
    """FileNotFoundError where there is none."""
    data = path.read_bytes()
    try:
        return ImageRecord.model_validate_json(data)
    except ValidationError as error:
        name = unquote(path.stem)
        raise ImageDamaged(
            f"{path}: the record of image {name!r} is not whole: {describe(error)}; {_again(name)}",
            kind="image_damaged",
        ) from None


def _again(name: str) -> str:
    return f"make it again: `paddock images build` from its recipe, or `paddock images pull {name}` from a registry"
