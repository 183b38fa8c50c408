"""Claims about real programs under faults: wherever a rollout's program, tunnel, model or agent dies, it ends typed,
nobody is paid for it, nothing of it is left, and its siblings finish.

Three rollouts at once, each in a real sandbox; one loses what it needs at a point of its life.
"""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.e2e.programs import calc_fixture

from paddock.agents.swe import SweAgent
from paddock.conformance.harnesses.scripted_model import ConversationServer, ScriptedConversation, ScriptedReply
from paddock.conformance.sandboxes.fixture import eventually, processes_marked
from paddock.errors import InfraError
from paddock.harness import harness_class
from paddock.harness.outside.harness import BRIDGE
from paddock.http import Call, ModelReply, new_secret
from paddock.sandbox import ExecRequest
from paddock.sandbox.tunnel import Tunnel
from paddock.server import ServerConfig
from paddock.testing import over
from paddock.types import JsonObject, Rollout, Row, Verdict
from paddock.types.responses import call_item, message_item

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]
VICTIM, SIBLINGS = 0, (1, 2)
GONE_WITHIN_S = 10.0
BEFORE, AFTER = ("seed", "create"), ("finished", "verify")
DURING = ("first call", "model call", "tool call", "between", "parallel call", "finish")
POINTS = (*BEFORE, *DURING, *AFTER)
COMMANDS = {"codex_cli": "codex", "opencode_cli": "opencode", "claude_code": "claude"}
"""What the program's processes are called."""
WHAT = ("program", "tunnel", "model", "agent")
FEW = {("codex_cli", what): "parallel call" for what in WHAT[1:]} | {("mini_swe_agent", "program"): "tool call"}
"""What `.ci/run` tries, and where: a program in a sandbox, and one on this machine; all: `make test-slow`."""
SUPERVISOR = "supervisor.py"
Strike = Callable[[], Awaitable[None]]


class FaultyCalcServer(calc_fixture.CalcServer):
    """Something happens to the victim where it is seeded and judged."""

    at: dict[str, Strike]

    async def seed_session(self, task: calc_fixture.CalcTask, row: Row) -> Any:
        await self._happens(task, "seed")
        return await super().seed_session(task, row)

    async def verify(self, task: calc_fixture.CalcTask, row: Row, response: JsonObject) -> Verdict:
        await self._happens(task, "finished")
        await self._happens(task, "verify")
        return await super().verify(task, row, response)

    async def _happens(self, task: calc_fixture.CalcTask, point: str) -> None:
        if task.number == VICTIM and point in self.at:
            await self.at[point]()


class MortalProgramModel(ConversationServer):
    """Some of its rollouts are dead to it."""

    dead: set[str]

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        return await self._alive(call, super().responses(body, call))

    async def chat(self, body: JsonObject, call: Call) -> ModelReply:
        return await self._alive(call, super().chat(body, call))

    async def messages(self, body: JsonObject, call: Call) -> ModelReply:
        return await self._alive(call, super().messages(body, call))

    async def _alive(self, call: Call, reply: Awaitable[ModelReply]) -> ModelReply:
        said = await reply
        if call.path["secret"] in self.dead:
            raise InfraError("the engine was killed", kind="upstream_connection")
        return said


class WatchedAgent(SweAgent):
    """Tells which sandbox and which tunnel are the victim's."""

    tunnels: dict[str, Tunnel]

    async def _tunnel(self, run: Any, sandbox_id: str, *more: Any) -> Tunnel:
        made = await super()._tunnel(run, sandbox_id, *more)
        self.tunnels[run.secret] = made
        return made

    def sandboxes_of(self, number: int) -> list[str]:
        live = self._provider.value.live()
        return [one.sandbox_id for one in live if one.spec.labels.get("instance") == f"calc-{number}"]


class ProgramFaultCase:
    """One victim with its siblings."""

    def __init__(
        self, harness: str, world: FaultyCalcServer, model: MortalProgramModel, agent: WatchedAgent, fixture: Any
    ) -> None:
        self.harness = harness
        self.lab = harness_class(harness).lab
        self.world, self.model, self.agent, self.fixture = world, model, agent, fixture
        self.secret = new_secret()
        self.victim: asyncio.Task[Rollout] | None = None
        self.outside: list[int] = []
        """Processes of the victim's program, where it runs on this machine."""

    def shell(self, line: str) -> JsonObject:
        return call_item(self.lab.tool, json.dumps(self.lab.line(line)))

    def talk(self, secret: str, pause: str, before: dict[str, Strike]) -> ScriptedConversation:
        """What the model says in one rollout."""
        turns = {
            "first call": [self.shell("echo one")],
            "model call": [self.shell("echo two")],
            "between": [self.shell(pause)],
            "parallel": [self.shell(pause), self.shell(calc_fixture.FIX)],
            "finish": [self.lab.finish() if self.lab.finish else message_item("Done.")],
        }
        replies = [ScriptedReply(items, before=before.get(point)) for point, items in turns.items()]
        talk = self.model.conversations[secret] = ScriptedConversation(replies)
        return talk

    async def strike(self, what: str) -> None:
        if what == "program":
            for pid in self.outside:
                psutil.Process(pid).kill()
            for sandbox_id in self.agent.sandboxes_of(VICTIM) if self.harness in COMMANDS else ():
                kill = ExecRequest(argv=["/usr/bin/busybox", "killall", "-9", COMMANDS[self.harness]])
                await self.agent._provider.value.exec(sandbox_id, kill, request_id=new_secret())
        elif what == "tunnel":
            await self.agent.tunnels[self.secret].close()
        elif what == "model":
            self.model.dead.add(self.secret)
        else:
            assert self.victim is not None
            self.victim.cancel()


