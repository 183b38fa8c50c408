"""Claims about converting: every form gives the same image, with its environment and folder."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.sandbox.images.forms import FORMS, Put, docker_archive, needs_apptainer, oci_folder
from tests.support.images import CONFIG, LAYER, Image, ScriptedRegistry, TarEntry, make_image, make_layer

from paddock.errors import ConfigError
from paddock.sandbox.failures import ImageInvalid, ImageMissing
from paddock.sandbox.images import ImageStore, LocalImage, Puller, to_sif, to_store
from paddock.sandbox.images.oci import open_layout, write_layout

ENV = {"PATH": "/bin", "QUOTED": 'a "b" $c'}


@pytest.fixture
def image() -> Image:
    """Busybox, where it is, and a layer that hides a file of the first."""
    busybox = Path("/bin/busybox")
    shell = busybox.read_bytes() if busybox.exists() else b"#!"
    return make_image(
        [
            make_layer([TarEntry("bin/sh", shell, mode=0o755), TarEntry("etc/gone"), TarEntry("etc/name", b"lower")]),
            make_layer([TarEntry("etc/.wh.gone"), TarEntry("etc/name", b"upper")]),
        ],
        config={"Env": [f"{key}={value}" for key, value in ENV.items()], "WorkingDir": "/etc"},
    )


def check_same(found: LocalImage) -> None:
    (root,) = found.layers
    assert (root / "etc/name").read_bytes() == b"upper"
    assert not (root / "etc/gone").exists()
    assert {key: found.record.env.get(key) for key in ENV} == ENV
    assert found.record.workdir == "/etc"


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("tag", ["", "#v1"])
async def test_an_archive_becomes_an_image_of_the_store(
    form: Put, tag: str, image: Image, store: ImageStore, tmp_path: Path
) -> None:
    source = form(image, tmp_path)
    async with Puller(store) as puller:
        check_same(await to_store(puller, source + tag, "mine"))
    assert store.names() == ["mine"]
    assert names_in(store.home / "building") == []


async def test_a_registry_image_becomes_an_image_of_the_store(
    image: Image, store: ImageStore, registry: ScriptedRegistry
) -> None:
    registry.images["t/x:v1"] = image
    async with Puller(store) as puller:
        check_same(await to_store(puller, f"docker://{registry.host}/t/x:v1", "mine"))


async def test_a_folder_becomes_an_image_of_the_store(store: ImageStore, tmp_path: Path) -> None:
    source = tmp_path / "root"
    (source / "etc").mkdir(parents=True)
    (source / "etc/name").write_text("upper")
    async with Puller(store) as puller:
        found = await to_store(puller, str(source), "mine")
        with pytest.raises(ImageInvalid, match="is empty"):
            (tmp_path / "empty").mkdir()
            await to_store(puller, str(tmp_path / "empty"), "other")
    assert (found.layers[0] / "etc/name").read_text() == "upper"
    assert (source / "etc/name").stat().st_uid != store.payload_id, "the source is only read"
    assert store.names() == ["mine"]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("nothing", "no file or folder here"),
        ("noise", "no archive of an image"),
        ("other tar", "neither an OCI nor a Docker archive"),
        ("lost layer", "layer 1 is missing"),
        ("other tag", "image"),
    ],
)
async def test_what_is_no_image_is_said(
    damage: str, said: str, image: Image, store: ImageStore, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    if damage == "noise":
        source.write_bytes(b"noise" * 1000)
    elif damage == "other tar":
        source.write_bytes(make_layer([TarEntry("etc/name")]))
    elif damage == "lost layer":
        source = Path(oci_folder(image, tmp_path))
        (source / "blobs/sha256" / image.layers[1].removeprefix("sha256:")).unlink()
    elif damage == "other tag":
        source = Path(docker_archive(image, tmp_path) + "#v2")
    async with Puller(store) as puller:
        with pytest.raises((ImageInvalid, ImageMissing), match=said):
            await to_store(puller, str(source), "mine")
    assert store.names() == []


async def test_an_archive_of_two_images_needs_a_tag(image: Image, store: ImageStore, tmp_path: Path) -> None:
    root = Path(oci_folder(image, tmp_path))
    other = make_image([make_layer([TarEntry("other")])])
    for digest, blob in {**other.blobs, other.digest: other.manifest}.items():
        (root / "blobs/sha256" / digest.removeprefix("sha256:")).write_bytes(blob)
    index = json.loads((root / "index.json").read_bytes())
    index["manifests"].append({"digest": other.digest, "size": len(other.manifest)})
    (root / "index.json").write_text(json.dumps(index))
    async with Puller(store) as puller:
        with pytest.raises(ImageInvalid, match="2 images"):
            await to_store(puller, str(root), "mine")
        check_same(await to_store(puller, f"{root}#v1", "mine"))


def test_a_written_layout_can_be_read(image: Image, tmp_path: Path) -> None:
    blob = tmp_path / "blob"
    blob.write_bytes(image.blobs[image.layers[0]])
    described = {"mediaType": LAYER, "digest": image.layers[0], "size": blob.stat().st_size}
    config = {"os": "linux", "rootfs": {"diff_ids": ["sha256:1"]}, "config": {"Env": ["A=1"]}}
    write_layout(tmp_path / "layout", config=config, layers=[(blob, described)])
    with open_layout(tmp_path / "layout", tmp_path) as opened:
        assert opened.config.env == {"A": "1"}
        with opened.layers[0]() as layer:
            assert layer.read() == blob.read_bytes()
    assert CONFIG in (tmp_path / "layout/blobs/sha256").joinpath(_manifest(tmp_path / "layout")).read_text()


def _manifest(root: Path) -> str:
    digest: str = json.loads((root / "index.json").read_bytes())["manifests"][0]["digest"]
    return digest.removeprefix("sha256:")


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def sif_list(path: Path) -> str:
    return subprocess.run(["apptainer", "sif", "list", path], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
@pytest.mark.sandbox
@needs_apptainer
@pytest.mark.parametrize("form", ["docker_archive", "packed_docker_archive", "oci_folder", "registry", "store"])
async def test_a_sif_holds_the_image_and_gives_it_back(
    form: str, image: Image, store: ImageStore, tmp_path: Path, registry: ScriptedRegistry
) -> None:
    target = tmp_path / "out" / "image.sif"
    target.parent.mkdir()
    async with Puller(store) as puller:
        if form == "registry":
            registry.images["t/x:v1"] = image
            source = f"docker://{registry.host}/t/x:v1"
        elif form == "store":
            await to_store(puller, oci_folder(image, tmp_path), "mine")
            source = "mine"
        else:
            source = FORMS[form](image, tmp_path)
        await to_sif(puller, source, target)
        assert names_in(target.parent) == ["image.sif"]
        assert "Squashfs" in sif_list(target)
        check_same(await to_store(puller, str(target), "back"))
    (root,) = store.get("back").layers
    assert not (root / ".singularity.d").exists()
    assert {path.lstat().st_uid for path in root.rglob("*")} == {store.payload_id}
    assert names_in(store.home / "building") == []


@pytest.mark.sandbox
@needs_apptainer
async def test_a_sif_that_can_not_be_built_leaves_nothing(store: ImageStore, tmp_path: Path) -> None:
    broken = oci_folder(make_image([make_layer([TarEntry("a")])], media_type="application/x-unknown"), tmp_path)
    target = tmp_path / "out.sif"
    async with Puller(store) as puller:
        with pytest.raises(ImageInvalid, match=r"apptainer could not build out\.sif"):
            await to_sif(puller, broken, target)
        (tmp_path / "no.sif").write_bytes(b"noise")
        with pytest.raises(ImageInvalid, match=r"is no \.sif"):
            await to_store(puller, str(tmp_path / "no.sif"), "mine")
        with pytest.raises(ConfigError, match=r"a \.sif already"):
            await to_sif(puller, str(tmp_path / "no.sif"), target)
    assert not [name for name in names_in(tmp_path) if "out.sif" in name]
    assert store.names() == []
