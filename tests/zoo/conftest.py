"""Fixtures of the zoo: a small project with a bug in an image, a grader over it, and the animals' files read.

File    `key: value` lines, then blocks `=== new PATH`, `=== above PATH`, `=== below PATH`, `=== link PATH`,
        `=== remove PATH` (what becomes of a file of the tree; the lines after it are its text), `=== gold` (the fix is
        part of it), `=== diff` (patch text as it stands; the host's git makes the patch of the others) and `=== sh`
        (what an agent runs).
"""

import asyncio
import hashlib
import os
import re
import shutil
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from tests.zoo.projects import git

from paddock.agents.swe import SweAgent
from paddock.agents.swe.config import SweAgentConfig
from paddock.conformance.scripted import ModelConfig, ScriptedModel
from paddock.http import RUN, Call, Peer
from paddock.resources_servers.swe import SweServer
from paddock.resources_servers.swe.grading import Grade, Grader, GradingOptions, measure_of
from paddock.resources_servers.swe.images import resolve_image
from paddock.resources_servers.swe.rows import read
from paddock.sandbox import ExecRequest, SandboxLimits, SandboxSettings, SandboxSpec, open_local_provider
from paddock.sandbox.images import ImageStore, Recipe
from paddock.sandbox.images.build import build_image
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.settings import HOME_VARIABLE
from paddock.sandbox.watchdog import WatchdogSettings
from paddock.testing import over
from paddock.types import JsonObject, Rollout, Row, Stamp

HERE = Path(__file__).parent
IMAGE = "zoo__tills-1"
GOLD = (HERE / "gold.diff").read_text()
TESTS = (HERE / "tests.diff").read_text()
TARGETS = ["checks/test_discount.py::test_a_discount_of_all", "tests/test_total.py::test_discount_is_per_cent"]
KEPT = [
    "checks/test_discount.py::test_no_discount",
    "tests/test_total.py::test_plain_total",
    "tests/test_total.py::test_rounded",
]
SCRIPT = f"""#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
git status
git checkout {"a" * 40} tests/test_total.py checks/test_discount.py
git apply -v - <<'EOF_1'
{TESTS}
EOF_1
: '>>>>> Start Test Output'
python -m pytest -rA tests/test_total.py checks/test_discount.py
: '>>>>> End Test Output'
git checkout {"a" * 40} tests/test_total.py checks/test_discount.py
"""
_BLOCK = re.compile(r"^=== (new|above|below|link|remove|gold|diff|sh) ?(.*)\n", re.MULTILINE)
ARGUMENTS = {
    "cheater": ("cheaters", "", False),
    "fooling": ("cheaters", "naive", True),
    "honest": ("honest", "", False),
    "reader": ("agents", "shows", False),
    "finder": ("agents", "shows", True),
    "agent": ("agents", "", False),
    "worker": ("workers", "", False),
}
"""By argument of a test: the folder, the key that its files must have, and whether only those that are `sample` are run
by default."""
CANARY = "zoo-canary-5f4dcc3b5aa765d61d8327deb882cf99"
LEFT = "zoo-left-7c6a180b36896a0a8c02787eeafb0e4c"


class Animal(NamedTuple):
    """One file of the zoo."""

    name: str
    keys: dict[str, str]
    blocks: list[tuple[str, str, str]]
    """What, path, text."""


def animals(folder: str) -> list[Animal]:
    """Those of a folder, by name."""
    return [_animal(path) for path in sorted((HERE / folder).glob("*.txt"))]


