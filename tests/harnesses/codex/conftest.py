"""A real sandbox with a small repository, and Codex's tools on it."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.harness import RunLimits, SandboxWorkspace
from paddock.harness.native import NativeSettings, Toolbox
from paddock.harnesses.codex import CodexHarness
from paddock.sandbox import Provider, SandboxError, SandboxLimits, SandboxSettings, SandboxSpec, open_provider
from paddock.sandbox.blocklist import Blocklist
from paddock.testing.sandboxes import WORKDIR, repository_image, sandbox_home, store_of
from paddock.tools import InvalidCall


class CodexCall:
    """`await call(tool, **arguments)`: through the reader of arguments, as the loop does it."""

    def __init__(self, box: Toolbox) -> None:
        self.box = box

    async def __call__(self, tool: str, raw: str | None = None, **arguments: Any) -> str:
        """`raw`: the text of a custom tool's call."""
        method = self.box.method(tool)
        assert method is not None
        if raw is not None:
            return str(await method(raw))
        read = self.box.read_arguments(tool, json.dumps(arguments))
        assert not isinstance(read, InvalidCall), read
        return str(await method(**read))


@pytest.fixture(scope="session")
def codex_home() -> Iterator[Path]:
    with sandbox_home() as folder:
        try:
            repository_image(store_of(folder), "repo", {"a.txt": "one\ntwo\nthree\n", "sub/b.txt": "b\n"})
        except (FileNotFoundError, SandboxError) as error:
            pytest.skip(str(error))
        yield folder


@pytest.fixture
async def provider(codex_home: Path) -> AsyncIterator[Provider]:
    try:
        opened = await open_provider(SandboxSettings(home=codex_home, runtime="bubblewrap"))
    except SandboxError as error:
        pytest.skip(str(error))
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture
async def workspace(provider: Provider) -> SandboxWorkspace:
    spec = SandboxSpec(image="repo", workdir=WORKDIR, limits=SandboxLimits(memory_mib=512))
    handle = await provider.create(spec, request_id="one")
    return SandboxWorkspace(provider, handle.sandbox_id, workdir=WORKDIR)


@pytest.fixture
async def guarded(provider: Provider, workspace: SandboxWorkspace) -> SandboxWorkspace:
    """The same sandbox, behind the blocklist."""
    return SandboxWorkspace(provider, provider.live()[0].sandbox_id, workdir=WORKDIR, blocklist=Blocklist())


@pytest.fixture
async def codex(workspace: SandboxWorkspace) -> AsyncIterator[Callable[..., CodexCall]]:
    """`codex(profile, **options)`: its tools on the workspace."""
    made: list[CodexCall] = []

    def make(
        profile: str = "default", *, limits: RunLimits | None = None, on: SandboxWorkspace | None = None, **options: Any
    ) -> CodexCall:
        harness = CodexHarness(NativeSettings(profile=profile, options=options))
        made.append(CodexCall(harness.TOOLBOX(on or workspace, limits or RunLimits(), harness.profile)))
        return made[-1]

    yield make
    for call in made:
        await call.box.close()
