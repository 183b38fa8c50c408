"""The forms that an image comes in as files."""

import gzip
import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.images import Image

Put = Callable[[Image, Path], str]

needs_apptainer = pytest.mark.skipif(
    shutil.which("apptainer") is None or not Path("/bin/busybox").exists(),
    reason="no apptainer on PATH, or no /bin/busybox: apt-get install busybox-static",
)


def oci_folder(image: Image, folder: Path) -> str:
    root = folder / "layout"
    blobs = root / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for digest, blob in {**image.blobs, image.digest: image.manifest}.items():
        (blobs / digest.removeprefix("sha256:")).write_bytes(blob)
    entry = {
        "digest": image.digest,
        "size": len(image.manifest),
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "annotations": {"org.opencontainers.image.ref.name": "v1"},
    }
    (root / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    (root / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return str(root)


def oci_archive(image: Image, folder: Path) -> str:
    with tarfile.open(folder / "oci.tar", "w") as tar:
        tar.add(oci_folder(image, folder), arcname=".")
    return str(folder / "oci.tar")


def docker_archive(image: Image, folder: Path) -> str:
    """As older `docker save` writes it: plain layers, one of them a link to another's place."""
    manifest = json.loads(image.manifest)
    plain = [gzip.decompress(image.blobs[digest]) for digest in image.layers]
    files = {"c.json": image.blobs[manifest["config"]["digest"]], "1/layer.tar": plain[0], "2/real.tar": plain[1]}
    described = [{"Config": "c.json", "RepoTags": ["my/image:v1"], "Layers": ["1/layer.tar", "2/layer.tar"]}]
    files["manifest.json"] = json.dumps(described).encode()
    with tarfile.open(folder / "docker.tar", "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("2/layer.tar")
        link.type, link.linkname = tarfile.SYMTYPE, "../2/real.tar"
        tar.addfile(link)
    return str(folder / "docker.tar")


def packed_docker_archive(image: Image, folder: Path) -> str:
    plain = Path(docker_archive(image, folder))
    (folder / "docker.tgz").write_bytes(gzip.compress(plain.read_bytes(), 1))
    return str(folder / "docker.tgz")


FORMS: dict[str, Put] = {
    form.__name__: form for form in (oci_folder, oci_archive, docker_archive, packed_docker_archive)
}
