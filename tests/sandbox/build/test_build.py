"""Images from recipes: a tiny project of ours over a real base and Python, from an index on loopback."""

import asyncio
import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import InfraError, RowError
from paddock.processes.command import CommandResult
from paddock.sandbox.failures import ImageInvalid
from paddock.sandbox.images import GitSource, ImageLimits, ImageStore, LocalImage, Recipe
from paddock.sandbox.images.build import base_image, build_image, python_image
from paddock.sandbox.images.build.index import Index, PipConfig
from paddock.sandbox.images.build.local import ANYWHERE
from paddock.sandbox.images.build.stage import cache
from paddock.sandbox.images.build.wheels import fetch_wheels, with_pip

pytestmark = pytest.mark.sandbox

MARSHMALLOW = Recipe(
    python="3.11",
    sdist="marshmallow==3.12.0",
    sdist_sha256="77ce3097c06d93de37394e0e0bf217dacbb4eabe0b88129e315e10d8790b1354",
    pip=[
        "iniconfig==2.0.0",
        "packaging==23.1",
        "pluggy==1.3.0",
        "pytest==7.4.4",
        "python-dateutil==2.8.2",
        "pytz==2023.3",
        "setuptools==68.0.0",
        "simplejson==3.19.2",
        "six==1.16.0",
        "wheel==0.41.3",
    ],
    install="python -m pip install -q --no-deps --no-build-isolation -e .",
)

SCIENTIFIC = [
    "contourpy==1.2.1",
    "cycler==0.12.1",
    "fonttools==4.53.1",
    "importlib-resources==6.4.0",
    "joblib==1.4.2",
    "kiwisolver==1.4.5",
    "matplotlib==3.9.2",
    "numpy==1.26.4",
    "packaging==24.1",
    "pandas==2.2.2",
    "pillow==10.4.0",
    "pyparsing==3.1.2",
    "python-dateutil==2.9.0.post0",
    "pytz==2024.1",
    "scikit-learn==1.5.1",
    "scipy==1.13.1",
    "six==1.16.0",
    "threadpoolctl==3.5.0",
    "tzdata==2024.1",
    "zipp==3.19.2",
]
"""Closed for Python 3.9 to 3.12."""

HELPER = "helper-2.0-py3-none-any.whl"
Inside = Callable[..., CommandResult]


def silent(_line: str) -> None:
    pass


