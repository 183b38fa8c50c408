"""A SWE agent between a world that pays for a word in the patch and a model that plays a script, in real sandboxes."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from pydantic import BaseModel, ConfigDict

from paddock.agents.swe import SweAgent
from paddock.agents.swe.config import SweAgentConfig
from paddock.conformance.scripted import ModelConfig, ScriptedModel
from paddock.http import RUN, Call, Peer
from paddock.sandbox import SandboxError, SandboxLimits, SandboxSettings, open_provider
from paddock.sandbox.watchdog import WatchdogSettings
from paddock.server import ResourcesServer, Server, ServerConfig
from paddock.testing import over
from paddock.testing.sandboxes import WORKDIR, repository_image, sandbox_home, store_of
from paddock.types import JsonObject, Rollout, Row, Session, Stamp, Verdict

CANARY = "canary-8f14e45fceea167a5a36dedd4bea2543"
FILES = {"calc.py": "def add(a, b):\n    return a - b\n", "README": "A calculator.\n", ".gitignore": "*.log\n"}


class PatchWorldTask(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")

    session: JsonObject = {}
    """Changes to what the world shows."""
    waited_s: float = 0.0
    """What its verdicts say that they waited."""


class PatchWorld(ResourcesServer[ServerConfig, PatchWorldTask]):
    task_type = PatchWorldTask
    judged: list[str]

    async def start(self) -> None:
        self.judged = []

    async def seed_session(self, task: PatchWorldTask, row: Row) -> Session:
        visible = {"instance_id": "calc-1", "problem_statement": "add(1, 2) gives -1."}
        shown = {"image": "calc", "workdir": WORKDIR, **task.session}
        return Session(**{**shown, "visible": {**visible, **shown.get("visible", {})}})

    async def verify(self, task: PatchWorldTask, row: Row, response: JsonObject) -> Verdict:
        self.judged.append(response["model_patch"])
        resolved = "+    return a + b" in response["model_patch"]
        reason = "resolved" if resolved else "tests_fail"
        return Verdict(reward=float(resolved), reason=reason, waited_s=task.waited_s)


class AgentStand(NamedTuple):
    agent: SweAgent
    world: PatchWorld
    model: ScriptedModel
    peer: Peer
    artifacts: Path

    async def run(self, *, stamp: Stamp | None = None, **task: Any) -> Rollout:
        return await self.peer.call(RUN, a_row(stamp=stamp, **task), Call())

    def kept(self, name: str = "traj.json") -> Any:
        """A file of the only rollout there was."""
        (path,) = self.artifacts.glob(f"*/*/{name}")
        data = path.read_bytes()
        return orjson.loads(data) if name.endswith(".json") else data


Standing = Callable[..., AbstractAsyncContextManager[AgentStand]]


def a_row(*, stamp: Stamp | None = None, **task: Any) -> Row:
    given = stamp or Stamp(run_id="run_a", group_id=3, group_size=2, member=1, attempt=0)
    return Row(responses_create_params={"input": []}, stamp=given, task=task)


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    with sandbox_home() as folder:
        try:
            outside = {"/hidden/test_calc.py": f"# {CANARY}\n"}
            repository_image(store_of(folder), "calc", FILES, outside=outside)
        except (FileNotFoundError, SandboxError) as error:
            pytest.skip(str(error))
        yield folder


@pytest.fixture
async def standing(home: Path, tmp_path: Path) -> Standing:
    """Opens a stand over an agent of the given block."""
    settings = SandboxSettings(home=home, runtime="bubblewrap", watchdog=WatchdogSettings(disk_period_s=0.2))
    try:
        await (await open_provider(settings)).close()
    except SandboxError as error:
        pytest.skip(str(error))

    @asynccontextmanager
    async def stand(
        harness: str = "script",
        *,
        model: JsonObject | None = None,
        beside: Sequence[Server[Any]] = (),
        sandbox: SandboxSettings = settings,
        **block: Any,
    ) -> AsyncIterator[AgentStand]:
        peers: dict[str, Peer] = {}
        world = PatchWorld(ServerConfig(), name="world", peers=peers)
        policy = ScriptedModel(ModelConfig(**(model or {})), name="policy", peers=peers)
        config = a_config(harness, sandbox=sandbox, artifacts_dir=tmp_path / "artifacts", **block)
        agent = SweAgent(config, name="agent", peers=peers)
        async with over("direct", world, policy, agent, *beside) as found:
            yield AgentStand(agent, world, policy, found["agent"], tmp_path / "artifacts")

    return stand


def a_config(harness: str = "null", **block: Any) -> SweAgentConfig:
    return SweAgentConfig(
        resources_server={"type": "resources_servers", "name": "world"},
        model_server={"type": "models_servers", "name": "policy"},
        harness=harness,
        **{"limits": SandboxLimits(memory_mib=512), **block},
    )
