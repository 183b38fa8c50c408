"""Claims about limits: too large an image is refused while it is read, with what raises the limit; nothing stays."""

import gzip
import io
import json
import os
import tarfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.sandbox.images.forms import FORMS, needs_apptainer, oci_folder
from tests.support.images import ScriptedRegistry, TarEntry, make_image, make_layer

from paddock.errors import InfraError
from paddock.sandbox.failures import ImageInvalid
from paddock.sandbox.images import ImageLimits, ImageStore, Puller, to_sif, to_store
from paddock.sandbox.images.unpack import UnpackTree, apply_layer, copy_folder

MIB = 1 << 20
SMALL = ImageLimits(unpacked_mib=2, entries=100)
HARD, SYM = tarfile.LNKTYPE, tarfile.SYMTYPE


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "fs"
    root.mkdir()
    return root


@pytest.fixture
def small(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "home", payload_id=59734, limits=SMALL)


def apply(root: Path, *blobs: bytes, limits: ImageLimits = SMALL) -> UnpackTree:
    tree = UnpackTree(root, limits=limits)
    for blob in blobs:
        apply_layer(tree, io.BytesIO(blob), diff_id=None, what="layer 7")
    return tree


def header(name: str = "a", size: int = 0, kind: bytes = tarfile.REGTYPE) -> bytearray:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    return bytearray(member.tobuf(tarfile.GNU_FORMAT))


def summed(block: bytearray) -> bytes:
    """With the right checksum."""
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def bombs() -> dict[str, bytes]:
    """40 MiB of zeros each, in some kB."""
    tar = make_layer([TarEntry("zeros", bytes(40 * MIB))])
    behind = make_layer([TarEntry("a")]) + bytes(40 * MIB)
    return {
        "gzip": gzip.compress(tar, 1),
        "zstd": zstandard.compress(tar),
        "behind the end": gzip.compress(behind, 1),
        "in a removal": gzip.compress(make_layer([TarEntry(".wh.a", bytes(40 * MIB))]), 1),
    }


@pytest.mark.slow
@pytest.mark.parametrize("form", ["gzip", "zstd", "behind the end", "in a removal"])
def test_a_bomb_is_refused_while_it_is_read(form: str, root: Path) -> None:
    blob = io.BytesIO(bombs()[form] + os.urandom(4 * MIB))
    with pytest.raises(ImageInvalid, match=r"2 MiB.*limits: \{unpacked_mib: N\}.*--unpacked-mib N") as caught:
        apply_layer(UnpackTree(root, limits=SMALL), blob, diff_id=None, what="layer 7")
    assert caught.value.kind == "image_too_large"
    assert blob.tell() < 3 * MIB, "the rest is not read"
    assert sum(path.stat().st_size for path in root.rglob("*")) <= 2 * MIB


@pytest.mark.parametrize("form", [*FORMS, "registry"])
@pytest.mark.parametrize("sif", [False, True])
async def test_nothing_stays_of_an_image_that_is_too_large(
    form: str, sif: bool, small: ImageStore, tmp_path: Path, registry: ScriptedRegistry
) -> None:
    image = make_image([make_layer([TarEntry("a", b"1")]), make_layer([TarEntry("zeros", bytes(8 * MIB))])])
    if form == "registry":
        registry.images["t/x:v1"] = image
        source = f"docker://{registry.host}/t/x:v1"
    else:
        source = FORMS[form](image, tmp_path)
    async with Puller(small) as puller:
        with pytest.raises(ImageInvalid) as caught:
            if sif:
                await to_sif(puller, source, tmp_path / "out.sif")
            else:
                await to_store(puller, source, "mine")
    assert caught.value.kind == "image_too_large"
    assert small.names() == []
    assert list((small.home / "building").iterdir()) == []
    assert not list((small.home / "layers").glob("*"))
    assert not (tmp_path / "out.sif").exists()


def lengthen(path: Path, padding: bytes) -> None:
    path.write_bytes(path.read_bytes() + padding)


