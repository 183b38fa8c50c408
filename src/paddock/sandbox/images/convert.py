"""Any image into any form: archives, layouts, folders, `.sif` files, registries' and the store's; into the store or a
`.sif`.

Source   a path; `docker://NAME`, `oras://...`, `library://...`; or an image of the store by name. A path may end in
         `#TAG` where an archive holds several images.
Root     a folder without `oci-layout` is a root file system.
Errors   ImageMissing when a source is nowhere; ImageInvalid; InfraError.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from paddock.errors import ConfigError, InfraError, boundary
from paddock.sandbox.failures import ImageInvalid, ImageMissing
from paddock.sandbox.images.build.base import mover
from paddock.sandbox.images.build.staging import Stage, locked, staged
from paddock.sandbox.images.making import Made, in_thread, make_image
from paddock.sandbox.images.oci import is_layout, is_tagged, machine, open_layout, write_layout
from paddock.sandbox.images.pull import SILENT, Meter, Puller
from paddock.sandbox.images.sif import build_sif, read_sif, unpack_sif
from paddock.sandbox.images.sources import REMOTE
from paddock.sandbox.images.store import ImageStore, LocalImage
from paddock.sandbox.images.unpack import (
    Budget,
    ImageLimits,
    Tree,
    adopt,
    apply_layer,
    copy_folder,
    measure_layer,
    write_layer,
)

_LAYER = "application/vnd.oci.image.layer.v1.tar"


class Place(NamedTuple):
    """A source, read."""

    path: Path
    tag: str | None


def read_place(source: str) -> Place | None:
    """A source as a path that is there; None: it is none."""
    if source.startswith(REMOTE):
        return None
    if Path(source).exists():
        return Place(Path(source).absolute(), None)
    head, mark, tag = source.rpartition("#")
    return Place(Path(head).absolute(), tag) if mark and Path(head).exists() else None


async def to_store(puller: Puller, source: str, name: str, *, meter: Meter = SILENT) -> LocalImage:
    """Make the store's image `name` from a source; what had the name is replaced."""
    store = puller.store
    if source.startswith("docker://"):
        return await puller.pull(name, source, meter=meter, again=True)
    place = read_place(source)
    if source.startswith(REMOTE):
        with staged(store) as stage:
            meter.stage("fetching")
            fetched = stage.root / "fetched.sif"
            await build_sif(source, fetched, stage.root)
            return await _from_sif(store, fetched, name, source, meter)
    if place is None:
        raise _nowhere(puller.store, source)
    meter.stage("unpacking")
    async with locked(store, name):
        if place.path.is_file() and place.path.suffix == ".sif":
            return await _from_sif(store, place.path, name, str(place.path), meter)
        return await make_image(store, name, lambda stage, tree: _fill(stage, tree, place))


async def to_sif(puller: Puller, source: str, target: Path, *, meter: Meter = SILENT) -> None:
    """Make a `.sif` from a source."""
    store = puller.store
    place = read_place(source)
    with staged(store) as stage:
        if place is not None:
            meter.stage("building")
            with boundary(InfraError, source, stage="image"):
                spec = await in_thread(lambda _stop: _spec(place, stage, store.limits))
        elif source.startswith("docker://"):
            fetched = await puller.fetch(source, meter=meter)
            with boundary(InfraError, source, stage="image"):
                await in_thread(lambda _stop: puller.measure(fetched))
            puller.write_layout(fetched, stage.root / "layout")
            spec = f"oci:{stage.root / 'layout'}"
        elif source.startswith(REMOTE):
            spec = source
        elif store.has(source):
            image = store.get(source)
            meter.stage("packing")
            with boundary(InfraError, source, stage="image"):
                await in_thread(lambda _stop: export_layout(image, stage.root / "layout"))
            spec = f"oci:{stage.root / 'layout'}"
        else:
            raise _nowhere(store, source)
        meter.stage("building")
        await build_sif(spec, target, stage.root)


def export_layout(image: LocalImage, root: Path) -> None:
    """An image of the store as an OCI layout."""
    tars = root / "layers"
    tars.mkdir(parents=True)
    layers = []
    for number, tree in enumerate(image.layers):
        path = tars / f"{number}.tar"
        written = write_layer(tree, path)
        layers.append((path, {"mediaType": _LAYER, "digest": written.digest, "size": written.size}))
    record = image.record
    config = {
        "architecture": machine(),
        "os": "linux",
        "config": {"Env": [f"{key}={value}" for key, value in record.env.items()], "WorkingDir": record.workdir},
        "rootfs": {"type": "layers", "diff_ids": [described["digest"] for _path, described in layers]},
    }
    write_layout(root, config=config, layers=layers)


def _spec(place: Place, stage: Stage, limits: ImageLimits) -> str:
    """What Apptainer calls a source of this machine."""
    path = place.path
    if path.suffix == ".sif" and path.is_file():
        raise ConfigError(f"{path} is a .sif already", kind="same_form")
    if path.is_dir() and not is_layout(path):
        return str(path)
    with open_layout(path, stage.root, tag=place.tag, limits=limits) as opened:
        budget = Budget(limits, str(stage.root))
        for number, layer in enumerate(opened.layers):
            with _there(path, number), layer() as blob:
                measure_layer(budget, blob, f"{path}: layer {number}")
        unpacked = stage.root / "archive.tar"
        tag = next((name for name in opened.origin.get("tags") or [] if is_tagged(name, place.tag)), place.tag)
        return f"{opened.kind}:{unpacked if unpacked.exists() else path}{f':{tag}' if place.tag else ''}"


def _fill(stage: Stage, tree: Tree, place: Place) -> Made:
    path = place.path
    if path.is_dir() and not is_layout(path):
        if not any(path.iterdir()):
            raise ImageInvalid(f"{path} is empty: a root file system or an OCI layout was expected", kind="manifest")
        copy_folder(path, tree)
        return Made({}, "/", {"folder": str(path)})
    with open_layout(path, stage.root, tag=place.tag, limits=tree.budget.limits) as opened:
        for number, (layer, diff_id) in enumerate(zip(opened.layers, opened.config.diff_ids, strict=True)):
            with _there(path, number), layer() as blob:
                apply_layer(tree, blob, diff_id=diff_id, what=f"{path}: layer {number}")
        return Made(opened.config.env, opened.config.workdir, opened.origin)


@contextmanager
def _there(path: Path, number: int) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ImageInvalid(f"{path}: layer {number} is missing: {error}", kind="image_damaged") from None


async def _from_sif(store: ImageStore, path: Path, name: str, source: str, meter: Meter) -> LocalImage:
    parts = await read_sif(path)
    meter.stage("unpacking")
    with staged(store) as stage:
        await unpack_sif(path, parts, stage.root, owner=store.payload_id, limits=store.limits)
        with boundary(InfraError, f"image {name}", stage="image"):
            removed = await in_thread(lambda _stop: adopt(stage.tree, owner=store.payload_id))
        origin = {"sif": source, "labels": parts.labels, "left_out": removed}
        return store.add(name, mover(stage.tree), env=parts.env, workdir=parts.workdir, origin=origin)


def _nowhere(store: ImageStore, source: str) -> ImageMissing:
    return ImageMissing(
        f"{source!r} is no file or folder here and no image of the store {store.home}; "
        "a registry's image is written docker://NAME",
        kind="image_missing",
    )
