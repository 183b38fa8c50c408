"""Harbor tasks of small folders, over real sandboxes: an agent that runs a script, and the server that grades it."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from paddock.agents.swe import SweAgent
from paddock.agents.swe.config import SweAgentConfig
from paddock.conformance.scripted import ModelConfig, ScriptedModel
from paddock.http import RUN, Call, Peer, read_row
from paddock.resources_servers.harbor import HarborServer
from paddock.resources_servers.harbor.config import HarborServerConfig
from paddock.resources_servers.harbor.make_rows import row_of
from paddock.sandbox import SandboxError, SandboxLimits, SandboxSettings, open_provider
from paddock.sandbox.images.tiny import tiny_image
from paddock.testing import over
from paddock.testing.sandboxes import sandbox_home, store_of
from paddock.types import JsonObject, Rollout

PAYS_FOR_HELLO = """#!/bin/bash
if [ "$(cat /app/hello.txt 2>/dev/null)" = hello ]; then echo 1 > /logs/verifier/reward.txt
else echo 0 > /logs/verifier/reward.txt; fi
"""
SOLUTION = "#!/bin/sh\necho hello > /app/hello.txt\n"
TOML = """
artifacts = ["/app/hello.txt"]
[environment]
docker_image = "{image}"
workdir = "/app"
network_mode = "no-network"
{environment}
[agent]
timeout_sec = 60.0
[verifier]
timeout_sec = 20.0
{verifier}
"""


class HarborHome(NamedTuple):
    path: Path
    image: str


class HarborStand(NamedTuple):
    server: HarborServer
    peers: Mapping[str, Peer]
    tasks: Path

    async def run(self, folder: Path) -> Rollout:
        rollout: Rollout = await self.peers["agent"].call(RUN, read_row(row_of(folder, self.tasks)), Call())
        return rollout


Standing = Callable[..., AbstractAsyncContextManager[HarborStand]]


@pytest.fixture(scope="session")
def home() -> Iterator[HarborHome]:
    with sandbox_home() as folder:
        try:
            yield HarborHome(folder, tiny_image(store_of(folder), rich=True))
        except SandboxError as error:
            pytest.skip(str(error))


@pytest.fixture
def make_task(tmp_path: Path, home: HarborHome) -> Callable[..., Path]:
    """Makes a task's folder: pays 1 for `hello` in /app/hello.txt, unless `files` say otherwise."""

    def make(
        name: str = "hello", *, environment: str = "", verifier: str = "", toml: str | None = None, **files: str
    ) -> Path:
        folder = tmp_path / "tasks" / name
        text = TOML.format(image=home.image, environment=environment, verifier=verifier)
        contents = {
            "task.toml": toml or text,
            "instruction.md": "Write hello.",
            "environment/seed.txt": "seed\n",
            "tests/test.sh": PAYS_FOR_HELLO,
            "solution/solve.sh": SOLUTION,
            **files,
        }
        for path, content in contents.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content)
        return folder

    return make


@pytest.fixture
async def standing(home: HarborHome, tmp_path: Path) -> Standing:
    """Opens a stand over a server of the given block; the agent runs `commands`, or is of another `harness`."""
    settings = SandboxSettings(home=home.path, runtime="bubblewrap")
    try:
        await (await open_provider(settings)).close()
    except SandboxError as error:
        pytest.skip(str(error))

    @asynccontextmanager
    async def stand(
        *commands: str,
        harness: str = "script",
        transport: str = "direct",
        agent: JsonObject | None = None,
        server_type: type[HarborServer] = HarborServer,
        **block: Any,
    ) -> AsyncIterator[HarborStand]:
        peers: dict[str, Peer] = {}
        config = HarborServerConfig(tasks_dir=tmp_path / "tasks", sandbox=settings, **block)
        server = server_type(config, name="harbor", peers=peers)
        policy = ScriptedModel(ModelConfig(), name="policy", peers=peers)
        agent_config = SweAgentConfig(
            resources_server={"type": "resources_servers", "name": "harbor"},
            model_server={"type": "models_servers", "name": "policy"},
            harness=harness,
            harness_config={"commands": commands} if commands else None,
            sandbox=settings,
            **{"limits": SandboxLimits(memory_mib=512), **(agent or {})},
        )
        worker = SweAgent(agent_config, name="agent", peers=peers)
        async with over(transport, server, policy, worker) as found:  # type: ignore[arg-type]
            yield HarborStand(server, found, tmp_path / "tasks")

    return stand