@asynccontextmanager
async def case(harness: str, home: Path, transport: Any) -> AsyncIterator[ProgramFaultCase]:
    peers: dict[str, Any] = {}
    world, model = FaultyCalcServer(ServerConfig(), name="world", peers=peers), MortalProgramModel()
    world.at, model.dead = {}, set()
    agent = WatchedAgent(calc_fixture.config(harness, home, command_timeout_s=60), name="agent", peers=peers)
    agent.tunnels = {}
    async with over(transport, world, model, agent) as found:
        yield ProgramFaultCase(harness, world, model, agent, calc_fixture.CalcFixture(agent, found["agent"]))


async def fault(one: ProgramFaultCase, what: str, point: str) -> tuple[Rollout | None, list[Rollout]]:
    """The victim's rollout (None: it was cancelled), and its siblings'."""
    mark = str(random.randrange(10**6, 10**7))

    async def strike() -> None:
        await one.strike(what)

    in_command = point in ("tool call", "parallel call")
    one.world.at = {point: strike}
    talk = one.talk(one.secret, f"sleep {mark}" if in_command else "sleep 0.2", {point: strike})
    if in_command:
        del talk.replies[3 if point == "tool call" else 2]
    one.victim = one.fixture.run(VICTIM, secret=one.secret)
    if what == "program" and one.harness not in COMMANDS:
        await eventually(lambda: bool(drivers()), "its program was not started", within_s=60)
        one.outside = drivers()
    siblings = []
    for number in SIBLINGS:
        secret = new_secret()
        one.talk(secret, "sleep 0.2", {})
        siblings.append(one.fixture.run(number, secret=secret))
    if point == "create":
        await eventually(lambda: bool(one.agent.sandboxes_of(VICTIM)), "its sandbox was not made", within_s=60)
        await strike()
    elif in_command:
        await eventually(lambda: bool(processes_marked(mark)), "its command did not start", within_s=60)
        await strike()
        for pid in processes_marked(mark) if what in ("tunnel", "model") else ():
            psutil.Process(pid).kill()  # what it waits for comes to its end, and then it asks
    ended, *others = await asyncio.gather(one.victim, *siblings, return_exceptions=True)
    await eventually(lambda: not processes_marked(mark), "a process of it lives on")
    assert isinstance(ended, Rollout | asyncio.CancelledError), ended
    return (ended if isinstance(ended, Rollout) else None), others  # type: ignore[return-value]


def drivers() -> list[int]:
    """Processes of this test that drive a program on this machine; the keepers over them aside."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if str(BRIDGE) in words and not any(word.endswith(SUPERVISOR) for word in words):
                found.append(process.pid)
    return found


def cases() -> list[Any]:
    made = []
    for harness in calc_fixture.PROGRAMS:
        for what in WHAT:
            points = POINTS if what in ("agent", "model") else DURING
            for point in points:
                marks = () if FEW.get((harness, what)) == point else pytest.mark.long
                made.append(pytest.param(harness, what, point, marks=marks))
    return made


@pytest.mark.parametrize(("harness", "what", "point"), cases())
async def test_what_dies_under_a_program_is_no_reward(harness: str, what: str, point: str, home: Path) -> None:
    calc_fixture.require(harness)
    async with case(harness, home, "direct" if what == "agent" else "http") as one:
        ended, siblings = await fault(one, what, point)
        await eventually(lambda: one.fixture.live == [], "a sandbox lives on", within_s=GONE_WITHIN_S)
    assert [(other.outcome, other.reward) for other in siblings] == [("completed", 1.0)] * len(SIBLINGS)
    if what == "agent":
        assert ended is None
        return
    assert ended is not None
    if what == "model" and point in AFTER:  # nobody asks it any more
        assert (ended.outcome, ended.reward) == ("completed", 1.0)
        return
    assert (ended.outcome, ended.reward, ended.verdict) == ("infra", None, None)
    assert ended.failure is not None
    kinds = {"program": "program_failed", "tunnel": "tunnel_lost", "model": "model_status"}
    assert ended.failure.kind == kinds[what]
