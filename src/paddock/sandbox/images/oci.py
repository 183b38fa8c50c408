"""Images as files: OCI layouts, OCI archives and what `docker save` writes, read alike; and OCI layouts written.

Reading `open_layout(path)` gives an `ImageArchive`: the config, and each layer's blob in turn. A compressed archive
        is unpacked first, within the image's limits. Links between a docker archive's layers stay inside it.
Several an archive with more than one image needs a tag to choose by.
Config  for Linux and this machine's architecture, or ImageInvalid.
"""

import gzip
import hashlib
import json
import posixpath
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from paddock.sandbox.failures import ImageInvalid
from paddock.sandbox.images.names import architecture
from paddock.sandbox.images.registry.client import MAX_JSON
from paddock.sandbox.images.registry.manifest import check_digest, choose, is_list, parse_json, read_manifest
from paddock.sandbox.images.unpack.headers import BoundedTar, members
from paddock.sandbox.images.unpack.limits import Budget, ImageLimits
from paddock.types import JsonObject

LAYOUT = "oci-layout"
_MAX_LINKS = 8
_MAX_MEMBERS = 100_000
"""Of an archive, which has a few for each layer."""
_CHUNK = 1 << 20


class ImageConfig(NamedTuple):
    """The config of an image, as far as it is used."""

    env: dict[str, str]
    workdir: str
    diff_ids: tuple[str, ...]
    """Digests of the unpacked layers, lowest first."""


class ImageArchive(NamedTuple):
    """An image that can be read, whatever form its files have."""

    config: ImageConfig
    layers: tuple[Callable[[], BinaryIO], ...]
    """Open a layer's blob, lowest first."""
    origin: JsonObject
    kind: str
    """`oci`, `oci-archive` or `docker-archive`: as Apptainer calls them."""


Open = Callable[[str], BinaryIO]


def machine() -> str:
    """This machine's architecture as registries say it."""
    return {"x86_64": "amd64"}.get(architecture(), architecture())


def read_config(body: bytes, what: str, *, layers: int) -> ImageConfig:
    parsed = parse_json(body, f"{what}: config")
    made_for = f"{parsed.get('os', 'linux')}/{parsed.get('architecture') or machine()}"
    if made_for != f"linux/{machine()}":
        raise ImageInvalid(f"{what} is made for {made_for}, this machine is linux/{machine()}", kind="platform")
    config = parsed.get("config") or {}
    diff_ids = tuple((parsed.get("rootfs") or {}).get("diff_ids") or ())
    if len(diff_ids) != layers:
        raise ImageInvalid(f"{what}: {layers} layers, but its config names {len(diff_ids)}", kind="manifest")
    return ImageConfig(
        env=dict(pair.split("=", 1) for pair in config.get("Env") or [] if "=" in pair),
        workdir=config.get("WorkingDir") or "/",
        diff_ids=diff_ids,
    )


def is_layout(path: Path) -> bool:
    return (path / LAYOUT).is_file()


@contextmanager
def open_layout(
    path: Path, scratch: Path, *, tag: str | None = None, limits: ImageLimits | None = None
) -> Iterator[ImageArchive]:
    """Read an OCI directory or an archive; `scratch` takes the unpacked form of a compressed one, within `limits`
    (None: the default ones)."""
    if path.is_dir():
        yield _oci(lambda name: (path / name).open("rb"), str(path), "oci", tag)
        return
    plain = _decompress(path, scratch, limits or ImageLimits())
    try:
        with plain.open("rb") as file, _indexed(file, str(path)) as (tar, index):
            opener = _members(tar, index, str(path))
            # Newer `docker save` writes both; its own list knows the tags.
            if "manifest.json" in index:
                yield _docker(opener, str(path), tag)
            elif LAYOUT in index:
                yield _oci(opener, str(path), "oci-archive", tag)
            else:
                raise ImageInvalid(
                    f"{path} is neither an OCI nor a Docker archive: it has no {LAYOUT} and no manifest.json; "
                    "a bare root file system must be unpacked to a folder first",
                    kind="manifest",
                )
    except (tarfile.TarError, EOFError, RecursionError) as error:
        raise ImageInvalid(f"{path} is no archive of an image: {error}", kind="image_damaged") from None


@contextmanager
def _indexed(file: BinaryIO, what: str) -> Iterator[tuple[tarfile.TarFile, dict[str, tarfile.TarInfo]]]:
    """An archive and its members by their paths."""
    source = BoundedTar(file, what)
    with tarfile.open(fileobj=source, mode="r:") as tar:
        index = {}
        for member in members(tar, source):
            index[posixpath.normpath(member.name)] = member
            if len(index) > _MAX_MEMBERS:
                raise ImageInvalid(f"{what} has more than {_MAX_MEMBERS} members: no image has", kind="image_unsafe")
        yield tar, index


def write_layout(root: Path, *, config: JsonObject, layers: Sequence[tuple[Path, JsonObject]]) -> None:
    """An OCI layout of blobs that lie elsewhere; each layer is a path and its descriptor."""
    blobs = root / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for path, described in layers:
        target = blobs / described["digest"].removeprefix("sha256:")
        if not target.exists():
            target.symlink_to(path.resolve())
    written = _put(blobs, config, "application/vnd.oci.image.config.v1+json")
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": written,
        "layers": [described for _path, described in layers],
    }
    index = {"schemaVersion": 2, "manifests": [_put(blobs, manifest, manifest["mediaType"])]}
    (root / "index.json").write_text(json.dumps(index))
    (root / LAYOUT).write_text('{"imageLayoutVersion": "1.0.0"}')


