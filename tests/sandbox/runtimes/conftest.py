"""Each runtime that this machine has, over one home with one image; a Docker daemon of these tests' own, where one can
be started."""

import asyncio
import shutil
import tempfile
import uuid
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from paddock.sandbox import ExecRequest, ExecResult, SandboxSettings, SandboxSpec
from paddock.sandbox.cgroups import find_cgroups
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.tiny import tiny_image
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.runtimes import RUNTIMES, ContainerRuntime

Sh = Callable[..., Awaitable[ExecResult]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each test of podman and docker, which are much alike, is tried on one of them where time is short."""
    for item in items:
        if isinstance(item, pytest.Function) and item.path.parent == Path(__file__).parent:
            parameters = item.callspec.params if hasattr(item, "callspec") else {}
            left_out = ("podman", "docker")[zlib.crc32(item.originalname.encode()) % 2]
            if parameters.get("runtime") == left_out:
                item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    """Where the payload's user can pass, unlike pytest's own folders."""
    folder = Path(tempfile.mkdtemp(prefix="paddock-runtimes-", dir="/var/tmp"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def image(home: Path) -> str:
    return tiny_image(ImageStore(home, payload_id=SandboxSettings().payload_id), rich=True)


@pytest.fixture(
    params=[
        pytest.param(make.name, marks=() if make.name in ("bubblewrap", "apptainer") else pytest.mark.slow)
        for make in RUNTIMES
    ]
)
def runtime(request: pytest.FixtureRequest) -> ContainerRuntime:
    if request.param == "docker":
        request.getfixturevalue("docker_daemon")
    found = next(make() for make in RUNTIMES if make.name == request.param)
    if missing := found.missing():
        pytest.skip(f"{found.name}: {missing}")
    return found


@pytest.fixture
async def provider(runtime: ContainerRuntime, home: Path) -> AsyncIterator[LocalProvider]:
    made = LocalProvider(SandboxSettings(home=home), runtime, await asyncio.to_thread(find_cgroups))
    yield made
    await made.close()


@pytest.fixture
async def sandbox(provider: LocalProvider, image: str) -> str:
    """The id of a fresh sandbox."""
    handle = await provider.create(SandboxSpec(image=image), request_id=uuid.uuid4().hex)
    return handle.sandbox_id


@pytest.fixture
def sh(provider: LocalProvider, sandbox: str) -> Sh:
    """Run a script in it."""

    async def run(script: str, *, timeout_s: float | None = 60.0, sandbox_id: str = "") -> ExecResult:
        request = ExecRequest(argv=["sh", "-c", script], timeout_s=timeout_s, merge_stderr=True)
        return await provider.exec(sandbox_id or sandbox, request, request_id=uuid.uuid4().hex)

    return run
