"""For tests of the OpenCode harness: recorded tables, the recorder, sandboxes with a repository, runs of the loop."""

import importlib.util
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from paddock.harness import Exit, RunLimits, SandboxWorkspace, Step, Task, Workspace
from paddock.harness.native import NativeSettings
from paddock.harnesses.opencode import OpenCodeHarness
from paddock.http import SCRIPT, Call, ReplayScript, new_secret
from paddock.models_servers.replay import ReplayServer
from paddock.models_servers.replay.config import ReplayConfig
from paddock.sandbox import Provider, SandboxError, SandboxLimits, SandboxSettings, SandboxSpec, open_provider
from paddock.server.rollout_model import RolloutModel
from paddock.testing import over
from paddock.testing.sandboxes import WORKDIR, repository_image, sandbox_home, store_of
from paddock.types import JsonObject

HERE = Path(__file__).parent
Table = Callable[[str], JsonObject]
Open = Callable[..., Awaitable[SandboxWorkspace]]


class OpenCodeRun:
    """What came of a run."""

    def __init__(self, left: Exit, steps: Sequence[Step]) -> None:
        self.left = left
        self.results = [
            str(item["output"]) for step in steps for item in step.output if item["type"] == "function_call_output"
        ]
        self.items = [item for step in steps for item in step.output]


Play = Callable[..., Awaitable[OpenCodeRun]]


@pytest.fixture(scope="session")
def recorder() -> ModuleType:
    """`record.py`."""
    spec = importlib.util.spec_from_file_location("opencode_record", HERE / "record.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def table() -> Table:
    """A recorded table by name."""

    def read(name: str) -> JsonObject:
        found: JsonObject = json.loads((HERE / "tables" / f"{name}.json").read_text())
        return found

    return read


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    with sandbox_home() as folder:
        try:
            repository_image(store_of(folder), "repo", {"a.txt": "a\n"})
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
async def open_workspace(provider: Provider) -> Open:
    async def make(*, memory_mib: int = 512, **more: Any) -> SandboxWorkspace:
        spec = SandboxSpec(image="repo", workdir=WORKDIR, limits=SandboxLimits(memory_mib=memory_mib))
        handle = await provider.create(spec, request_id=new_secret())
        return SandboxWorkspace(provider, handle.sandbox_id, workdir=WORKDIR, **more)

    return make


@pytest.fixture
def play() -> Play:
    """Turns of a policy, through the loop and a model server."""

    async def run(
        workspace: Workspace,
        turns: Sequence[Sequence[JsonObject]],
        *,
        profile: str = "default",
        limits: RunLimits | None = None,
        **task: Any,
    ) -> OpenCodeRun:
        steps: list[Step] = []
        secret = new_secret()
        harness = OpenCodeHarness(NativeSettings(profile=profile))
        async with over("direct", ReplayServer(ReplayConfig(), name="model", peers={})) as peers:
            await peers["model"].call(SCRIPT, ReplayScript(turns=[list(turn) for turn in turns]), Call(), secret=secret)
            model = RolloutModel(peers["model"], Call(), secret=secret, name="model")
            left = await harness.run(Task(prompt="Go.", **task), workspace, model, limits or RunLimits(), steps.append)
        return OpenCodeRun(left, steps)

    return run
