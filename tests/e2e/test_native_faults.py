"""Claims about native harnesses under faults: wherever a rollout's sandbox, model or agent dies, nobody is paid for it.

Three rollouts at once, each in a real sandbox; one loses what it needs at a point of its life. It ends typed and
without a reward, no model hears of it, nothing of it is left, and its siblings are paid.
"""

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import psutil
import pytest
import yaml
from pydantic import BaseModel, ConfigDict
from tests.sampling import few
from tests.support.processes import gone, running

from paddock.agents.swe import SweAgent
from paddock.agents.swe.config import SweAgentConfig
from paddock.cli import main
from paddock.conformance.harnesses.scripted_model import ConversationServer, ScriptedConversation, ScriptedReply
from paddock.conformance.harnesses.tools import ShownTools
from paddock.conformance.sandboxes.fixture import eventually, processes_marked
from paddock.errors import InfraError
from paddock.harness import make_harness
from paddock.http import RUN, Call, ModelReply, Peer, new_secret
from paddock.sandbox import SandboxError, SandboxLimits, SandboxSettings, open_provider
from paddock.server import ResourcesServer, ServerConfig
from paddock.testing import over
from paddock.testing.sandboxes import WORKDIR, repository_image, sandbox_home, store_of
from paddock.types import JsonObject, Rollout, Row, Session, Stamp, TurnRecord, Verdict

pytestmark = pytest.mark.sandbox
OUTSIDE = Path(__file__).parents[1] / "harness" / "outside"
MINE = "my_harness:MyHarness"
FIX = "sed -i 's/a - b/a + b/' calc.py"
PATCH = "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n"
POINTS = (
    "seed",
    "create",
    "first call",
    "model call",
    "tool call",
    "between",
    "parallel call",
    "finish",
    "diff",
    "verify",
)
GONE_WITHIN_S = 5.0