@pytest.mark.parametrize("what", ["index", "manifest", "config"])
async def test_what_says_how_an_image_is_made_is_read_up_to_a_bound(
    what: str, small: ImageStore, tmp_path: Path, registry: ScriptedRegistry
) -> None:
    image = make_image([make_layer([TarEntry("a", b"1")])])
    padding = b" " * (9 * MIB)
    async with Puller(small) as puller:
        if what == "manifest":
            registry.images["t/x:v1"] = image._replace(manifest=image.manifest + padding)
            source, told = f"docker://{registry.host}/t/x:v1", "manifests/v1: the answer has more than 8 MiB"
        else:
            source = oci_folder(image, tmp_path)
            name = "index.json"
            if what == "config":
                name = "blobs/sha256/" + json.loads(image.manifest)["config"]["digest"].removeprefix("sha256:")
            lengthen(Path(source, name), padding)
            told = f"{name} has more than 8 MiB"
        with pytest.raises(ImageInvalid, match=told) as caught:
            await to_store(puller, source, "mine")
    assert caught.value.kind == "manifest"
    assert small.names() == []


def test_layers_count_together_and_so_does_what_they_replace(root: Path) -> None:
    layers = [make_layer([TarEntry("a", bytes(MIB))]) for _ in range(3)]
    with pytest.raises(ImageInvalid, match="unpacks to more than 2 MiB"):
        apply(root, *layers)
    again = [make_layer([TarEntry("a")] * 60)] * 2
    with pytest.raises(ImageInvalid, match=r"more than 100 entries.*--entries N"):
        apply(root, *again)


@pytest.mark.parametrize(
    "entries",
    [
        [TarEntry(f"f{number}") for number in range(101)],
        [TarEntry("a"), *(TarEntry(f"h{number}", type=HARD, link="a") for number in range(100))],
        [TarEntry(f".wh.{number}") for number in range(101)],
        [TarEntry("/".join(f"{number}{part}" for part in range(60))) for number in range(2)],
        [TarEntry(f"n{number}", type=tarfile.CHRTYPE) for number in range(101)],
    ],
    ids=["files", "hard links", "removals", "folders of two files", "device nodes"],
)
def test_entries_of_all_kinds_are_counted(entries: list[TarEntry], root: Path) -> None:
    with pytest.raises(ImageInvalid, match="more than 100 entries"):
        apply(root, make_layer(entries))


