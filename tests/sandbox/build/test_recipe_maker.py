"""Claims about recipes that are made: pins are closed for the image's Python, sources are found and hashed."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import RowError
from paddock.sandbox.images import ImageStore, Recipe
from paddock.sandbox.images.build.recipe_maker import RecipeNeeds, make_recipe
from paddock.sandbox.settings import PAYLOAD_ID

PYPROJECT = """[build-system]
requires = ["backend>=1"]
build-backend = "backend"
"""


@pytest.fixture
def empty_store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "home", payload_id=PAYLOAD_ID)


@pytest.fixture
def filled(index: Any, make_sdist: Any, make_wheel: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """An index with a source, what builds it, and what that needs on old Pythons alone; the source's sha256."""
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    requires = {"backend": ['old; python_version < "3.10"', "helper"]}
    for name, version in (("backend", "1.0"), ("helper", "1.0"), ("helper", "2.0"), ("old", "3.0")):
        wheel = make_wheel(name, version, {f"{name}.py": ""}, requires.get(name, []))
        index.put(name, f"{name}-{version}-py3-none-any.whl", wheel)
    found: str = index.put("tiny", "tiny-1.0.tar.gz", make_sdist("tiny-1.0", {"pyproject.toml": PYPROJECT}))
    return found


def bare(recipe: Recipe) -> list[str]:
    """Its pins, each of which has a hash, without them."""
    assert recipe.is_hashed
    return [pin.split()[0] for pin in recipe.pip]


@pytest.mark.parametrize(
    ("python", "pins"),
    [("3.11", ["backend==1.0", "helper==1.0"]), ("3.9", ["backend==1.0", "helper==1.0", "old==3.0"])],
)
async def test_pins_are_closed_for_the_images_python(
    python: str, pins: list[str], filled: str, empty_store: ImageStore
) -> None:
    recipe = await make_recipe(
        empty_store, "tiny==1.0", python, RecipeNeeds(["helper<2"]), install="install it", env={"A": "b"}
    )
    assert (recipe.sdist, recipe.sdist_sha256, bare(recipe)) == ("tiny==1.0", filled, pins)
    assert (recipe.install, recipe.env) == ("install it", {"A": "b"})


@pytest.mark.parametrize("written", ["helper<2", "\n    helper<2  # the last that reads the old form"])
async def test_what_setuptools_asks_for_while_it_builds_is_among_the_pins(
    written: str, index: Any, make_sdist: Any, make_wheel: Any, filled: str, empty_store: ImageStore
) -> None:
    for name in ("setuptools", "wheel"):
        index.put(name, f"{name}-1.0-py3-none-any.whl", make_wheel(name, "1.0", {f"{name}.py": ""}, []))
    text = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    files = {"pyproject.toml": text, "setup.cfg": f"[metadata]\nname = old\n[options]\nsetup_requires = {written}\n"}
    index.put("legacy", "legacy-1.0.tar.gz", make_sdist("legacy-1.0", files))
    recipe = await make_recipe(empty_store, "legacy==1.0", "3.11", RecipeNeeds(), install=None, env={})
    assert bare(recipe) == ["helper==1.0", "setuptools==1.0", "wheel==1.0"]


async def test_requirement_files_are_read_and_contradictions_told(
    filled: str, empty_store: ImageStore, tmp_path: Path
) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("helper==1.0  # a comment\n")
    recipe = await make_recipe(empty_store, "tiny==1.0", "3.11", RecipeNeeds(files=[file]), install=None, env={})
    assert bare(recipe) == ["backend==1.0", "helper==1.0"]
    with pytest.raises(RowError, match=r"helper") as caught:
        await make_recipe(empty_store, "tiny==1.0", "3.11", RecipeNeeds(["helper>=2"], [file]), install=None, env={})
    assert caught.value.kind == "requirements"
    with pytest.raises(RowError, match=r"which Python\?"):
        await make_recipe(empty_store, "tiny==1.0", None, RecipeNeeds(), install=None, env={})


async def test_pins_have_the_hashes_of_what_the_image_may_take(
    index: Any, make_sdist: Any, make_wheel: Any, filled: str, empty_store: ImageStore
) -> None:
    def put(tags: str, release: str = "helper-1.0") -> str:
        text = {"helper.py": f"tags = {tags!r}"}
        if not tags:
            return str(index.put("helper", f"{release}.tar.gz", make_sdist(release, text)))
        return str(index.put("helper", f"{release}-{tags}.whl", make_wheel("helper", release[7:], text, [])))

    for tags in ("cp311-cp311-win_amd64", "cp310-cp310-manylinux_2_17_x86_64", "cp311-cp311-musllinux_1_2_x86_64"):
        put(tags)
    put("py3-none-any", "helper-1.0.1")
    abi = "cp38-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64"
    wanted = [put("cp311-cp311-manylinux_2_17_aarch64"), put(abi), put("")]
    recipe = await make_recipe(empty_store, "tiny==1.0", "3.11", RecipeNeeds(["helper==1.0"]), install=None, env={})
    before = {"helper-1.0-py3-none-any.whl"}
    assert recipe.is_hashed
    digest = {hashlib.sha256((index.folder / "helper" / name).read_bytes()).hexdigest() for name in before}
    assert recipe.pip[1].split() == ["helper==1.0", *(f"--hash=sha256:{one}" for one in sorted({*wanted, *digest}))]


async def test_pins_of_which_no_index_states_a_hash_have_none_and_that_is_said(
    index: Any, filled: str, empty_store: ImageStore, tmp_path: Path
) -> None:
    said: list[str] = []

    async def made(*pins: str) -> list[str]:
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\necho '{json.dumps({'python': '3.11', 'pins': pins})}'\n")
        python.chmod(0o755)
        needs = RecipeNeeds(environment=str(python))
        recipe = await make_recipe(empty_store, "tiny==1.0", None, needs, install=None, env={}, progress=said.append)
        return recipe.pip

    (hashed,) = await made("helper==2.0")
    assert "helper==2.0 --hash=sha256:" in hashed and said == []
    assert await made("helper==2.0", "helper==9.0+mine") == ["helper==2.0", "helper==9.0+mine"]
    assert said == ["its pins have no hashes: no package index here states a sha256 of helper==9.0+mine"]


@pytest.fixture
def commit(tmp_path: Path) -> str:
    """REPOSITORY@COMMIT of a repository with one commit."""
    repository = tmp_path / "repository"
    repository.mkdir()
    git = "git -c user.name=a -c user.email=a@b"
    script = f"git init -q . && {git} commit -q --allow-empty -m one && git rev-parse HEAD"
    done = subprocess.run(["sh", "-c", script], cwd=repository, check=True, capture_output=True, text=True)
    return f"{repository}@{done.stdout.strip()}"


async def test_an_environment_is_taken_as_it_is_for_a_commit(index: Any, commit: str, empty_store: ImageStore) -> None:
    recipe = await make_recipe(empty_store, commit, None, RecipeNeeds(environment=sys.executable), install=None, env={})
    assert recipe.git is not None and commit.endswith(f"@{recipe.git.commit}")
    assert recipe.python == f"3.{sys.version_info.minor}"
    assert f"pytest=={pytest.__version__}" in recipe.pip
