"""For the tests of CodeAct: real sandboxes over a small repository, and a toolbox in one."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from paddock.harness import RunLimits, SandboxWorkspace
from paddock.harness.native import NativeSettings, ToolResult
from paddock.harnesses.codeact import CodeActHarness
from paddock.sandbox import Provider, SandboxError, SandboxLimits, SandboxSettings, SandboxSpec, open_provider
from paddock.testing.sandboxes import WORKDIR, repository_image, sandbox_home, store_of
from paddock.tools import InvalidCall

Call = Callable[..., Awaitable[str]]


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with sandbox_home() as folder:
        try:
            repository_image(store_of(folder), "repo", {"a.txt": "one\ntwo\n", "src/b.py": "x = 1\n"})
        except (FileNotFoundError, SandboxError) as error:
            pytest.skip(str(error))
        yield folder


@pytest.fixture
async def provider(home: Path) -> AsyncIterator[Provider]:
    try:
        opened = await open_provider(SandboxSettings(home=home, runtime="bubblewrap"))
    except SandboxError as error:
        pytest.skip(str(error))
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture
def open_workspace(provider: Provider) -> Callable[..., Awaitable[SandboxWorkspace]]:
    async def make(**more: Any) -> SandboxWorkspace:
        limits = SandboxLimits(memory_mib=more.pop("memory_mib", 256))
        spec = SandboxSpec(image="repo", workdir=WORKDIR, limits=limits)
        handle = await provider.create(spec, request_id=os.urandom(8).hex())
        return SandboxWorkspace(provider, handle.sandbox_id, workdir=WORKDIR, **more)

    return make


@pytest.fixture
async def open_tools(
    open_workspace: Callable[..., Awaitable[SandboxWorkspace]],
) -> AsyncIterator[Callable[..., Awaitable[Call]]]:
    """Tools of a profile in a sandbox of their own: `call(name, **arguments)` gives what the model would read."""
    boxes: list[Any] = []

    async def make(
        profile: str = "default", workspace: SandboxWorkspace | None = None, tool_s: float | None = None, **options: Any
    ) -> Call:
        harness = CodeActHarness(NativeSettings(profile=profile, options=options))
        space = workspace or await open_workspace()
        box = harness.TOOLBOX(space, RunLimits(tool_s=tool_s), harness.profile)
        boxes.append(box)

        async def call(name: str, **arguments: Any) -> str:
            accepted_arguments = box.read_arguments(name, orjson.dumps(arguments).decode())
            assert not isinstance(accepted_arguments, InvalidCall), accepted_arguments
            method = box.method(name)
            assert method is not None
            said = await method(**accepted_arguments)
            return said.text if isinstance(said, ToolResult) else said

        return call

    yield make
    for box in boxes:
        await box.close()