def _put(blobs: Path, value: JsonObject, media_type: Any) -> JsonObject:
    body = json.dumps(value).encode()
    digest = hashlib.sha256(body).hexdigest()
    (blobs / digest).write_bytes(body)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(body)}


def _oci(opener: Open, what: str, kind: str, tag: str | None) -> ImageArchive:
    index = parse_json(_small(opener, "index.json", what), f"{what}: index.json")
    entries = [entry for entry in index.get("manifests") or [] if isinstance(entry, dict)]
    if tag is not None:
        key = "org.opencontainers.image.ref.name"
        entries = [entry for entry in entries if (entry.get("annotations") or {}).get(key) == tag]
    entries = _distinct(entries)
    fitting = [entry for entry in entries if (entry.get("platform") or {}).get("architecture") in (None, machine())]
    if len(fitting) > 1:
        raise ImageInvalid(f"{what} holds {len(fitting)} images of that tag; name one", kind="image_ambiguous")
    body = _blob(opener, choose({"manifests": fitting or entries}, machine(), what).digest, what)
    parsed = parse_json(body, f"{what}: manifest")
    if is_list(parsed):
        body = _blob(opener, choose(parsed, machine(), what).digest, what)
    manifest = read_manifest(body, what)
    config = read_config(_blob(opener, manifest.config.digest, what), what, layers=len(manifest.layers))
    layers = tuple(_opener_of(opener, _blob_path(layer.digest)) for layer in manifest.layers)
    return ImageArchive(config, layers, {kind: what, "digest": manifest.digest}, kind)


def _docker(opener: Open, what: str, tag: str | None) -> ImageArchive:
    try:
        images = json.loads(_small(opener, "manifest.json", what))
        if tag is not None:
            images = [entry for entry in images if any(is_tagged(name, tag) for name in entry.get("RepoTags") or [])]
        if len(images) != 1:
            raise ImageInvalid(f"{what} holds {len(images)} images of that tag; name one", kind="image_ambiguous")
        (image,) = images
        config_name, layer_names = str(image["Config"]), [str(name) for name in image["Layers"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ImageInvalid(f"{what}: manifest.json can't be read: {error!r}", kind="manifest") from None
    body = _small(opener, config_name, what)
    config = read_config(body, what, layers=len(layer_names))
    layers = tuple(_opener_of(opener, name) for name in layer_names)
    return ImageArchive(config, layers, {"docker-archive": what, "tags": image.get("RepoTags") or []}, "docker-archive")


def is_tagged(name: str, tag: str | None) -> bool:
    """Whether `repository:tag` is what was asked for, whole or by its tag alone."""
    return tag in (name, name.rpartition(":")[2])


def _distinct(entries: list[JsonObject]) -> list[JsonObject]:
    """One entry per manifest: an index names one under each of its tags."""
    return list({entry.get("digest"): entry for entry in entries}.values())


def _opener_of(opener: Open, name: str) -> Callable[[], BinaryIO]:
    return lambda: opener(name)


def _blob_path(digest: str) -> str:
    algorithm, _, value = digest.partition(":")
    if algorithm != "sha256" or not value.isalnum():
        raise ImageInvalid(f"{digest!r} is no digest; it reads sha256:<64 hex digits>", kind="digest")
    return f"blobs/sha256/{value}"


def _blob(opener: Open, digest: str, what: str) -> bytes:
    body = _small(opener, _blob_path(digest), what)
    check_digest(body, digest, what)
    return body


def _small(opener: Open, name: str, what: str) -> bytes:
    try:
        with opener(name) as file:
            body = file.read(MAX_JSON + 1)
    except FileNotFoundError:
        raise ImageInvalid(f"{what} lacks {name}", kind="image_damaged") from None
    if len(body) > MAX_JSON:
        raise ImageInvalid(f"{what}: {name} has more than {MAX_JSON >> 20} MiB", kind="manifest")
    return body


def _members(tar: tarfile.TarFile, index: dict[str, tarfile.TarInfo], what: str) -> Open:
    def opener(name: str) -> BinaryIO:
        for _link in range(_MAX_LINKS):
            member = index.get(posixpath.normpath(name))
            if member is None:
                break
            if member.isfile():
                return cast(BinaryIO, tar.extractfile(member))
            name = posixpath.join(posixpath.dirname(name), member.linkname) if member.issym() else member.linkname
        raise FileNotFoundError(f"{what} lacks {name}")

    return opener


def _decompress(path: Path, scratch: Path, limits: ImageLimits) -> Path:
    """The archive itself, or its unpacked form: a compressed one can't be read out of order."""
    with path.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":
            return path
    target = scratch / "archive.tar"
    try:
        budget = Budget(limits, str(scratch))
        with gzip.open(path) as packed, target.open("wb") as unpacked:
            while chunk := packed.read(_CHUNK):
                budget.reserve(len(chunk), str(path))
                unpacked.write(chunk)
                budget.wrote(len(chunk), str(path))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ImageInvalid(f"{path} is damaged: {error}", kind="image_damaged") from None
    return target
