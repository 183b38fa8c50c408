"""Claims about images of tasks that are built from Dockerfiles, by whichever container engine works here."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import ConfigError, InfraError
from paddock.sandbox.images.dockerfile import PROBES, build_dockerfile, find_builder
from paddock.testing.sandboxes import store_of

pytestmark = pytest.mark.sandbox

TOOLS = ("sh", "cat", "cp", "chmod", "echo", "env", "kill", "ls", "mkdir", "rm", "sleep", "test")
DOCKERFILE = "FROM scratch\nCOPY root/ /\nENV WORD=hello\nWORKDIR /app\n"
TOML = '[environment]\nnetwork_mode = "no-network"\n[verifier]\nenvironment_mode = "separate"\n'
CHECK = (
    '#!/bin/sh\n[ "$(cat /logs/artifacts/said)" = hello ] && [ ! -e /app/mine ] && echo 1 > /logs/verifier/reward.txt\n'
)


@pytest.fixture
async def builder() -> str:
    try:
        return await find_builder(None)
    except ConfigError as error:
        pytest.skip(str(error))


def context(folder: Path, dockerfile: str = DOCKERFILE) -> Path:
    """A Dockerfile's folder with a file system of one static program."""
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("no busybox: apt-get install busybox-static")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Dockerfile").write_text(dockerfile)
    for name in ("bin", "dev", "etc", "proc", "root", "sys", "tmp"):
        (folder / "root" / name).mkdir(parents=True)
        (folder / "root" / name / ".keep").touch()
    shutil.copy(busybox, folder / "root/bin/busybox")
    for tool in TOOLS:
        (folder / "root/bin" / tool).symlink_to("busybox")
    return folder


async def test_a_dockerfile_becomes_an_image_of_the_store(builder: str, home: Any, tmp_path: Path) -> None:
    store = store_of(home.path)
    image = await build_dockerfile(store, "made", context(tmp_path / "context"))
    assert (image.record.env["WORD"], image.record.workdir) == ("hello", "/app")
    assert (image.layers[-1] / "bin/sh").readlink() == Path("busybox")


async def test_a_build_that_fails_says_its_last_lines_and_leaves_no_image(
    builder: str, home: Any, tmp_path: Path
) -> None:
    store = store_of(home.path)
    with pytest.raises(InfraError, match="nothing-there") as caught:
        await build_dockerfile(store, "failed", context(tmp_path / "context", "FROM scratch\nCOPY nothing-there /\n"))
    assert (caught.value.kind, caught.value.retryable, store.has("failed")) == ("image_build_failed", False, False)


async def test_where_no_engine_works_each_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        await find_builder(None)
    assert all(f"{name} is not installed" in caught.value.message for name in PROBES)


@pytest.mark.slow
async def test_a_task_of_a_dockerfile_with_a_verifier_of_its_own_is_solved_and_graded(
    builder: str, standing: Any, make_task: Any
) -> None:
    folder = make_task("built", toml=TOML, **{"tests/test.sh": CHECK})
    context(folder / "environment")
    context(folder / "tests", DOCKERFILE + "COPY test.sh /tests/test.sh\n")
    async with standing("touch mine; echo $WORD > /logs/artifacts/said", isolation="shared") as stand:
        rollout = await stand.run(folder)
    async with standing("touch mine", isolation="shared") as stand:
        idle = await stand.run(folder)
    assert (rollout.outcome, rollout.reward) == ("completed", 1.0), rollout.failure
    assert (idle.outcome, idle.failure.kind) == ("verifier", "no_reward")