class AnyTask(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str


class NativeEnvironment(ResourcesServer[ServerConfig, AnyTask]):
    """Pays for the fix; things happen at its ends."""

    task_type = AnyTask
    at: dict[str, Callable[[], Awaitable[None]]]

    async def seed_session(self, task: AnyTask, row: Row) -> Session:
        await self._happens(task, "seed")
        visible = {"instance_id": task.name, "problem_statement": "add(1, 2) gives -1."}
        return Session(image="calc", workdir=WORKDIR, visible=visible)

    async def verify(self, task: AnyTask, row: Row, response: JsonObject) -> Verdict:
        await self._happens(task, "verify")
        solved = "+    return a + b" in response["model_patch"]
        return Verdict(reward=float(solved), reason="resolved" if solved else "tests_fail")

    async def _happens(self, task: AnyTask, point: str) -> None:
        if task.name == "victim" and point in self.at:
            await self.at[point]()


class MortalNativeModel(ConversationServer):
    """Some of its rollouts are dead to it."""

    dead: set[str]

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        reply = await super().responses(body, call)
        self._lives(call.path["secret"])
        return reply

    async def turns(self, secret: str) -> TurnRecord:
        self._lives(secret)
        return await super().turns(secret)

    def _lives(self, secret: str) -> None:
        if secret in self.dead:
            raise InfraError("the engine was killed", kind="upstream_connection")


class WatchedHarness:
    """The provider of a started agent; things happen before a patch is taken."""

    def __init__(self, agent: SweAgent, world: NativeEnvironment) -> None:
        self._provider: Any = agent._provider.value
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    async def patch(self, sandbox_id: str, workdir: str, **named: Any) -> Any:
        instances = {one.sandbox_id: one.spec.labels.get("instance") for one in self._provider.live()}
        if instances.get(sandbox_id) == "victim" and "diff" in self._world.at:
            await self._world.at["diff"]()
        return await self._provider.patch(sandbox_id, workdir, **named)


class NativeFixture(NamedTuple):
    agent: SweAgent
    world: NativeEnvironment
    model: MortalNativeModel
    peer: Peer
    face: ShownTools

    def talk(self, secret: str, mark: str, before: dict[str, Callable[[], Awaitable[None]]]) -> ScriptedConversation:
        """What the model says in one rollout."""
        shell = self.face.shell
        pause = f"sleep {mark}"
        turns = {
            "first call": [shell("echo one")],
            "model call": [shell("echo two")],
            "between": [shell(pause)],
            "parallel": [shell(pause), shell(FIX)],
            "finish": self.face.closing(),
        }
        talk = ScriptedConversation([ScriptedReply(items, before=before.get(point)) for point, items in turns.items()])
        self.model.conversations[secret] = talk
        return talk

    def run(self, name: str, secret: str) -> "asyncio.Task[Rollout]":
        stamp = Stamp(run_id="r", group_id=0, group_size=3, member=len(name), attempt=0)
        row = Row(responses_create_params={"input": []}, stamp=stamp, task={"name": name})
        return asyncio.create_task(self.peer.call(RUN, row, Call(rollout_secret=secret)))

    def sandbox_of(self, name: str) -> list[str]:
        live = self.agent._provider.value.live()
        return [one.sandbox_id for one in live if one.spec.labels.get("instance") == name]


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with sandbox_home() as folder:
        try:
            repository_image(store_of(folder), "calc", {"calc.py": "def add(a, b):\n    return a - b\n"})
            asyncio.run(_works(folder))
        except (FileNotFoundError, SandboxError) as error:
            pytest.skip(str(error))
        yield folder


async def _works(home: Path) -> None:
    await (await open_provider(SandboxSettings(home=home, runtime="bubblewrap"))).close()


@asynccontextmanager
async def open_fixture(home: Path, harness: str, transport: Any) -> AsyncIterator[NativeFixture]:
    peers: dict[str, Peer] = {}
    world, model = NativeEnvironment(ServerConfig(), name="world", peers=peers), MortalNativeModel()
    world.at, model.dead = {}, set()
    config = SweAgentConfig(
        resources_server={"type": "resources_servers", "name": "world"},
        model_server={"type": "models_servers", "name": "policy"},
        harness=harness,
        sandbox=SandboxSettings(home=home, runtime="bubblewrap"),
        limits=SandboxLimits(memory_mib=512),
        agent_timeout_s=120,
        command_timeout_s=60,
    )
    agent = SweAgent(config, name="agent", peers=peers)
    async with over(transport, world, model, agent) as found:
        agent._provider.value = WatchedHarness(agent, world)  # type: ignore[assignment]
        yield NativeFixture(agent, world, model, found["agent"], ShownTools(list(make_harness(harness).profile.tools)))  # type: ignore[attr-defined]


async def _in_a_command(mark: str, count: int) -> None:
    await eventually(lambda: len(processes_marked(mark)) >= count, "its command did not start", within_s=60)


async def fault(
    fixture: NativeFixture, what: str, point: str
) -> tuple[Rollout | None, list[Rollout], ScriptedConversation]:
    """The victim's rollout (None: it was cancelled), its siblings', and what the victim's model was asked."""
    mark, secret = str(random.randrange(10**8, 10**9)), new_secret()
    victim: list[asyncio.Task[Rollout]] = []

    async def strike() -> None:
        if what == "sandbox":
            for sandbox_id in fixture.sandbox_of("victim"):
                await fixture.agent._provider.value.destroy(sandbox_id)
        elif what == "model":
            fixture.model.dead.add(secret)
        else:
            victim[0].cancel()

    in_command = point in ("tool call", "parallel call")
    fixture.world.at = {point: strike}
    talk = fixture.talk(secret, mark if in_command else "0.2", {point: strike})
    if point == "tool call":
        del talk.replies[3]
    elif point == "parallel call":
        del talk.replies[2]
    siblings = []
    for name in ("a", "bb"):
        other = new_secret()
        fixture.talk(other, "0.2", {})
        siblings.append(fixture.run(name, other))
    victim.append(fixture.run("victim", secret))
    if point == "create":
        await eventually(lambda: bool(fixture.sandbox_of("victim")), "its sandbox was not made", within_s=60)
        await strike()
    elif in_command:
        await _in_a_command(mark, 1)
        await strike()
        if what == "model":
            for pid in processes_marked(mark):  # what it waits for comes to its end, and then it asks
                psutil.Process(pid).kill()
    ended, *others = await asyncio.gather(*victim, *siblings, return_exceptions=True)
    await eventually(lambda: not processes_marked(mark), "a process of it lives on")
    assert isinstance(ended, Rollout | asyncio.CancelledError), ended
    return (ended if isinstance(ended, Rollout) else None), others, talk  # type: ignore[return-value]


QUICK = {("sandbox", point) for point in POINTS[::3]} | {
    ("model", "model call"),
    ("model", "verify"),
    ("agent", "tool call"),
    ("agent", "create"),
}
KEEN = ("sandbox", "parallel call")
"""Where a harness's own toolbox has most to lose."""


def cases() -> Iterator[Any]:
    for what in ("sandbox", "model", "agent"):
        for point in POINTS:
            yield pytest.param(what, point, MINE, marks=() if (what, point) in QUICK else pytest.mark.long)
            mark = pytest.mark.slow if (what, point) == KEEN else pytest.mark.long
            yield from (pytest.param(what, point, name, marks=mark) for name in ("codeact", "codex", "opencode"))


@pytest.mark.slow
@pytest.mark.parametrize(("what", "point", "harness"), list(cases()))
async def test_what_dies_under_a_rollout_is_no_reward_and_no_word_to_a_model(
    what: str, point: str, harness: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(OUTSIDE)
    async with open_fixture(home, harness, "direct" if what == "agent" else "http") as fixture:
        ended, siblings, talk = await fault(fixture, what, point)
        await eventually(
            lambda: fixture.agent._provider.value.live() == [], "a sandbox lives on", within_s=GONE_WITHIN_S
        )
    assert [(one.outcome, one.reward) for one in siblings] == [("completed", 1.0)] * 2
    if what == "agent":
        assert ended is None
    elif what == "sandbox" and point in ("seed", "verify"):  # there is none yet, or none any more
        assert ended is not None
        assert (ended.outcome, ended.reward) == ("completed", 1.0)
    else:
        assert ended is not None
        assert (ended.outcome, ended.reward, ended.verdict) == ("infra", None, None)
        assert ended.failure is not None
        assert ended.failure.kind == ("sandbox_gone" if what == "sandbox" else "upstream_connection")
    told = b"".join(talk.bodies).decode()
    for words in (
        "SandboxGone",
        "InfraError",
        ended.failure.message if ended and ended.failure else "engine was killed",
    ):
        assert words not in told


class NativeFaultCase:
    """An evaluation of eight rows with known-good turns, every server in a process of its own."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.out = folder / "run"
        agent = {
            "resources_server": {"type": "resources_servers", "name": "world"},
            "model_server": {"type": "models_servers", "name": "policy"},
            "harness": MINE,
            "sandbox": {"home": str(home), "runtime": "bubblewrap"},
            "limits": {"memory_mib": 512},
            "command_timeout_s": 20,
        }
        tree = {"world": {"resources_servers": {"my_world:MyWorld": {}}}, "agent": {"agents": {"swe": agent}}}
        tree |= {"policy": {"models_servers": {"replay": {"delay_s": 0.2}}}, "serve": {"restart_wait_s": 0.1}}
        (folder / "case.yaml").write_text(yaml.safe_dump(tree))
        row = {
            "responses_create_params": {"input": []},
            "image": "calc",
            "patch": f"diff --git a/calc.py b/calc.py\n{PATCH}",
        }
        (folder / "rows.jsonl").write_bytes(b"\n".join([orjson.dumps(row)] * 8))
        words = ["--rows", folder / "rows.jsonl", "--out", self.out, "--isolate", "--concurrency", "2", "--oracle"]
        self.words = ["eval", str(folder / "case.yaml"), *map(str, words), "--retry-wait-s", "0.1"]

    def lines(self, name: str) -> list[JsonObject]:
        path = self.out / name
        return [orjson.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


@pytest.mark.slow
@pytest.mark.cli
@pytest.mark.parametrize("victim", few(["agent", "policy", "world"], ["policy"], mark=pytest.mark.long))
def test_a_process_killed_in_mid_run_pays_nobody_leaves_nothing_and_is_made_good(
    victim: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(OUTSIDE)
    case = NativeFaultCase(tmp_path, home)
    with running("paddock", *case.words, env={"PYTHONPATH": str(OUTSIDE)}) as command:
        _until(lambda: len(case.lines("rollouts.jsonl")) >= 2)
        family = command.family()
        next(one for one in family if one.cmdline()[-1] == victim).send_signal(signal.SIGKILL)
        code = command.code(timeout_s=100.0)
        assert code in (0, 1, 3), command.output()
        assert gone(family, within_s=20.0)
    assert all(line["reward"] == 1.0 for line in case.lines("rollouts.jsonl"))
    assert not any("reward" in line for line in case.lines("failures.jsonl"))
    assert main([*case.words, "--resume", "--quiet"]) == 0
    (summary,) = orjson.loads((case.out / "summary.json").read_bytes())
    assert (summary["outcomes"], summary["mean_reward"]) == ({"completed": 8}, 1.0)


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60.0
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
