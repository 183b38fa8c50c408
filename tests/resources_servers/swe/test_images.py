"""Claims about images that the store has lost a part of: that is never the row's fault."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.support.images import scripted_registry

from paddock.errors import InfraError, RowError
from paddock.resources_servers.swe.images import Images, SweImages
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.rows import read
from paddock.resources_servers.swe.server import SweServer
from paddock.sandbox import ImageDamaged, ImageMissing
from paddock.sandbox.images import ImageStore
from paddock.sandbox.settings import PAYLOAD_ID
from paddock.types import Row

INSTANCE = read(Row.from_wire(SweServer.example))


async def test_a_damaged_image_that_may_not_be_made_again_is_the_machines(tmp_path: Path) -> None:
    store = ImageStore(tmp_path, payload_id=PAYLOAD_ID)
    images = Images(store, SweImages(get_missing=False))
    with pytest.raises(ImageMissing):
        await images.ensure(INSTANCE)
    image = store.add(INSTANCE.image, lambda tree: (tree / "file").touch())
    assert await images.ensure(INSTANCE) == INSTANCE.image
    shutil.rmtree(image.layers[0])
    with pytest.raises(ImageDamaged, match=r"its layer .* is not there; make it again: `paddock images build`"):
        await images.ensure(INSTANCE)


async def test_a_registry_that_fails_is_told_with_the_row_and_its_image(
    tmp_path: Path, make: Callable[..., SweInstance]
) -> None:
    with scripted_registry() as registry:
        name = f"{registry.host}/t/x:v1"
        registry.faults["manifests"] = [418]
        images = Images(ImageStore(tmp_path, payload_id=PAYLOAD_ID), SweImages())
        with pytest.raises(InfraError, match=rf"^shapes__area-1: image {name}: .*418"):
            await images.ensure(make(image=name))


async def test_a_row_reads_no_repository_of_this_machine_that_the_config_does_not_allow(
    tmp_path: Path, make: Callable[..., SweInstance]
) -> None:
    store = ImageStore(tmp_path / "store", payload_id=PAYLOAD_ID)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "out").symlink_to(tmp_path)
    allowed = SweImages(local_repositories=[tmp_path / "mine"])
    for settings in (SweImages(), allowed):
        images = Images(store, settings)
        for place in (tmp_path, tmp_path / "mine" / "..", tmp_path / "mine" / "out"):
            build = {"python": "3.11", "git": {"repository": str(place), "commit": "HEAD"}}
            with pytest.raises(RowError, match=r"local_repositories: \[FOLDER\]") as caught:
                await images.ensure(make(build=build))
            assert caught.value.kind == "repository_refused"
    assert not store.home.exists()


@pytest.mark.parametrize("folder", ["mine", "./mine", "~somebody/mine"])
def test_folders_of_local_repositories_are_absolute(folder: str) -> None:
    with pytest.raises(ValidationError, match="is no absolute path"):
        SweImages.model_validate({"local_repositories": [folder]})
    assert SweImages.model_validate({"local_repositories": ["~/mine"]}).local_repositories == [Path.home() / "mine"]
