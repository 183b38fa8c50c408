"""Images from registries: into the store, or as a layout that other tools read.

Law     a pull that ends early leaves blobs and partials, which the next one goes on with, and no image; two pulls of
        one image, in one process or in two, fetch each byte once and make the image once.
Bounds  `connections` blobs at once over all pulls of one Puller; who calls bounds how many images.
Errors  ImageMissing, ImageInvalid: the image; InfraError: the registry, the network, this machine.
"""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from paddock.sandbox.failures import ImageInvalid
from paddock.sandbox.images.build.stage import name_lock
from paddock.sandbox.images.names import ImageName, parse_name
from paddock.sandbox.images.oci import ImageConfig, machine, read_config, write_layout
from paddock.sandbox.images.registry import (
    BlobCache,
    ImageManifest,
    Registry,
    RegistryOptions,
    fetch_manifest,
)
from paddock.sandbox.images.registry.client import MAX_JSON
from paddock.sandbox.images.registry.manifest import hub_path, parse_json
from paddock.sandbox.images.single_layer import ImageMetadata, make_image
from paddock.sandbox.images.store import ImageStore, LocalImage
from paddock.sandbox.images.unpack import Budget, UnpackTree, apply_layer, measure_layer

_DOCKER = "application/vnd.docker.image.rootfs.diff."
_OCI = "application/vnd.oci.image.layer.v1."
_OCI_KINDS = {f"{_DOCKER}tar.gzip": f"{_OCI}tar+gzip", f"{_DOCKER}tar": f"{_OCI}tar"}
"""Docker's media types of layers, as OCI manifests name them."""


class ProgressMeter(Protocol):
    """Receives the progress of a pull."""

    def total(self, all_bytes: int) -> None:
        """All bytes of the image, with those that are here already."""
        ...

    def advance(self, fetched_bytes: int) -> None: ...

    def stage(self, what: str) -> None: ...


class SilentMeter:
    """A meter that ignores what it receives."""

    def total(self, all_bytes: int) -> None:
        pass

    def advance(self, fetched_bytes: int) -> None:
        pass

    def stage(self, what: str) -> None:
        pass


SILENT = SilentMeter()


class FetchedImage(NamedTuple):
    """An image all of whose blobs are in the cache."""

    name: ImageName
    manifest: ImageManifest
    config: ImageConfig


class Puller:
    """Pulls into one store; open as long as its blobs are needed."""

    def __init__(self, store: ImageStore, options: RegistryOptions | None = None) -> None:
        self.store = store
        self.options = options or RegistryOptions()
        self.blobs = BlobCache(store.home, connections=self.options.connections)
        self._registries: dict[str, Registry] = {}
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._open.enter_context(self.blobs.using())
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._open.aclose()

    async def pull(
        self, name: str, source: str | None = None, *, meter: ProgressMeter = SILENT, again: bool = False
    ) -> LocalImage:
        """The image at `source` (`docker://...`; None: the one that `name` names) as the store's `name`.

        One that the store has is left as it is, unless `again`.
        """
        async with name_lock(self.store, name):
            if self.store.has(name) and not again:
                return self.store.get(name)
            fetched = await self.fetch(source or name, meter=meter)
            meter.stage("unpacking")
            return await make_image(self.store, name, lambda _stage, tree: self._fill(tree, fetched))

    async def fetch(self, source: str, *, meter: ProgressMeter = SILENT) -> FetchedImage:
        """All blobs of an image."""
        name = parse_name(source)
        meter.stage("asking")
        registry = await self._registry(name.registry)
        manifest = await fetch_manifest(registry, name, arch=machine())
        if manifest.config.size > MAX_JSON:
            raise ImageInvalid(f"{name}: its config has more than {MAX_JSON >> 20} MiB", kind="manifest")
        blobs = {blob.digest: blob for blob in manifest.blobs}
        all_bytes, here = sum(blob.size for blob in blobs.values()), sum(map(self.blobs.present_bytes, blobs))
        Budget(self.store.limits, str(self.blobs.folder)).reserve(max(0, all_bytes - here), f"{name}: its blobs")
        meter.total(all_bytes)
        meter.advance(here)
        meter.stage("fetching")
        try:
            async with asyncio.TaskGroup() as group:
                for blob in blobs.values():
                    group.create_task(self.blobs.fetch(registry, hub_path(name), blob, advance=meter.advance))
        except ExceptionGroup as errors:
            # The first is the cause; the others were cancelled or met the same registry.
            raise errors.exceptions[0] from None
        body = await asyncio.to_thread(self.blobs.path(manifest.config.digest).read_bytes)
        return FetchedImage(name, manifest, read_config(body, str(name), layers=len(manifest.layers)))

    def measure(self, fetched: FetchedImage) -> None:
        """Add up the layers of a fetched image that another program unpacks."""
        budget = Budget(self.store.limits, str(self.store.home))
        for layer in fetched.manifest.layers:
            with self.blobs.path(layer.digest).open("rb") as blob:
                measure_layer(budget, blob, f"{fetched.name}: layer {layer.digest}")

    def write_layout(self, fetched: FetchedImage, root: Path) -> None:
        """A fetched image as an OCI layout of links to its blobs."""
        config = self.blobs.path(fetched.manifest.config.digest).read_bytes()
        layers = [
            (self.blobs.path(layer.digest), {"mediaType": kind, "digest": layer.digest, "size": layer.size})
            for layer in fetched.manifest.layers
            for kind in [_OCI_KINDS.get(layer.media_type, layer.media_type)]
        ]
        write_layout(root, config=parse_json(config, str(fetched.name)), layers=layers)

    def _fill(self, tree: UnpackTree, fetched: FetchedImage) -> ImageMetadata:
        manifest, config = fetched.manifest, fetched.config
        for layer, diff_id in zip(manifest.layers, config.diff_ids, strict=True):
            path = self.blobs.path(layer.digest)
            try:
                with path.open("rb") as blob:
                    apply_layer(tree, blob, diff_id=diff_id, what=f"{fetched.name}: layer {layer.digest}")
            except ImageInvalid as error:
                if error.kind in ("digest_mismatch", "image_damaged"):
                    # It was whole when it came: this disk has lost it, and the next pull must not believe it.
                    path.unlink(missing_ok=True)
                raise
        return ImageMetadata(
            config.env,
            config.workdir,
            {
                "registry": str(fetched.name),
                "digest": manifest.digest,
                "layers": [layer.digest for layer in manifest.layers],
            },
        )

    async def _registry(self, host: str) -> Registry:
        if host not in self._registries:
            self._registries[host] = await self._open.enter_async_context(Registry(host, self.options))
        return self._registries[host]