@pytest.fixture(scope="module")
def pip_is_here(store: ImageStore, python: LocalImage, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The image's own pip lies in the cache, so that an index need not have it."""

    async def fetch() -> None:
        index = Index(await PipConfig.read(), cache(store, "sdists"))
        to = tmp_path_factory.mktemp("pip")
        pins = with_pip(Recipe(python="3.11", sdist="tiny==1.0", sdist_sha256="0" * 64))
        await fetch_wheels(pins, "3.11", index=index, wheel_cache=cache(store, "wheels-3.11"), to=to)

    try:
        asyncio.run(fetch())
    except InfraError as error:
        pytest.skip(f"no package index here: {error.message}")


@pytest.fixture
def tiny(index: Any, pip_is_here: None, make_sdist: Any, make_wheel: Any) -> Recipe:
    """Source, a test and a git folder that it should not have; it needs `helper`."""
    files = {"tiny.py": "import helper\n", "tests/test_a.py": "x\n", ".git/config": "x\n", "build/x": "tracked\n"}
    digest = index.put("tiny", "tiny-1.0.tar.gz", make_sdist("tiny-1.0", files))
    index.put("helper", HELPER, make_wheel("helper", "2.0", {"helper.py": "value = 7\n"}))
    return Recipe(
        python="3.11",
        sdist="tiny==1.0",
        sdist_sha256=digest,
        pip=["helper==2.0"],
        install="python -m compileall -q tests; mkdir -p dist /root/.cache/pip; echo $FLAVOUR > note; rm tiny.py",
        env={"FLAVOUR": "sour"},
    )


def leftovers(store: ImageStore) -> list[Path]:
    return list((store.home / "building").iterdir())


async def test_an_image_has_the_tree_in_git_and_its_environment(
    store: ImageStore, tiny: Recipe, inside: Inside
) -> None:
    lines: list[str] = []
    image = await build_image(store, "test/tiny", tiny, progress=lines.append)
    record = image.record
    assert len(image.layers) == 4 and image.layers[:2] == store.get("paddock/python:3.11").layers
    assert (record.workdir, record.env["FLAVOUR"], record.env["TZ"]) == ("/testbed", "sour", "UTC")
    assert record.env["PATH"].startswith("/opt/venv/bin:") and record.env["VIRTUAL_ENV"] == "/opt/venv"
    assert any("pinned" in line for line in lines)
    script = (
        "cd /testbed; python -c 'import tiny, helper; print(helper.value)'; git rev-parse HEAD;"
        " git log --format='%an %ad %s'; git status --porcelain; find . -name '*.pyc' -path '*test*'; cat note;"
        " ls build; test ! -e /root/.cache; touch $HOME/x; pip --version | cut -d' ' -f2; ls /mnt"
    )
    done = await asyncio.to_thread(inside, script, image)
    assert done.output.splitlines() == [
        "7",
        record.origin["head"],
        "Paddock Sat Jan 1 00:00:00 2000 +0000 base",
        "Paddock Sat Jan 1 00:00:00 2000 +0000 source",
        "?? note",
        "sour",
        "x",
        "24.0",
    ]
    assert leftovers(store) == []


async def test_the_layer_is_owned_by_the_payload(store: ImageStore, tiny: Recipe) -> None:
    image = await build_image(store, "test/tiny", tiny)
    owners = {
        os.lstat(Path(folder, name)).st_uid
        for layer in image.layers
        for folder, names, files in os.walk(layer)
        for name in (*names, *files)
    }
    assert owners == {store.payload_id}


async def test_the_same_recipe_is_built_once_and_another_replaces_it(store: ImageStore, tiny: Recipe) -> None:
    first, second = await asyncio.gather(*(build_image(store, "test/twice", tiny) for _ in range(2)))
    assert first == second
    tiny_again = await build_image(store, "test/tiny", tiny)
    assert tiny_again.record.origin["head"] == first.record.origin["head"], "the same tree is the same commit"
    other = await build_image(store, "test/twice", tiny.model_copy(update={"env": {"FLAVOUR": "sweet"}}))
    assert other.layers[-1] != first.layers[-1]
    assert first.layers[-1].exists(), "a sandbox may stand on it"


async def test_images_with_the_same_pins_share_their_environment(store: ImageStore, tiny: Recipe) -> None:
    one = await build_image(store, "test/tiny", tiny)
    other = await build_image(
        store, "test/other", tiny.model_copy(update={"install": None, "env": {"FLAVOUR": "bitter"}})
    )
    assert one.layers[:-1] == other.layers[:-1] and one.layers[-1] != other.layers[-1]
    bare = await build_image(store, "test/bare", tiny.model_copy(update={"pip": [], "install": None}))
    assert bare.layers[:-2] == one.layers[:-2] and bare.layers[-2] != one.layers[-2]


async def test_a_pin_without_a_wheel_is_built_inside(
    store: ImageStore, tiny: Recipe, index: Any, make_sdist: Any, inside: Inside
) -> None:
    backend = (
        "import zipfile\n"
        "def build_wheel(folder, *_):\n"
        "    with zipfile.ZipFile(folder + '/raw-1.0-py3-none-any.whl', 'w') as made:\n"
        "        made.writestr('raw.py', 'value = 8')\n"
        "        made.writestr('raw-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: raw\\nVersion: 1.0\\n')\n"
        "        made.writestr('raw-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\n')\n"
        "        made.writestr('raw-1.0.dist-info/RECORD', '')\n"
        "    return 'raw-1.0-py3-none-any.whl'\n"
    )
    project = "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
    index.put("raw", "raw-1.0.tar.gz", make_sdist("raw-1.0", {"backend.py": backend, "pyproject.toml": project}))
    recipe = tiny.model_copy(update={"pip": [*tiny.pip, "raw==1.0"]})
    image = await build_image(store, "test/raw", recipe)
    assert "8" in (await asyncio.to_thread(inside, "python -c 'import raw; print(raw.value)'", image)).output


@pytest.mark.parametrize(
    ("change", "kind", "told"),
    [
        ({"install": "echo it is broken; exit 3"}, "build_step", "it is broken"),
        ({"pip": ["helper==9.9"]}, "no_such_package", "helper==9.9"),
        ({"pip": ["nowhere==1.0"]}, "no_such_package", "nowhere"),
        ({"sdist_sha256": "0" * 64}, "sdist_digest", "0" * 64),
        ({"sdist": "tiny==2.0"}, "no_sdist", "tiny==2.0"),
        ({"python": "3.2"}, "python_missing", "no Python 3.2"),
    ],
)
async def test_what_a_recipe_gets_wrong_is_the_rows_fault_and_leaves_nothing(
    store: ImageStore, tiny: Recipe, change: dict[str, Any], kind: str, told: str
) -> None:
    await build_image(store, "test/tiny", tiny)  # the environment that both share is there
    layers = set((store.home / "layers").iterdir())
    with pytest.raises(RowError) as caught:
        await build_image(store, "test/wrong", tiny.model_copy(update=change))
    assert caught.value.kind == kind
    assert told in caught.value.message
    assert not store.has("test/wrong")
    assert set((store.home / "layers").iterdir()) == layers
    assert leftovers(store) == []


async def test_a_wheel_that_the_hashes_are_not_of_is_refused_before_it_is_installed(
    store: ImageStore, tiny: Recipe, index: Any, make_wheel: Any
) -> None:
    digest = hashlib.sha256((index.folder / "helper" / HELPER).read_bytes()).hexdigest()
    hashed = tiny.model_copy(update={"pip": [f"helper==2.0 --hash=sha256:{digest}"]})
    with pytest.raises(RowError, match=r"test/bare: the recipe's pins have no hashes") as caught:
        await build_image(store, "test/bare", tiny, require_hashes=True)
    assert caught.value.kind == "no_hash"
    bare = await build_image(store, "test/bare", tiny)
    image = await build_image(store, "test/hashed", hashed, require_hashes=True)
    assert image.layers[:2] == bare.layers[:2]
    assert image.layers[2] != bare.layers[2], "what was not checked does not stand for what was"
    layers = set((store.home / "layers").iterdir())
    index.put("helper", HELPER, make_wheel("helper", "2.0", {"helper.py": "value = 'evil'\n"}))
    wrong = hashed.model_copy(update={"pip": [f"helper==2.0 --hash=sha256:{'0' * 64}"]})
    with pytest.raises(RowError, match=r"test/hashed: helper==2\.0: the file is not what") as caught:
        await build_image(store, "test/hashed", wrong)
    assert caught.value.kind == "pin_digest"
    assert set((store.home / "layers").iterdir()) == layers and leftovers(store) == []


@pytest.mark.parametrize(
    ("limits", "install", "told"),
    [
        ({"unpacked_mib": 8}, "head -c 20000000 /dev/zero > big; sleep 200", r"19 MiB, .* --unpacked-mib N"),
        ({"entries": 500}, "touch $(seq 1000)", r"more than 500 entries; .* --entries N"),
    ],
)
async def test_what_a_build_writes_is_within_the_limits_of_an_image(
    limits: dict[str, int], install: str, told: str, store: ImageStore, tiny: Recipe
) -> None:
    await build_image(store, "test/tiny", tiny)
    small = ImageStore(store.home, payload_id=store.payload_id, limits=ImageLimits(**limits))
    layers = set((store.home / "layers").iterdir())
    async with asyncio.timeout(150):
        with pytest.raises(ImageInvalid, match=rf"test/large: the build has written {told}") as caught:
            await build_image(small, "test/large", tiny.model_copy(update={"install": install}))
    assert caught.value.kind == "image_too_large"
    assert not store.has("test/large") and set((store.home / "layers").iterdir()) == layers
    assert leftovers(store) == []


async def test_an_index_that_does_not_answer_is_the_machines_fault(
    store: ImageStore, tiny: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("PIP_RETRIES", "0")
    for change in ({"sdist": "tiny==7.0", "sdist_sha256": "7" * 64}, {"pip": ["elsewhere==1.0"]}):
        with pytest.raises(InfraError) as caught:
            await build_image(store, "test/silent", tiny.model_copy(update=change))
        assert caught.value.kind == "index_unavailable"


async def test_a_cancelled_build_leaves_nothing_and_no_process(store: ImageStore, tiny: Recipe) -> None:
    started = asyncio.Event()
    # Nobody else's on this machine.
    words = f"sleep 4711.{os.getpid()}"
    recipe = tiny.model_copy(update={"install": f"{words} & wait"})

    def follow(line: str) -> None:
        if line.startswith("test/slow") and "without a network" in line:
            started.set()

    task = asyncio.create_task(build_image(store, "test/slow", recipe, progress=follow))
    await started.wait()
    await asyncio.sleep(2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    look = ["pgrep", "-f", f"^{words}$"]
    async with asyncio.timeout(60):
        while (await asyncio.to_thread(subprocess.run, look, capture_output=True)).stdout:
            await asyncio.sleep(0.1)
    assert leftovers(store) == []


@pytest.fixture
def repository(tmp_path: Path) -> GitSource:
    """Its first commit, of two."""
    folder = tmp_path / "repository"
    folder.mkdir()
    script = (
        "git init -q -b main . && echo '*.txt export-ignore' > .gitattributes && echo a > a.txt && git add -A"
        " && git commit -qm one && echo later > later.py && git add -A && git commit -qm two && git tag v2"
        " && git rev-parse HEAD~1"
    )
    who = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env={**os.environ, **who}, check=True, capture_output=True, text=True
    )
    return GitSource(repository=str(folder), commit=done.stdout.strip())


@pytest.mark.parametrize("place", ["path", "url"])
async def test_a_commit_is_taken_without_what_came_after_it(
    place: str, store: ImageStore, pip_is_here: None, inside: Inside, repository: GitSource
) -> None:
    if place == "url":
        repository = repository.model_copy(update={"repository": Path(repository.repository).as_uri()})
    recipe = Recipe(python="3.11", git=repository)
    image = await build_image(store, f"test/git-{place}", recipe, local_repositories=ANYWHERE)
    done = await asyncio.to_thread(inside, "cd /testbed; ls -A; git log --format=%s; git tag; git remote", image)
    assert done.output.split() == [".git", ".gitattributes", "a.txt", "base", "source"]
    gone = repository.model_copy(update={"commit": "0" * 40})
    with pytest.raises(RowError) as caught:
        await build_image(store, "test/gone", Recipe(python="3.11", git=gone), local_repositories=ANYWHERE)
    assert caught.value.kind == "no_such_commit"


async def test_a_published_project_is_built_and_tested(store: ImageStore, pip_is_here: None, inside: Inside) -> None:
    image = await build_image(store, "test/marshmallow", MARSHMALLOW)
    done = await asyncio.to_thread(inside, "cd /testbed; pytest -q tests/test_fields.py; git status --porcelain", image)
    assert "111 passed" in done.output.splitlines()[-1], "and nothing is left that git would see"


def test_layers_below_are_built_once(store: ImageStore, base: LocalImage, python: LocalImage) -> None:
    async def both() -> list[LocalImage]:
        return list(await asyncio.gather(base_image(store, pytest.fail), python_image(store, "3.11", pytest.fail)))

    assert asyncio.run(both()) == [base, python]
    assert python.layers[:1] == base.layers


def test_the_base_is_a_place_to_work_in(inside: Inside) -> None:
    script = (
        "for tool in git grep sed awk find diff patch ps tar gzip xz less rg make perl which getconf; do"
        " command -v $tool > /dev/null || echo no $tool; done;"
        " locale charmap; date +%Z; getent hosts localhost > /dev/null && id -un; cat /proc/net/route | wc -l;"
        " test ! -e /etc/shadow; stat -c %a /tmp; ldconfig -p | grep -c libcurl;"
        " find / -xdev -perm /6000 -type f; ls /usr/share/doc /usr/share/man 2>/dev/null || :"
    )
    assert inside(script).output.splitlines() == ["UTF-8", "UTC", "root", "1", "1777", "1"]


@pytest.mark.parametrize("minor", ["3.9", "3.12"])
def test_other_pythons_are_whole(minor: str, store: ImageStore, base: LocalImage, inside: Inside) -> None:
    try:
        image = asyncio.run(python_image(store, minor, silent))
    except (InfraError, RowError) as error:
        pytest.skip(f"no Python {minor} for images here: {error.message}")
    program = image.record.origin["program"]
    script = (
        f"{program} -c 'import sys, ssl, sqlite3, ctypes.util, zoneinfo, decimal; print(sys.version_info[:2]);"
        ' print(ctypes.util.find_library("ssl") is not None, zoneinfo.ZoneInfo("Europe/Berlin"))\';'
        " git --version | cut -c1-3; bash -c 'echo ok';"
        f' {program} -c \'import ctypes; ctypes.CDLL("libstdc++.so.6"); print("C++")\''
    )
    major, low = minor.split(".")
    done = inside(script, image)
    assert done.output.splitlines() == [f"({major}, {low})", "True Europe/Berlin", "git", "ok", "C++"]


@pytest.mark.long
@pytest.mark.parametrize("minor", ["3.9", "3.10", "3.11", "3.12"])
async def test_scientific_wheels_work_on_every_python(
    minor: str, store: ImageStore, repository: GitSource, inside: Inside
) -> None:
    """They load libraries that no wheel brings."""
    try:
        recipe = Recipe(python=minor, git=repository, pip=SCIENTIFIC)
        image = await build_image(store, f"test/science-{minor}", recipe, local_repositories=ANYWHERE)
    except (InfraError, RowError) as error:
        if error.kind in ("python_missing", "no_such_package", "index_unavailable", "packages_unavailable"):
            pytest.skip(f"not to be had here: {error.message}")
        raise
    script = (
        "cd /tmp; python -c 'import matplotlib, numpy, pandas, scipy.stats, scipy.sparse.linalg, PIL.Image;"
        " from sklearn.ensemble import RandomForestClassifier as Forest;"
        ' import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.savefig("a.png");'
        ' print(PIL.Image.open("a.png").format, pandas.DataFrame({"a": [1, 2]}).a.sum(),'
        " Forest(n_jobs=2).fit([[0], [1]], [0, 1]).predict([[1]])[0])'"
    )
    done = await asyncio.to_thread(inside, script, image)
    assert done.output.split()[-3:] == ["PNG", "3", "1"], done.tail
