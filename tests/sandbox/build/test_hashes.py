"""Claims about pins with hashes: what they are not of is neither laid out nor kept, and what was wrong is named."""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import ValidationError

from paddock.errors import RowError
from paddock.sandbox.images import Recipe
from paddock.sandbox.images.build.index import Index, PipConfig, split_pin
from paddock.sandbox.images.build.wheels import PIPS, Wheels, fetch_wheels, with_pip

FILE = "helper-2.0-py3-none-any.whl"
OTHER = "0" * 64


class Folders(NamedTuple):
    kept: Path
    to: Path


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    made = Folders(tmp_path / "kept", tmp_path / "to")
    for folder in made:
        folder.mkdir()
    return made


@pytest.fixture
def client(index: Any, tmp_path: Path) -> Index:
    (tmp_path / "sdists").mkdir()
    return Index(PipConfig([index.url], None), tmp_path / "sdists")


async def fetched(client: Index, folders: Folders, *pins: str) -> Wheels:
    return await fetch_wheels(pins, "3.11", index=client, wheel_cache=folders.kept, to=folders.to)


def hashed(pin: str, *digests: str) -> str:
    return " ".join([pin, *(f"--hash=sha256:{digest}" for digest in digests)])


async def test_a_wheel_that_a_hash_is_of_is_taken(client: Index, index: Any, make_wheel: Any, folders: Folders) -> None:
    digest = index.put("helper", FILE, make_wheel("helper", "2.0", {}))
    found = await fetched(client, folders, hashed("helper==2.0", OTHER, digest))
    assert [path.name for path in found.wheels] == [FILE]


async def test_another_wheel_is_refused_by_name_and_not_kept(
    client: Index, index: Any, make_wheel: Any, folders: Folders
) -> None:
    digest = hashlib.sha256(make_wheel("helper", "2.0", {})).hexdigest()
    found = index.put("helper", FILE, make_wheel("helper", "2.0", {"evil.py": ""}))
    with pytest.raises(RowError) as caught:
        await fetched(client, folders, hashed("helper==2.0", digest))
    assert caught.value.kind == "pin_digest"
    assert caught.value.message.startswith("helper==2.0: the file is not what the recipe's hashes are of:\n")
    assert digest in caught.value.message and found in caught.value.message
    assert list(folders.kept.iterdir()) == []


async def test_what_lies_in_the_cache_is_checked_too(
    client: Index, index: Any, make_wheel: Any, folders: Folders
) -> None:
    (folders.kept / FILE).write_bytes(make_wheel("helper", "2.0", {"evil.py": ""}))
    right = make_wheel("helper", "2.0", {})
    found = await fetched(client, folders, hashed("helper==2.0", index.put("helper", FILE, right)))
    assert found.wheels[0].read_bytes() == right


async def test_a_source_is_checked_by_the_pins_hashes(
    client: Index, index: Any, make_sdist: Any, folders: Folders
) -> None:
    digest = index.put("raw", "raw-1.0.tar.gz", make_sdist("raw-1.0", {"setup.py": ""}))
    found = await fetched(client, folders, hashed("raw==1.0", OTHER, digest))
    assert [path.name for path in found.sources] == ["raw-1.0.tar.gz"]
    with pytest.raises(RowError, match=rf"raw==1\.0: raw-1\.0\.tar\.gz has sha256 {digest}, not {OTHER}") as caught:
        await fetched(client, folders, hashed("raw==1.0", OTHER))
    assert caught.value.kind == "sdist_digest"


def test_all_pins_of_a_recipe_have_hashes_or_none_has() -> None:
    source = {"python": "3.11", "sdist": "a==1", "sdist_sha256": OTHER}
    assert not Recipe(**source, pip=["b==1", "c==1"]).is_hashed
    recipe = Recipe(**source, pip=[hashed("b==1", OTHER), hashed("c==1", OTHER)])
    assert recipe.is_hashed
    assert with_pip(recipe)[0] == hashed("pip==24.0", PIPS["24.0"])
    with pytest.raises(ValidationError, match="'c==1' has no --hash=sha256:"):
        Recipe(**source, pip=[hashed("b==1", OTHER), "c==1"])


@pytest.mark.parametrize(
    "pin",
    [
        "b==1 --hash=md5:0123",
        f"b==1 --hash=sha256:{OTHER[1:]}",
        "b==1 ; python_version > '3' --hash=md5:0",
        f"b==1 --hash=sha256:{OTHER} --no-deps",
    ],
)
def test_a_hash_of_another_form_is_refused(pin: str) -> None:
    with pytest.raises(RowError, match="exact pin"):
        split_pin(pin)
