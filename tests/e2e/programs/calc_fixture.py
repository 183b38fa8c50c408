"""An agent whose harness is a real program, in real sandboxes: between a world that pays for a word in the patch and a
model server of the test's.

Programs those that `paddock harness install NAME` has put below `PADDOCK_HOME` (or the default home); a test of one
        that is not there is skipped.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, ConfigDict

from paddock.agents.swe import SweAgent
from paddock.agents.swe.config import SweAgentConfig
from paddock.errors import ConfigError
from paddock.harness.programs.catalogue import program_of
from paddock.harness.programs.store import ProgramStore
from paddock.http import RUN, Call, Peer
from paddock.sandbox import SandboxError, SandboxLimits, SandboxSettings, open_provider
from paddock.sandbox.settings import default_home
from paddock.server import ResourcesServer, Server, ServerConfig
from paddock.testing import over
from paddock.testing.sandboxes import WORKDIR, repository_image, sandbox_home, store_of
from paddock.types import JsonObject, Rollout, Row, Session, Stamp, Verdict

PROGRAMS = ("codex_cli", "opencode_cli", "mini_swe_agent", "openhands_sdk", "claude_code")
INSIDE = ("codex_cli", "opencode_cli", "claude_code")
LONG = ("openhands_v0",)
"""Those whose installation alone is many minutes."""
EACH = (*PROGRAMS, *(pytest.param(name, marks=pytest.mark.long) for name in LONG))
MEMORY_MIB = {"codex_cli": 512}
"""Of a sandbox that runs it; others get the default."""
FILES = {"calc.py": "def add(a, b):\n    return a - b\n", "README.md": "A calculator.\n", "setup.py": "x = 1\n"}
FIX = "sed -i 's/a - b/a + b/' calc.py"


class CalcTask(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int = 0


class CalcServer(ResourcesServer[ServerConfig, CalcTask]):
    """The same small repository for all; each group's text is its own."""

    task_type = CalcTask

    async def seed_session(self, task: CalcTask, row: Row) -> Session:
        said = f"Number {task.number}: add(1, {task.number}) gives {1 - task.number}."
        visible = {"instance_id": f"calc-{task.number}", "problem_statement": said}
        return Session(image="calc", workdir=WORKDIR, visible=visible)

    async def verify(self, task: CalcTask, row: Row, response: JsonObject) -> Verdict:
        resolved = "+    return a + b" in response["model_patch"]
        return Verdict(reward=float(resolved), reason="resolved" if resolved else "tests_fail")


class CalcFixture(NamedTuple):
    agent: SweAgent
    peer: Peer

    def run(
        self, number: int = 0, *, member: int = 0, size: int = 1, secret: str | None = None
    ) -> "asyncio.Task[Rollout]":
        stamp = Stamp(run_id="r", group_id=number, group_size=size, member=member, attempt=0)
        row = Row(responses_create_params={"input": []}, stamp=stamp, task={"number": number})
        return asyncio.create_task(self.peer.call(RUN, row, Call(rollout_secret=secret)))

    @property
    def live(self) -> list[Any]:
        return self.agent._provider.value.live()


def require(harness: str) -> None:
    """Skips where its program is not installed."""
    try:
        ProgramStore(default_home()).find(program_of(harness))
    except ConfigError as missing:
        pytest.skip(missing.message)


def program_home() -> Iterator[Path]:
    """A home with the repository's image."""
    with sandbox_home() as folder:
        try:
            repository_image(store_of(folder), "calc", FILES)
            asyncio.run(_works(folder))
        except (FileNotFoundError, SandboxError) as error:
            pytest.skip(str(error))
        yield folder


async def _works(home: Path) -> None:
    await (await open_provider(SandboxSettings(home=home, runtime="bubblewrap"))).close()


def config(harness: str, home: Path, *, model: str = "policy", **block: Any) -> SweAgentConfig:
    settings = SandboxSettings(home=home, runtime="bubblewrap", programs_of=default_home())
    limits = SandboxLimits(**({"memory_mib": MEMORY_MIB[harness]} if harness in MEMORY_MIB else {}))
    return SweAgentConfig(
        resources_server={"type": "resources_servers", "name": "world"},
        model_server={"type": "models_servers", "name": model},
        harness=harness,
        **{"sandbox": settings, "limits": limits, "agent_timeout_s": 300, **block},
    )


@asynccontextmanager
async def open_fixture(
    harness: str, home: Path, model: Server[Any], *, transport: Any = "direct", **block: Any
) -> AsyncIterator[CalcFixture]:
    peers: dict[str, Peer] = {}
    world = CalcServer(ServerConfig(), name="world", peers=peers)
    agent = SweAgent(config(harness, home, model=model.name, **block), name="agent", peers=peers)
    async with over(transport, world, model, agent) as found:
        yield CalcFixture(agent, found["agent"])
