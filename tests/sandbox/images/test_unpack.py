"""Claims about layers: applied as registries mean them, and nothing they name lands outside the tree."""

import io
import os
import stat
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.images import TarEntry, digest_of, make_layer

from paddock.sandbox.failures import ImageInvalid
from paddock.sandbox.images.unpack import UnpackTree, adopt, apply_layer, copy_folder, write_layer

DIR, SYM, HARD = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
OWNER = 59734


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "fs"
    root.mkdir()
    return root


def apply(root: Path, *layers: list[TarEntry]) -> UnpackTree:
    tree = UnpackTree(root, owner=OWNER)
    for entries in layers:
        tar = make_layer(entries)
        apply_layer(tree, io.BytesIO(tar), diff_id=digest_of(tar), what="layer")
    return tree


def children(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_a_file_keeps_content_time_and_permissions(root: Path) -> None:
    tree = apply(
        root, [TarEntry("usr", type=DIR, mode=0o755), TarEntry("usr/a", b"text", mode=0o4755), TarEntry("b", mode=0)]
    )
    info = (root / "usr/a").stat()
    assert (root / "usr/a").read_bytes() == b"text"
    assert stat.S_IMODE(info.st_mode) == 0o755, "setuid would lend the payload's rights"
    assert info.st_mtime == 1_000_000_000
    assert stat.S_IMODE((root / "b").stat().st_mode) == 0o400, "its owner can read it, as root can"
    assert tree.bytes == 4
    if os.geteuid() == 0:
        assert (info.st_uid, info.st_gid) == (OWNER, OWNER)


def test_a_whiteout_removes_what_lower_layers_have(root: Path) -> None:
    apply(root, [TarEntry("d/a"), TarEntry("d/b"), TarEntry("e/c")], [TarEntry("d/.wh.a"), TarEntry(".wh.e")])
    assert names(root) == ["d", "d/b"]


def test_an_opaque_folder_hides_lower_layers_and_not_its_own(root: Path) -> None:
    lower = [TarEntry("d/old"), TarEntry("d/sub/old"), TarEntry("d/both", b"1")]
    apply(root, lower, [TarEntry("d/new"), TarEntry("d/sub/new"), TarEntry("d/.wh..wh..opq"), TarEntry("d/late")])
    assert names(root) == ["d", "d/late", "d/new", "d/sub", "d/sub/new"]


def test_a_whiteout_does_not_remove_what_its_own_layer_wrote(root: Path) -> None:
    apply(root, [TarEntry("d/old")], [TarEntry("d/new"), TarEntry(".wh.d"), TarEntry("e"), TarEntry(".wh.e")])
    assert names(root) == ["d", "d/new", "e"]


def test_bookkeeping_of_old_storage_is_left_out(root: Path) -> None:
    apply(root, [TarEntry(".wh..wh.plnk", type=DIR), TarEntry(".wh..wh.aufs"), TarEntry("a")])
    assert names(root) == ["a"]


def test_links_inside_are_followed_as_a_container_would(root: Path) -> None:
    apply(
        root,
        [
            TarEntry("usr/lib", type=DIR),
            TarEntry("lib", type=SYM, link="usr/lib"),
            TarEntry("abs", type=SYM, link="/usr/lib"),
        ],
        [TarEntry("lib/a", b"a"), TarEntry("abs/b", b"b")],
    )
    assert (root / "lib").is_symlink()
    assert children(root / "usr/lib") == ["a", "b"]


def test_a_hard_link_shares_the_file_and_breaks_when_it_is_replaced(root: Path) -> None:
    apply(root, [TarEntry("a", b"1"), TarEntry("b", type=HARD, link="a")])
    assert (root / "a").samefile(root / "b")
    apply(root, [TarEntry("b", b"2")])
    assert ((root / "a").read_bytes(), (root / "b").read_bytes()) == (b"1", b"2")


def test_a_later_entry_takes_the_place_of_another_kind(root: Path) -> None:
    apply(
        root,
        [TarEntry("d/x"), TarEntry("f"), TarEntry("l", type=SYM, link="d")],
        [TarEntry("d"), TarEntry("f/y"), TarEntry("l/z")][:1],
    )
    assert (root / "d").is_file()
    apply(root, [TarEntry("f", type=DIR), TarEntry("f/y"), TarEntry("l", type=DIR)])
    assert names(root) == ["d", "f", "f/y", "l"]
    assert not (root / "l").is_symlink()


def test_device_nodes_are_left_out_and_counted(root: Path) -> None:
    null = TarEntry("dev/null", type=tarfile.CHRTYPE, device=(1, 3))
    disk = TarEntry("dev/sda", type=tarfile.BLKTYPE, device=(8, 0))
    forged = TarEntry("bin", type=tarfile.CHRTYPE, device=(0, 0))
    tree = apply(root, [TarEntry("dev", type=DIR), null, disk, forged, TarEntry("pipe", type=tarfile.FIFOTYPE)])
    assert tree.left_out == 3
    assert names(root) == ["dev", "pipe"]


UNSAFE = {
    "absolute": [TarEntry("/etc/x")],
    "parent": [TarEntry("../x")],
    "inner parent": [TarEntry("a/../../x")],
    "link above the root": [TarEntry("a", type=SYM, link="../../outside"), TarEntry("a/x")],
    "link chain": [TarEntry("d/a", type=SYM, link="../.."), TarEntry("b", type=SYM, link="d/a"), TarEntry("b/x")],
    "link loop": [TarEntry("a", type=SYM, link="b"), TarEntry("b", type=SYM, link="a"), TarEntry("a/x")],
    "hard link out": [TarEntry("a", type=HARD, link="../outside/secret")],
    "absolute hard link": [TarEntry("a", type=HARD, link="/etc/passwd")],
    "hard link to nothing": [TarEntry("a", type=HARD, link="nowhere")],
    "hard link through a link": [TarEntry("o", type=SYM, link="../outside"), TarEntry("a", type=HARD, link="o/secret")],
    "whiteout of the parent": [TarEntry("d/.wh...")],
    "whiteout of the folder": [TarEntry("d/.wh..")],
    "file in a file": [TarEntry("a"), TarEntry("a/b")],
    "the root as a link": [TarEntry(".", type=SYM, link="/tmp")],
}


@pytest.mark.parametrize("entries", UNSAFE.values(), ids=UNSAFE)
def test_what_leads_out_of_the_tree_is_refused(entries: list[TarEntry], root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    with pytest.raises(ImageInvalid):
        apply(root, entries)
    assert children(outside) == ["secret"]
    assert children(tmp_path) == ["fs", "outside"]
    assert (outside / "secret").stat().st_nlink == 1


def test_an_absolute_link_never_reaches_this_machine(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    apply(root, [TarEntry("a", type=SYM, link=str(outside))], [TarEntry("a/x", b"in")])
    assert children(outside) == []
    assert (root / str(outside).lstrip("/") / "x").read_bytes() == b"in"


PARTS = st.sampled_from(["a", "b", "..", ".", "/", ".wh.a", ".wh..wh..opq"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
ENTRIES = st.builds(
    TarEntry, PATHS, st.just(b""), st.sampled_from([tarfile.REGTYPE, DIR, SYM, HARD, tarfile.FIFOTYPE]), PATHS
)


@settings(deadline=None, max_examples=60)
@given(st.lists(ENTRIES, max_size=8))
def test_no_layer_writes_outside_its_tree(tmp_path_factory: pytest.TempPathFactory, entries: list[TarEntry]) -> None:
    around = tmp_path_factory.mktemp("around")
    (around / "a").mkdir()
    (around / "deep" / "fs").mkdir(parents=True)
    with suppress(ImageInvalid):
        apply(around / "deep" / "fs", entries)
    assert children(around) == ["a", "deep"]
    assert children(around / "a") == []
    assert children(around / "deep") == ["fs"]


def test_gzip_and_zstd_are_unpacked(root: Path) -> None:
    tar = make_layer([TarEntry("a", os.urandom(300_000))])
    tree = UnpackTree(root)
    apply_layer(tree, io.BytesIO(zstandard.compress(tar)), diff_id=digest_of(tar), what="layer")
    assert (root / "a").stat().st_size == 300_000


@pytest.mark.parametrize("damage", ["cut gzip", "cut zstd", "cut tar", "noise"])
def test_a_damaged_layer_is_refused(damage: str, root: Path) -> None:
    import gzip

    tar = make_layer([TarEntry("a", os.urandom(200_000))])
    blob = {
        "cut gzip": gzip.compress(tar)[:-5000],
        "cut zstd": zstandard.compress(tar)[:-5000],
        "cut tar": tar[:100_000],
        "noise": os.urandom(2000),
    }[damage]
    with pytest.raises(ImageInvalid, match="layer 7"):
        apply_layer(UnpackTree(root), io.BytesIO(blob), diff_id=digest_of(tar), what="layer 7")


def test_a_layer_with_other_bytes_than_its_digest_is_refused(root: Path) -> None:
    with pytest.raises(ImageInvalid, match="other bytes"):
        apply_layer(
            UnpackTree(root), io.BytesIO(make_layer([TarEntry("a")])), diff_id="sha256:" + "0" * 64, what="layer"
        )


def test_a_copied_folder_is_the_same_tree(root: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "d").mkdir(parents=True)
    (source / "d/a").write_text("1")
    os.link(source / "d/a", source / "b")
    (source / "l").symlink_to("/etc/passwd")
    (source / "empty").mkdir(mode=0o500)
    tree = UnpackTree(root, owner=OWNER)
    copy_folder(source, tree)
    assert names(root) == names(source)
    assert (root / "b").samefile(root / "d/a")
    assert (root / "l").readlink() == Path("/etc/passwd")
    assert stat.S_IMODE((root / "empty").stat().st_mode) == 0o700


def test_an_adopted_tree_has_one_owner_and_no_special_bits(root: Path) -> None:
    (root / "d").mkdir(mode=0o555)
    (root / "d" / "su").touch(mode=0o600)
    (root / "d" / "su").chmod(0o6711)
    (root / "l").symlink_to("/etc/passwd")
    before = Path("/etc/passwd").stat()
    adopt(root, owner=OWNER)
    assert stat.S_IMODE((root / "d" / "su").stat().st_mode) == 0o711
    assert stat.S_IMODE((root / "d").stat().st_mode) == 0o755
    assert Path("/etc/passwd").stat().st_uid == before.st_uid
    if os.geteuid() == 0:
        assert (root / "d" / "su").stat().st_uid == OWNER


def test_a_packed_layer_is_the_layer_again(root: Path, tmp_path: Path) -> None:
    apply(root, [TarEntry("d/a", b"1"), TarEntry("d/h", type=HARD, link="d/a"), TarEntry("l", type=SYM, link="d")])
    target = tmp_path / "layer.tar"
    with target.open("wb") as file:
        written = write_layer(root, file)
    assert (written.size, written.digest) == (target.stat().st_size, digest_of(target.read_bytes()))
    again = tmp_path / "again"
    again.mkdir()
    with target.open("rb") as blob:
        apply_layer(UnpackTree(again), blob, diff_id=written.digest, what="layer")
    assert names(again) == names(root)
    assert (again / "d/a").samefile(again / "d/h")
    with tarfile.open(target) as tar:
        assert {member.uid for member in tar} == {0}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes the removals of overlayfs")
def test_removals_of_an_upper_layer_are_packed_as_names(root: Path, tmp_path: Path) -> None:
    (root / "d").mkdir()
    os.mknod(root / "d" / "gone", stat.S_IFCHR, os.makedev(0, 0))
    (root / "fresh").mkdir()
    os.setxattr(root / "fresh", "user.overlay.opaque", b"y")
    target = tmp_path / "layer.tar"
    with target.open("wb") as file:
        write_layer(root, file)
    with tarfile.open(target) as tar:
        assert sorted(tar.getnames()) == [".", "d", "d/.wh.gone", "fresh", "fresh/.wh..wh..opq"]
    again = tmp_path / "again"
    again.mkdir()
    with target.open("rb") as blob:
        apply_layer(UnpackTree(again), blob, diff_id=None, what="layer", keep_removals=True)
    gone = (again / "d" / "gone").stat()
    assert (stat.S_ISCHR(gone.st_mode), gone.st_rdev) == (True, 0)
    assert os.getxattr(again / "fresh", "user.overlay.opaque") == b"y"
    assert names(again) == names(root)


def test_a_file_whose_name_says_a_removal_is_refused_and_not_lost(root: Path) -> None:
    (root / ".wh.file").write_text("a file's own name")
    with pytest.raises(ImageInvalid, match="name that says a removal"):
        write_layer(root, io.BytesIO())
