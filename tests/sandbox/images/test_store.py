"""Claims about images of which the store has lost a part: they are named, with what to do, and can be made again."""

import shutil

import pytest

from paddock.cli import main
from paddock.sandbox import ImageDamaged
from paddock.sandbox.images import ImageStore, LocalImage

NAME = "mine/shapes:1"


@pytest.fixture
def image(store: ImageStore) -> LocalImage:
    return store.add(NAME, lambda tree: (tree / "file").touch())


def test_a_missing_layer_is_named_with_its_image_and_what_to_do(store: ImageStore, image: LocalImage) -> None:
    shutil.rmtree(image.layers[0].parent)
    with pytest.raises(ImageDamaged) as caught:
        store.get(NAME)
    assert caught.value.message == (
        f"image {NAME!r}: its layer {image.layers[0]} is not there; "
        f"make it again: `paddock images build` from its recipe, or `paddock images pull {NAME}` from a registry"
    )
    assert (caught.value.owner, caught.value.retryable) == ("infra", False)


def test_a_record_that_was_cut_off_is_named_with_its_file_and_what_to_do(store: ImageStore, image: LocalImage) -> None:
    (path,) = (store.home / "images").iterdir()
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(ImageDamaged) as caught:
        store.get(NAME)
    assert caught.value.message.startswith(f"{path}: the record of image {NAME!r} is not whole: ")
    assert "paddock images pull" in caught.value.message
    assert "pydantic" not in caught.value.message
    assert "\n" not in caught.value.message


def test_a_damaged_image_is_none_that_the_store_has_and_can_be_made_again(store: ImageStore, image: LocalImage) -> None:
    shutil.rmtree(image.layers[0].parent)
    assert not store.has(NAME)
    assert store.names() == [NAME]
    store.add(NAME, lambda tree: (tree / "file").touch())
    assert store.has(NAME)


def test_a_command_over_a_damaged_store_says_so_in_one_line(
    store: ImageStore, image: LocalImage, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = (store.home / "images").iterdir()
    path.write_bytes(b"")
    for command in (["list"], ["remove", NAME]):
        assert main(["images", *command, "--home", str(store.home)]) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"paddock images: {path}: the record of image {NAME!r} is not whole: ")
        assert said.count("\n") == 1
