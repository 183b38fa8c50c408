"""Claims about the process of a server of NeMo-Gym's and what comes of one that misbehaves. Runs NeMo-Gym's package.

One server process serves the whole file, but for the tests of how one starts: it takes seconds.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from paddock.agents.tools import ToolsAgent
from paddock.agents.tools.config import ToolsAgentConfig
from paddock.errors import ConfigError, InfraError
from paddock.http import RUN, SEED, VERIFY_SESSION, Call, ModelReply, Peer, VerifyRequest, read_row
from paddock.resources_servers.nemo_gym import NemoGymServer
from paddock.resources_servers.nemo_gym.config import NemoGymConfig
from paddock.server import ModelServer, Server, ServerConfig
from paddock.testing.transports import over
from paddock.types import JsonObject, Rollout, TurnRecord
from paddock.types.responses import make_response, message_item

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

VARIABLE = "PADDOCK_NEMO_GYM_PYTHON"
FOLDER = Path(__file__).parent / "misbehaving"
SECRET = "MISBEHAVING_SECRET"


class JudgeOnCue(ModelServer[ServerConfig]):
    """The policy, and the judge of the server: answers `yes`, or fails."""

    def __init__(self, name: str, peers: dict[str, Peer]) -> None:
        super().__init__(ServerConfig(), name=name, peers=peers)
        self.is_down = False

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        if self.is_down:
            raise InfraError("no engine", kind="engine_down", retryable=False)
        return make_response([message_item("yes")], body, model="m")

    async def turns(self, secret: str) -> TurnRecord:
        return TurnRecord(engine="text", turns=[])

    async def forget(self, secret: str) -> None:
        return None


class MisdeedCase:
    """The servers of a test."""

    def __init__(self, children: Path, **settings: Any) -> None:
        self.peers: dict[str, Peer] = {}
        self.children = children
        reference = {"type": "models_servers", "name": "judge"}
        config = {"children": str(children), "judge_model_server": reference, **settings.pop("config", {})}
        urls = {"judge_base_url": reference}
        block = {"server": "misbehaving", "folder": FOLDER, "config": config, "model_urls": urls}
        block |= {"restart_wait_s": 0.1, **settings}
        self.gym = NemoGymServer(NemoGymConfig.model_validate(block), name="gym", peers=self.peers)
        self.judge = JudgeOnCue("judge", self.peers)
        places = {
            "resources_server": {"type": "resources_servers", "name": "gym"},
            "model_server": {"type": "models_servers", "name": "policy"},
        }
        agent = ToolsAgent(ToolsAgentConfig.model_validate(places), name="agent", peers=self.peers)
        self.servers: tuple[Server[Any], ...] = (self.gym, self.judge, JudgeOnCue("policy", self.peers), agent)

    async def run(self, ask: str) -> Rollout:
        row = read_row({"responses_create_params": {"input": "x"}, "ask": ask})
        return await self.peers["agent"].call(RUN, row, Call())

    def pids(self) -> list[int]:
        return [int(line) for line in self.children.read_text().split()]


@asynccontextmanager
async def served(case: MisdeedCase) -> AsyncIterator[MisdeedCase]:
    async with over("direct", *case.servers):
        yield case


@pytest.fixture(autouse=True)
def _library(monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.environ.get(VARIABLE):
        pytest.skip(f"{VARIABLE} names no interpreter: scripts/setup_nemo_gym.sh makes one")
    monkeypatch.setenv(SECRET, "x")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_each_misdeed_is_an_outcome_and_the_server_comes_back(tmp_path: Path) -> None:
    async with served(MisdeedCase(tmp_path / "children", verify_timeout_s=2, max_reply_mib=1)) as case:
        rollout = await case.run("right")
        assert (rollout.outcome, rollout.reward) == ("completed", 1.0)
        assert (await case.run("variables")).reward == 1.0
        for ask, kind in (
            ("raise", "verify_failed"),
            ("hang", "verify_failed"),
            ("flood", "verify_failed"),
            ("nan", None),
        ):
            rollout = await case.run(ask)
            assert (ask, rollout.outcome, rollout.reward) == (ask, "verifier", None)
            assert rollout.failure is not None
            assert kind in (None, rollout.failure.kind)
            assert ask != "flood" or "an answer of more than 1048576 bytes" in rollout.failure.message
        await _judges(case)
        await _death(case)
    assert len(case.pids()) == 4
    assert [pid for pid in case.pids() if is_alive(pid)] == []


async def _judges(case: MisdeedCase) -> None:
    asks = ("judge", "judge_swallowed", "judge_by_url")
    assert [(await case.run(ask)).reward for ask in asks] == [1.0, 1.0, 1.0]
    case.judge.is_down = True
    for ask in asks:
        rollout = await case.run(ask)
        assert (ask, rollout.outcome, rollout.reward) == (ask, "verifier", None)
        assert rollout.failure is not None
        assert "no engine" in rollout.failure.message
    together = await asyncio.gather(*(case.run(ask) for ask in ("right", "judge_swallowed", "right")))
    assert [one.outcome for one in together] == ["completed", "verifier", "completed"]
    case.judge.is_down = False
    assert (await case.run("judge")).reward == 1.0


async def _death(case: MisdeedCase) -> None:
    row = read_row({"responses_create_params": {"input": "x"}})
    before = await case.peers["gym"].call(SEED, row, Call())
    rollout = await case.run("die")
    assert (rollout.outcome, rollout.reward) == ("infra", None)
    async with asyncio.timeout(60):
        while len(case.pids()) < 4 or await case.gym.why_not_ready() is not None:
            await asyncio.sleep(0.1)
    assert before.session_id is not None
    with pytest.raises(InfraError, match="session is not here"):
        await case.peers["gym"].call(
            VERIFY_SESSION,
            VerifyRequest(row=row, response=make_response([message_item("yes")], {}, model="m")),
            Call(),
            session=before.session_id,
        )
    assert (await case.run("right")).reward == 1.0


async def test_a_server_that_can_not_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    case = MisdeedCase(tmp_path / "children", config={"fail_at_start": True})
    with pytest.raises(InfraError, match="the data of this server are not there") as caught:
        async with served(case):
            pass
    assert caught.value.kind == "start_failed"


async def test_a_start_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match=r"did not serve within 0\.5 s"):
        async with served(MisdeedCase(tmp_path / "children", serve_timeout_s=0.5)):
            pass


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"folder": None, "server": "no_such_server"}, "no resources_servers/no_such_server of NeMo-Gym's"),
        ({"interpreter": Path("/no/python")}, "/no/python is no interpreter"),
    ],
)
async def test_what_is_not_there_is_a_fault_of_the_config(settings: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=told):
        await MisdeedCase(tmp_path / "children", **settings).gym.start()


def folder_of(pid: int) -> Path:
    """Of the process under a supervisor: where the file is that its command ends with."""
    return Path(Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").rpartition("\0")[2]).parent


async def test_a_restart_that_fails_is_not_the_last(tmp_path: Path) -> None:
    """Such as on a disk that was full for a while."""
    async with served(MisdeedCase(tmp_path / "children")) as case:
        folder = folder_of(case.gym.pid)
        away = folder.rename(folder.with_name(f"{folder.name}-away"))
        try:
            os.killpg(case.gym.pid, signal.SIGKILL)
            await asyncio.sleep(0.4)
            assert await case.gym.why_not_ready() is not None
        finally:
            away.rename(folder)
        async with asyncio.timeout(60):
            while await case.gym.why_not_ready() is not None:
                await asyncio.sleep(0.1)
        assert (await case.run("right")).reward == 1.0