def _animal(path: Path) -> Animal:
    head, *parts = _BLOCK.split(path.read_text())
    keys = dict(line.split(": ", 1) for line in head.splitlines() if line)
    blocks = list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))
    return Animal(path.stem, keys, blocks)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Arguments that stand for the files of a folder: few by default, of the rest a twelfth `slow`, others `long`."""
    for argument, (folder, key, sampled) in ARGUMENTS.items():
        if argument in metafunc.fixturenames:
            chosen = [one for one in animals(folder) if not key or key in one.keys]
            slow = {one.name for one in chosen if "slow" in one.keys or (sampled and "sample" not in one.keys)}
            if argument == "agent":  # what these read is also looked for without a whole rollout
                slow |= {one.name for one in chosen if "shows" in one.keys and "sample" not in one.keys}
            # The others run where there is time.
            quick = [one.name for one in chosen if one.name not in slow]
            slow |= {name for index, name in enumerate(quick) if index % 16}
            marks: dict[str, list[pytest.MarkDecorator]] = {one.name: [] for one in chosen}
            for index, name in enumerate(sorted(slow)):
                marks[name] = [pytest.mark.long if index % 12 else pytest.mark.slow]
            metafunc.parametrize(argument, [pytest.param(one, id=one.name, marks=marks[one.name]) for one in chosen])


@pytest.fixture
def census() -> Callable[[str], list[Animal]]:
    return animals


@pytest.fixture(scope="session")
def images() -> ImageStore:
    if shutil.which("bwrap") is None:
        pytest.skip("no bubblewrap on this machine")
    settings = SandboxSettings(home=Path(os.environ.get(HOME_VARIABLE) or f"/var/tmp/paddock-tests-{os.geteuid()}"))
    settings.home.mkdir(parents=True, exist_ok=True)
    return ImageStore(settings.home, payload_id=settings.payload_id)


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as one commit."""
    folder = tmp_path_factory.mktemp("tills")
    for what, path, text in _animal(HERE / "project.txt").blocks:
        _change(folder / path, what, text)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "tills")
    return folder


@pytest.fixture(scope="session")
def row(images: ImageStore, repository: Path) -> JsonObject:
    """A row of the project, its image built."""
    recipe: JsonObject = {
        "python": "3.11",
        "git": {"repository": str(repository), "commit": git(repository, "rev-parse", "HEAD").strip()},
        "pip": ["iniconfig==2.0.0", "packaging==24.1", "pluggy==1.5.0", "pytest==8.3.3"],
    }
    asyncio.run(build_image(images, IMAGE, Recipe.model_validate(recipe), local_repositories=[repository]))
    return {
        "instance_id": IMAGE,
        "repo": "zoo/tills",
        "problem_statement": "A discount of 10 per cent of 5.00 takes 0.10 off.",
        "patch": GOLD,
        "test_patch": TESTS,
        "FAIL_TO_PASS": TARGETS,
        "PASS_TO_PASS": KEPT,
        "eval_script": SCRIPT,
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
        "paddock": recipe,
    }


@pytest.fixture
def patch_of(repository: Path, tmp_path: Path) -> Callable[[Animal], bytes]:
    """The patch that an animal hands in."""

    def make(animal: Animal) -> bytes:
        tree = tmp_path / "tree"
        shutil.copytree(repository, tree, symlinks=True)
        raw = ""
        for what, path, text in animal.blocks:
            if what == "diff":
                raw += text
            elif what == "gold":
                git(tree, "apply", "-", stdin=GOLD.encode())
            else:
                _change(tree / path, what, text)
        git(tree, "add", "-A", "--force")
        made = git(tree, "diff", "--cached", "--binary", "--no-renames", "HEAD")
        return (made + raw).encode("utf-8", "surrogateescape")

    return make


