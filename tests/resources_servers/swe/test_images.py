"""Claims about images that the store has lost a part of: that is never the row's fault."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.errors import InfraError
from paddock.resources_servers.swe.images import Images, SweImages
from paddock.resources_servers.swe.instance import Instance
from paddock.resources_servers.swe.rows import read
from paddock.resources_servers.swe.server import SweServer
from paddock.sandbox import ImageDamaged, ImageMissing
from paddock.sandbox.images import ImageStore
from paddock.sandbox.settings import PAYLOAD_ID
from paddock.testing.images import scripted_registry
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
    tmp_path: Path, make: Callable[..., Instance]
) -> None:
    with scripted_registry() as registry:
        name = f"{registry.host}/t/x:v1"
        registry.faults["manifests"] = [418]
        images = Images(ImageStore(tmp_path, payload_id=PAYLOAD_ID), SweImages())
        with pytest.raises(InfraError, match=rf"^shapes__area-1: image {name}: .*418"):
            await images.ensure(make(image=name))
