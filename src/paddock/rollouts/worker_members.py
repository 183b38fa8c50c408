"""What a worker in a process of its own does for a trainer: it runs members of groups with servers of its own.

Jobs    `engine`, once and for all: what engine functions are asked goes to the trainer's process, and its answers come
        back as additions to that job; members (`member_job`), each of which ends with the whole rollout.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import orjson

from paddock.collect.artifact_sender import ArtifactSender
from paddock.collect.attempts import Attempts, InFlight, RunningReport
from paddock.collect.jobs import MemberSetup, SendMessage, WorkerMessage, WorkerSetup, failure_message
from paddock.collect.member_work import raise_when_failed, sent_files
from paddock.collect.plan import Plan
from paddock.collect.results import FailedAttempt, RolloutResult
from paddock.collect.workers import ServerPeers, reach_servers
from paddock.rollouts.member_job import MemberTask, ending_message
from paddock.rollouts.planned_rows import planned_group
from paddock.server.exact.relay import EngineRelay, RelayMessage, use_relay


class MemberEvents:
    """Tells how the attempts at one member ended."""

    def __init__(self, number: int, send: SendMessage, files: ArtifactSender) -> None:
        self.line = b""
        """Of the rollout with its verdict, when there is one."""
        self._number = number
        self._send = send
        self._files = files

    async def rollout(self, result: RolloutResult, line: bytes) -> RolloutResult:
        await self._files.send(self._number, result, self._send)
        self.line = line
        return result

    async def failure(self, failed: FailedAttempt) -> None:
        await self._files.send(self._number, failed, self._send)
        await self._send(failure_message(self._number, failed))


class TrainerMembers:
    """Runs members, and passes on what engine functions are asked."""

    def __init__(self, plan: Plan, reached: ServerPeers, relay: EngineRelay, files: ArtifactSender) -> None:
        self._plan = plan
        self._reached = reached
        self._relay = relay
        self._files = files
        self._in_flight = InFlight()

    async def run(self, message: WorkerMessage, send: SendMessage) -> None:
        head, number = message.head, message.head["job"]
        if "answer" in head:
            self._relay.take(RelayMessage(head, message.body))
        elif "engine" in head:

            async def pass_on(asked: RelayMessage) -> None:
                await send(WorkerMessage({"job": number, **asked.head}, asked.body))

            await self._relay.serve(pass_on)
        else:
            await self._run_member(number, MemberTask.from_message(message), send)

    async def _run_member(self, number: int, task: MemberTask, send: SendMessage) -> None:
        group = planned_group(orjson.loads(task.text), self._plan.router, number=task.row_index, size=task.size)
        events = MemberEvents(number, send, self._files)
        attempts = Attempts(self._reached.peers, events, self._plan.settings, in_flight=self._in_flight)
        finished = await attempts.run_member(group, task.member, task.attempt, task.doubts, made=task.made)
        line = events.line
        if not line and finished.rollout is not None:
            line = orjson.dumps(finished.rollout.to_wire())
        await send(ending_message(number, finished.result, line))

    def report(self) -> RunningReport:
        return self._in_flight.report()

    async def failed(self) -> NoReturn:
        await raise_when_failed(self._reached.runtime)


@asynccontextmanager
async def open_trainer_members(setup: WorkerSetup) -> AsyncIterator[TrainerMembers]:
    given = MemberSetup.model_validate(setup.given)
    relay = EngineRelay()
    with sent_files(given) as (plan, files), use_relay(relay):
        async with reach_servers(plan, given.locations, setup.slots) as reached:
            yield TrainerMembers(plan, reached, relay, files)
