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
from paddock.sandbox.images.build.stage import BuildStage, name_lock, new_stage
from paddock.sandbox.images.oci import is_layout, is_tagged, machine, open_layout, write_layout
from paddock.sandbox.images.pull import SILENT, ProgressMeter, Puller
from paddock.sandbox.images.sif import build_sif, read_sif, unpack_sif
from paddock.sandbox.images.single_layer import ImageMetadata, in_thread, make_image
from paddock.sandbox.images.sources import REMOTE
from paddock.sandbox.images.store import ImageStore, LocalImage
from paddock.sandbox.images.unpack import (
    Budget,
    ImageLimits,
    UnpackTree,
    adopt,
    apply_layer,
    copy_folder,
    measure_layer,
    write_layer,
)

_LAYER = "application/vnd.oci.image.layer.v1.tar"


class LocalSource(NamedTuple):
    """A source that is a path of this machine."""

    path: Path
    tag: str | None


def read_local_source(source: str) -> LocalSource | None:
    """A source as a path that is there; None: it is none."""
    if source.startswith(REMOTE):
        return None
    if Path(source).exists():
        return LocalSource(Path(source).absolute(), None)
    head, mark, tag = source.rpartition("#")
    return LocalSource(Path(head).absolute(), tag) if mark and Path(head).exists() else None


async def to_store(puller: Puller, source: str, name: str, *, meter: ProgressMeter = SILENT) -> LocalImage:
    """Make the store's image `name` from a source; what had the name is replaced."""
    store = puller.store
    if source.startswith("docker://"):
        return await puller.pull(name, source, meter=meter, again=True)
    local = read_local_source(source)
    if source.startswith(REMOTE):
        with new_stage(store) as stage:
            meter.stage("fetching")
            downloaded = stage.root / "fetched.sif"
            await build_sif(source, downloaded, stage.root)
            return await _from_sif(store, downloaded, name, source, meter)
    if local is None:
        raise _missing(puller.store, source)
    meter.stage("unpacking")
    async with name_lock(store, name):
        if local.path.is_file() and local.path.suffix == ".sif":
            return await _from_sif(store, local.path, name, str(local.path), meter)
        return await make_image(store, name, lambda stage, tree: _fill(stage, tree, local))


async def to_sif(puller: Puller, source: str, target: Path, *, meter: ProgressMeter = SILENT) -> None:
    """Make a `.sif` from a source."""
    store = puller.store
    local = read_local_source(source)
    with new_stage(store) as stage:
        if local is not None:
            meter.stage("building")
            with boundary(InfraError, source, stage="image"):
                spec = await in_thread(lambda _stop: _spec(local, stage, store.limits))
        elif source.startswith("docker://"):
            downloaded = await puller.fetch(source, meter=meter)
            with boundary(InfraError, source, stage="image"):
                await in_thread(lambda _stop: puller.measure(downloaded))
            puller.write_layout(downloaded, stage.root / "layout")
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
            raise _missing(store, source)
        meter.stage("building")
        await build_sif(spec, target, stage.root)


def export_layout(image: LocalImage, root: Path) -> None:
    """An image of the store as an OCI layout."""
    tars = root / "layers"
    tars.mkdir(parents=True)
    layers = []
    for number, tree in enumerate(image.layers):
        path = tars / f"{number}.tar"
        with path.open("wb") as file:
            layer_tar = write_layer(tree, file)
        layers.append((path, {"mediaType": _LAYER, "digest": layer_tar.digest, "size": layer_tar.size}))
    record = image.record
    config = {
        "architecture": machine(),
        "os": "linux",
        "config": {"Env": [f"{key}={value}" for key, value in record.env.items()], "WorkingDir": record.workdir},
        "rootfs": {"type": "layers", "diff_ids": [descriptor["digest"] for _path, descriptor in layers]},
    }
    write_layout(root, config=config, layers=layers)


def _spec(local: LocalSource, stage: BuildStage, limits: ImageLimits) -> str:
    """The spec by which Apptainer builds from a source of this machine."""
    path = local.path
    if path.suffix == ".sif" and path.is_file():
        raise ConfigError(f"{path} is a .sif already", kind="same_form")
    if path.is_dir() and not is_layout(path):
        return str(path)
    with open_layout(path, stage.root, tag=local.tag, limits=limits) as archive:
        budget = Budget(limits, str(stage.root))
        for number, layer in enumerate(archive.layers):
            with _layer_present(path, number), layer() as blob:
                measure_layer(budget, blob, f"{path}: layer {number}")
        unpacked = stage.root / "archive.tar"
        tag = next((name for name in archive.origin.get("tags") or [] if is_tagged(name, local.tag)), local.tag)
        return f"{archive.kind}:{unpacked if unpacked.exists() else path}{f':{tag}' if local.tag else ''}"


def _fill(stage: BuildStage, tree: UnpackTree, local: LocalSource) -> ImageMetadata:
    path = local.path
    if path.is_dir() and not is_layout(path):
        if not any(path.iterdir()):
            raise ImageInvalid(f"{path} is empty: a root file system or an OCI layout was expected", kind="manifest")
        copy_folder(path, tree)
        return ImageMetadata({}, "/", {"folder": str(path)})
    with open_layout(path, stage.root, tag=local.tag, limits=tree.budget.limits) as archive:
        for number, (layer, diff_id) in enumerate(zip(archive.layers, archive.config.diff_ids, strict=True)):
            with _layer_present(path, number), layer() as blob:
                apply_layer(tree, blob, diff_id=diff_id, what=f"{path}: layer {number}")
        return ImageMetadata(archive.config.env, archive.config.workdir, archive.origin)


@contextmanager
def _layer_present(path: Path, number: int) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ImageInvalid(f"{path}: layer {number} is missing: {error}", kind="image_damaged") from None


async def _from_sif(store: ImageStore, path: Path, name: str, source: str, meter: ProgressMeter) -> LocalImage:
    parts = await read_sif(path)
    meter.stage("unpacking")
    with new_stage(store) as stage:
        await unpack_sif(path, parts, stage.root, owner=store.payload_id, limits=store.limits)
        with boundary(InfraError, f"image {name}", stage="image"):
            removed = await in_thread(lambda _stop: adopt(stage.tree, owner=store.payload_id))
        origin = {"sif": source, "labels": parts.labels, "left_out": removed}
        return store.add(name, mover(stage.tree), env=parts.env, workdir=parts.workdir, origin=origin)


def _missing(store: ImageStore, source: str) -> ImageMissing:
    return ImageMissing(
        f"{source!r} is no file or folder here and no image of the store {store.home}; "
        "a registry's image is written docker://NAME",
        kind="image_missing",
    )