def _change(path: Path, what: str, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    old = path.read_text() if what in ("above", "below") else ""
    if what in ("remove", "link"):
        path.unlink(missing_ok=True)
    if what == "link":
        path.symlink_to(text.strip())
    elif what != "remove":
        path.write_text(text + old if what == "above" else old + text)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def provider(images: ImageStore) -> AsyncIterator[LocalProvider]:
    opened = await open_local_provider(SandboxSettings(home=images.home))
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
def grade(provider: LocalProvider, row: JsonObject) -> Callable[..., Any]:
    """Grade a patch of the project; keywords are `GradingOptions`. What a grader knows of the row is kept."""
    graders: dict[str, Grader] = {}
    instance = read(Row.from_wire({"responses_create_params": {"input": []}, **row}))

    async def run(patch: bytes, **options: Any) -> Grade:
        chosen = GradingOptions.model_validate({"tests_timeout_s": 60, **options})
        made = Grader(provider, chosen, resolve_image, measure_of(provider.settings.home))
        grader = graders.setdefault(chosen.model_dump_json(), made)
        return await grader.grade(instance, patch)

    return run


@pytest.fixture(scope="session")
def leaky(images: ImageStore, row: JsonObject) -> str:
    """The project's image with everything in it that images have been found to leak."""
    script = (HERE / "leaky.sh").read_text()
    made_of = "\0".join((*images.get(IMAGE).record.layers, script, GOLD, CANARY, LEFT))
    name = f"zoo__leaky-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}"
    if not images.has(name):
        asyncio.run(_spoil(images.home, name, script))
    return name


async def _spoil(home: Path, name: str, script: str) -> None:
    opened = await open_local_provider(SandboxSettings(home=home))
    try:
        handle = await opened.create(SandboxSpec(image=IMAGE), request_id="create")
        await opened.write(handle.sandbox_id, "/tmp/gold.diff", GOLD.encode())
        request = ExecRequest(argv=["bash", "-s", CANARY, LEFT], stdin=script.encode(), merge_stderr=True)
        done = await opened.exec(handle.sandbox_id, request, request_id="spoil")
        assert done.ok, bytes(done.stdout).decode()
        await opened.snapshot(handle.sandbox_id, name)
    finally:
        await opened.close()


@pytest.fixture
def shell(provider: LocalProvider) -> Callable[..., Any]:
    """Run a script in a fresh sandbox of an image: what it wrote."""

    async def run(image: str, script: str) -> str:
        handle = await provider.create(SandboxSpec(image=image, workdir="/testbed"), request_id=uuid.uuid4().hex)
        request = ExecRequest(argv=["bash", "-s"], stdin=script.encode(), merge_stderr=True, timeout_s=60)
        done = await provider.exec(handle.sandbox_id, request, request_id=uuid.uuid4().hex)
        await provider.destroy(handle.sandbox_id)
        return bytes(done.stdout).decode(errors="replace")

    return run


@pytest.fixture
def live(images: ImageStore, row: JsonObject, tmp_path: Path) -> Callable[..., Any]:
    """Let a script be the agent of a rollout, from its row to its verdict."""
    sandbox = SandboxSettings(home=images.home, watchdog=WatchdogSettings(disk_period_s=0.2))

    async def run(image: str, script: str, **block: Any) -> Rollout:
        task = {
            **{key: row[key] for key in ("problem_statement", "patch", "test_patch", "FAIL_TO_PASS", "PASS_TO_PASS")},
            "instance_id": "zoo__leaky-1",
            "image": image,
            "test_command": "python -m pytest -rA tests/test_total.py checks/test_discount.py",
            "canary": [CANARY, LEFT],
        }
        peers: dict[str, Peer] = {}
        world = SweServer(SweServer.config_type(sandbox=sandbox), name="world", peers=peers)
        policy = ScriptedModel(ModelConfig(), name="policy", peers=peers)
        config = SweAgentConfig(
            resources_server={"type": "resources_servers", "name": "world"},
            model_server={"type": "models_servers", "name": "policy"},
            harness="script",
            harness_config={"commands": [script]},
            sandbox=sandbox,
            artifacts_dir=tmp_path / "artifacts",
            blocklist={"enabled": False},  # advice to honest models; isolation is what must hold
            **{"limits": SandboxLimits(memory_mib=300, pids=100, disk_mib=300), **block},
        )
        agent = SweAgent(config, name="agent", peers=peers)
        stamp = Stamp(run_id="zoo", group_id=0, group_size=1, member=0, attempt=0)
        async with over("direct", world, policy, agent) as found:
            asked = Row(responses_create_params={"input": []}, stamp=stamp, task=task)
            return await found["agent"].call(RUN, asked, Call())

    return run
