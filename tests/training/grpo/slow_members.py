"""An environment whose verdicts take as long as a member's row says, and which counts those that are under way."""

import asyncio
from collections.abc import Mapping

from pydantic import BaseModel

from paddock.server import ResourcesServer, ServerConfig
from paddock.types import JsonObject, Row, Session, Verdict


class SlowMembersTask(BaseModel):
    """A task of `SlowMembersEnvironment`."""

    verify_s: Mapping[int, float] = {}
    """Seconds of a member's verdict; of others: none. The reward is the member's number."""


class SlowMembersEnvironment(ResourcesServer[ServerConfig, SlowMembersTask]):
    """Members that take as long as they are to."""

    config_type = ServerConfig
    task_type = SlowMembersTask
    n_verifying = 0
    """How many verdicts are under way, of all instances in this process."""

    async def seed_session(self, task: SlowMembersTask, row: Row) -> Session:
        return Session()

    async def verify(self, task: SlowMembersTask, row: Row, response: JsonObject) -> Verdict:
        member = row.stamp.member or 0
        SlowMembersEnvironment.n_verifying += 1
        try:
            await asyncio.sleep(task.verify_s.get(member, 0.0))
        finally:
            SlowMembersEnvironment.n_verifying -= 1
        return Verdict(reward=float(member), reason="right")