def test_a_copied_folder_is_within_the_limits_too(root: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    with (source / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ImageInvalid, match=r"1099511627776 bytes come to 0"):
        copy_folder(source, UnpackTree(root))
    assert list(root.iterdir()) == []


LONG = {
    "part": [TarEntry("a" * 256)],
    "path": [TarEntry("/".join(["a" * 200] * 20))],
    "depth": [TarEntry("/".join("a" * 300))],
    "depth through a link": [
        TarEntry("l", type=SYM, link="/".join("a" * 200)),
        TarEntry("l/x", type=tarfile.DIRTYPE),
        TarEntry("l/x/" + "/".join("b" * 100)),
    ],
    "folders that links name": [
        TarEntry("l", type=SYM, link="/".join(["a" * 255] * 15)),
        TarEntry("l/m", type=SYM, link="/".join(["b" * 255] * 15)),
        TarEntry("l/m/x"),
    ],
    "target": [TarEntry("l", type=SYM, link="t" * 5000)],
    "target of nothing": [TarEntry("l", type=SYM)],
    "removal": [TarEntry(".wh." + "a" * 300)],
}


@pytest.mark.parametrize("entries", LONG.values(), ids=LONG)
def test_what_no_tool_could_walk_is_refused(entries: list[TarEntry], root: Path) -> None:
    with pytest.raises(ImageInvalid) as caught:
        apply(root, make_layer(entries), limits=ImageLimits())
    assert caught.value.kind == "image_unsafe"
    assert len(str(caught.value)) < 400


def sparse(size: int, *, extended: int = 0) -> bytes:
    """An old GNU sparse member: `size` bytes with one of data; so many blocks of its map behind the header."""
    block = header("sparse", 1, tarfile.GNUTYPE_SPARSE)
    block[257:265] = b"ustar  \0"
    block[386:410] = b"%011o\0" % 0 + b"%011o\0" % 1
    block[482] = bool(extended)
    block[483:495] = b"\x80" + size.to_bytes(11, "big")
    more = (b"%011o\0%011o\0" % (1, 1)) * 21 + b"\1" + bytes(7)
    return summed(block) + more * extended + bytes(512) + bytes(1024)


FORGED = {
    "sparse": (sparse(1 << 42), "image_too_large"),
    "map of a sparse file": (sparse(1, extended=5000), "image_unsafe"),
    "long name": (summed(header(size=40 * MIB, kind=tarfile.GNUTYPE_LONGNAME)) + bytes(40 * MIB), "image_unsafe"),
    "extended header": (summed(header(size=40 * MIB, kind=tarfile.XHDTYPE)) + bytes(40 * MIB), "image_unsafe"),
    "size": (summed(header(size=1 << 50)), "image_too_large"),
    "negative size": (summed(header(size=-1024)) + bytes(1024), "image_unsafe image_damaged"),
    "negative long name": (
        summed(header(size=-1024, kind=tarfile.GNUTYPE_LONGNAME)) + bytes(2048),
        "image_unsafe image_damaged",
    ),
    "long names without end": (
        (summed(header(size=1, kind=tarfile.GNUTYPE_LONGNAME)) + b"a" + bytes(511)) * 1000,
        "image_damaged",
    ),
}


@pytest.mark.parametrize(("forged", "kinds"), FORGED.values(), ids=FORGED)
def test_forged_headers_are_refused_before_anything_is_written(forged: bytes, kinds: str, root: Path) -> None:
    with pytest.raises(ImageInvalid) as caught:
        apply(root, gzip.compress(forged, 1))
    assert caught.value.kind in kinds.split()
    assert sum(path.stat().st_size for path in root.rglob("*")) == 0


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_layer_with_any_header_is_applied_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(
        make_layer([TarEntry("d/a", b"1"), TarEntry("l", type=SYM, link="d"), TarEntry("h", type=HARD, link="d/a")])
    )
    for _ in range(data.draw(st.integers(1, 4))):
        block = 512 * data.draw(st.integers(0, 3))
        at = block + data.draw(st.integers(0, 511))
        content[at] = data.draw(st.integers(0, 255))
        if data.draw(st.booleans()):
            head = content[block : block + 512]
            content[block : block + 512] = summed(head)
    try:
        apply(tmp_path_factory.mktemp("fs"), bytes(content))
    except ImageInvalid as error:
        assert error.kind.startswith("image_")


def test_a_full_disk_is_the_machines_failure(tmp_path: Path, root: Path) -> None:
    with pytest.raises(InfraError, match=r"MiB are free.*1099511627776 to stay free.*min_free_disk_mib") as caught:
        apply(root, make_layer([TarEntry("a", b"1")]), limits=ImageLimits(min_free_disk_mib=1 << 40))
    assert caught.value.kind == "disk_full"
    assert list(root.iterdir()) == []


@pytest.mark.sandbox
@needs_apptainer
async def test_a_sif_is_added_up_before_it_is_unpacked(tmp_path: Path, small: ImageStore) -> None:
    image = make_image([make_layer([TarEntry("etc/name", b"1"), TarEntry("zeros", bytes(16 * MIB))])])
    target = tmp_path / "image.sif"
    large = ImageStore(tmp_path / "large", payload_id=59734)
    async with Puller(large) as puller:
        await to_sif(puller, oci_folder(image, tmp_path), target)
    assert target.stat().st_size < 4 * MIB
    for limits, said in ((SMALL, "2 MiB"), (ImageLimits(entries=2), "more than 2 entries")):
        store = ImageStore(small.home, payload_id=59734, limits=limits)
        async with Puller(store) as puller:
            with pytest.raises(ImageInvalid, match=said) as caught:
                await to_store(puller, str(target), "mine")
        assert caught.value.kind == "image_too_large"
        assert (store.names(), list((store.home / "building").iterdir())) == ([], [])
    async with Puller(large) as puller:
        found = await to_store(puller, str(target), "mine")
    assert (found.layers[0] / "zeros").stat().st_size == 16 * MIB


@pytest.mark.long
def test_more_hard_links_than_a_file_can_have_are_refused_or_there(root: Path) -> None:
    entries = [TarEntry("a"), *(TarEntry(f"h{number}", type=HARD, link="a") for number in range(100_000))]
    try:
        apply(root, make_layer(entries), limits=ImageLimits())
    except ImageInvalid as error:
        assert "as many names" in error.message
    else:
        assert (root / "a").stat().st_nlink == 100_001


@pytest.mark.parametrize(
    "wrong",
    [
        *({"unpacked_mib": 0}, {"entries": 0}, {"min_free_disk_mib": -1}, {"unpacked": 1}),
        *({"build_memory_mib": 15}, {"build_pids": 15}),
    ],
)
def test_limits_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        ImageLimits.model_validate(wrong)
