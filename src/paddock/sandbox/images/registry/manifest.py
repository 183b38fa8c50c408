"""What an image is made of: its manifest, from a list the one for this machine, read and checked.

Reads   Docker's schema 2 and OCI, single and lists; schema 1 is refused.
Checked a manifest asked for by digest has that digest; sizes and digests are well formed.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from paddock.sandbox.failures import ImageInvalid
from paddock.sandbox.images.names import ImageName
from paddock.sandbox.images.registry.blobs import Descriptor
from paddock.sandbox.images.registry.client import Registry

LISTS = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
SINGLES = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
ACCEPT = ", ".join((*SINGLES, *LISTS))


class ImageManifest(NamedTuple):
    """One image for one machine."""

    digest: str
    config: Descriptor
    layers: tuple[Descriptor, ...]
    """Lowest first."""
    raw: bytes

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        return (self.config, *self.layers)


async def fetch_manifest(registry: Registry, name: ImageName, *, arch: str) -> ImageManifest:
    """The manifest of a name for `arch`, as registries say it (`amd64`, `arm64`)."""
    repository = hub_path(name)
    _tag, at, digest = name.suffix.partition("@")
    reference = digest if at else name.suffix.removeprefix(":")

    body = await _get(registry, repository, reference)
    parsed = parse_json(body, f"{name}: manifest")
    if is_list(parsed):
        chosen = choose(parsed, arch, str(name))
        body = await _get(registry, repository, chosen.digest)
    return read_manifest(body, str(name))


def hub_path(name: ImageName) -> str:
    """The repository as the registry calls it: the default registry's own images have a namespace there."""
    return f"library/{name.path}" if not name.registry and "/" not in name.path else name.path


def is_list(parsed: Mapping[str, Any]) -> bool:
    return parsed.get("mediaType") in LISTS or ("manifests" in parsed and "layers" not in parsed)


def choose(parsed: Mapping[str, Any], arch: str, what: str) -> Descriptor:
    """The entry of a list that is for this machine; a lone entry without a platform will do."""
    entries = [entry for entry in parsed.get("manifests") or [] if isinstance(entry, dict)]
    platforms = [entry.get("platform") or {} for entry in entries]
    for entry, platform in zip(entries, platforms, strict=True):
        if platform.get("os") == "linux" and platform.get("architecture") == arch:
            return descriptor(entry, what)
    if len(entries) == 1 and not platforms[0]:
        return descriptor(entries[0], what)
    there = ", ".join(sorted({f"{p.get('os')}/{p.get('architecture')}" for p in platforms}))
    raise ImageInvalid(f"{what} is not made for linux/{arch}, only for {there or 'nothing'}", kind="platform")


def read_manifest(body: bytes, what: str) -> ImageManifest:
    parsed = parse_json(body, f"{what}: manifest")
    layers = parsed.get("layers")
    if not isinstance(layers, list) or "config" not in parsed:
        old = " (schema 1 is not read)" if parsed.get("schemaVersion") == 1 else ""
        raise ImageInvalid(f"{what}: its manifest is of no kind that is known{old}", kind="manifest")
    return ImageManifest(
        digest=f"sha256:{hashlib.sha256(body).hexdigest()}",
        config=descriptor(parsed["config"], what),
        layers=tuple(descriptor(layer, what) for layer in layers),
        raw=body,
    )


def descriptor(entry: Any, what: str) -> Descriptor:
    match entry:
        case {"digest": str(digest), "size": int(size)} if size >= 0:
            return Descriptor(digest, size, str(entry.get("mediaType", "")))
    raise ImageInvalid(f"{what}: a manifest names a blob without digest and size", kind="manifest")


def parse_json(body: bytes, what: str) -> dict[str, Any]:
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ImageInvalid(f"{what} is no JSON: {error}", kind="manifest") from None
    if not isinstance(parsed, dict):
        raise ImageInvalid(f"{what} is no JSON object", kind="manifest")
    return parsed


async def _get(registry: Registry, repository: str, reference: str) -> bytes:
    body = await registry.get(repository, f"manifests/{reference}", accept=ACCEPT)
    if reference.startswith("sha256:"):
        check_digest(body, reference, f"{registry.host}/{repository}")
    return body


def check_digest(body: bytes, digest: str, what: str) -> None:
    if f"sha256:{hashlib.sha256(body).hexdigest()}" != digest:
        raise ImageInvalid(f"{what} has other bytes than {digest}", kind="digest_mismatch")
