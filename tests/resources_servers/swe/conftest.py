"""Fixtures: `make` gives an instance with chosen fields; `stand` grades rows of a small project in real sandboxes.

`diff` makes patches of that project, `published` rows in the official form over hidden tests of it.
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from paddock.resources_servers.swe.grading import Grade, Grader, GradingOptions, measure_of
from paddock.resources_servers.swe.images import resolve_image
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.rows import read
from paddock.sandbox import SandboxSettings, open_local_provider
from paddock.sandbox.images import ImageStore, Recipe
from paddock.sandbox.images.build import build_image
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.settings import HOME_VARIABLE
from paddock.types import JsonObject, Row

IDENTITY = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
DATES = {"GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z"}
PROJECT = {
    "shapes/__init__.py": "def area(width, height):\n    return width + height\n\n\n"
    "def perimeter(width, height):\n    return 2 * (width + height)\n",
    "shapes/windows.py": "def name():\r\n    return 'wrong'\r\n",
    "shapes/logo.bin": "\0logo\0",
    "conftest.py": "import pytest\n\n\n@pytest.fixture\ndef sides():\n    return 2, 3\n",
    "tests/test_area.py": "from shapes import perimeter\n\n\ndef test_perimeter(sides):\n"
    "    assert perimeter(*sides) == 10\n",
    "tests/test_other.py": "def test_other():\n    assert True\n",
    "README.md": "Shapes.\n",
}

OFFICIAL = f"""#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
git status
git show
git -c core.fileMode=false diff {"a" * 40}
git checkout {"a" * 40} {{paths}}
git apply -v - <<'EOF_1'
{{test_patch}}
EOF_1
: '>>>>> Start Test Output'
{{command}}
: '>>>>> End Test Output'
git checkout {"a" * 40} {{paths}}
"""


@pytest.fixture
def make() -> Callable[..., SweInstance]:
    def one(**fields: Any) -> SweInstance:
        base: dict[str, Any] = {
            "instance_id": "shapes__area-1",
            "dataset": "paddock",
            "problem_statement": "x",
            "image": "shapes",
            "gold_patch": b"x",
            "test_command": "pytest -rA tests/test_a.py",
            "fail_to_pass": ["tests/test_a.py::test_new"],
            "pass_to_pass": ["tests/test_a.py::test_old"],
        }
        return SweInstance.model_validate({**base, **fields})

    return one


class GradingStand:
    """A small project in an image, and a grader over it."""

    def __init__(self, provider: LocalProvider, options: GradingOptions) -> None:
        self.provider = provider
        self.grader = Grader(provider, options, resolve_image, measure_of(provider.settings.home))

    async def grade(self, task: JsonObject, patch: str | bytes, params: JsonObject | None = None) -> Grade:
        row = Row.from_wire({"responses_create_params": params or {"input": []}, **task})
        data = patch.encode("utf-8", "surrogateescape") if isinstance(patch, str) else patch
        return await self.grader.grade(read(row), data)


@pytest.fixture(scope="session")
def images() -> ImageStore:
    """Images that tests build stay on this machine, for the next run: below `PADDOCK_HOME`, else in /var/tmp."""
    if shutil.which("bwrap") is None:
        pytest.skip("no bubblewrap on this machine")
    settings = SandboxSettings(home=_home())
    settings.home.mkdir(parents=True, exist_ok=True)
    return ImageStore(settings.home, payload_id=settings.payload_id)


def _home() -> Path:
    return Path(os.environ.get(HOME_VARIABLE) or f"/var/tmp/paddock-tests-{os.geteuid()}")


@pytest.fixture(scope="session")
def shapes(images: ImageStore, tmp_path_factory: pytest.TempPathFactory) -> JsonObject:
    """The recipe of a project with a bug; its image is built for a tree at /testbed and for one at /app."""
    made = _repository(tmp_path_factory.mktemp("shapes"))
    commit = _git(made, "rev-parse", "HEAD").decode().strip()
    repository = _keep(made, images.home / "test-sources" / f"shapes-{commit}")
    recipe: JsonObject = {
        "python": "3.11",
        "git": {"repository": str(repository), "commit": commit},
        "pip": ["iniconfig==2.0.0", "packaging==24.1", "pluggy==1.5.0", "pytest==8.3.3"],
    }
    for name, workdir in (("shapes__area-1", "/testbed"), ("shapes__app-1", "/app")):
        whole = Recipe.model_validate({**recipe, "workdir": workdir})
        asyncio.run(build_image(images, name, whole, local_repositories=[repository]))
    return recipe


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stand(images: ImageStore, shapes: JsonObject) -> AsyncIterator[Callable[..., GradingStand]]:
    """One for the same options: what a grader has learnt of a row is kept, as where many patches of one are graded."""
    provider = await open_local_provider(SandboxSettings(home=images.home))
    stands: dict[str, GradingStand] = {}

    def make_stand(**options: Any) -> GradingStand:
        chosen = GradingOptions.model_validate({"tests_timeout_s": 60, **options})
        return stands.setdefault(chosen.model_dump_json(), GradingStand(provider, chosen))

    yield make_stand
    for one in stands.values():
        await one.grader.close()
    await provider.close()


Files = dict[str, str | bytes | None]
Diff = Callable[[Files], str]


@pytest.fixture(scope="session")
def diff(tmp_path_factory: pytest.TempPathFactory) -> Diff:
    """The git patch of changed files by path; None: removed."""
    repository = _repository(tmp_path_factory.mktemp("changed"))

    def make_diff(files: Files) -> str:
        for name, data in files.items():
            if data is None:
                (repository / name).unlink()
            else:
                _write(repository / name, data)
        _git(repository, "add", "-A", "-f")
        made = _git(repository, "diff", "--cached", "--binary", "--no-renames", "HEAD")
        _git(repository, "reset", "-q", "--hard")
        return made.decode("utf-8", "surrogateescape")

    return make_diff


@pytest.fixture
def published(shapes: JsonObject, diff: Diff) -> Callable[..., JsonObject]:
    """A row with an official script: its test patch is the change to those files, `command` runs them."""

    def row(gold: str, tests: Files, command: str, **fields: Any) -> JsonObject:
        test_patch = diff(tests)
        script = OFFICIAL.format(paths=" ".join(tests), command=command, test_patch=test_patch)
        return {
            "instance_id": "shapes__area-1",
            "repo": "shapes/shapes",
            "problem_statement": "area(2, 3) is 5.",
            "patch": gold,
            "test_patch": test_patch,
            "eval_script": script,
            "log_parser": "parse_log_pytest",
            "eval_type": "pass_and_fail",
            "paddock": shapes,
            **fields,
        }

    return row


def _repository(folder: Path) -> Path:
    """The project as one commit."""
    for name, text in PROJECT.items():
        _write(folder / name, text)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "shapes"]):
        _git(folder, *words)
    return folder


def _keep(made: Path, place: Path) -> Path:
    """The repository where the next run finds it too: a recipe that names another place is another recipe."""
    place.parent.mkdir(exist_ok=True)
    fresh = place.with_name(f".{place.name}.{uuid.uuid4().hex[:8]}")
    shutil.copytree(made, fresh)
    with contextlib.suppress(OSError):
        fresh.rename(place)  # somebody else was first
    shutil.rmtree(fresh, ignore_errors=True)
    return place


def _write(path: Path, data: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def _git(folder: Path, *words: str) -> bytes:
    return subprocess.check_output(["git", *IDENTITY, *words], cwd=folder, env={**os.environ, **DATES})
