"""A pivot server whose verdicts fail for a share of the rollouts, in each of their attempts: half of them as if the
machine had failed, half as if the grader had. Which ones is a draw by row, epoch and place in the group.
"""

import random

from paddock.errors import InfraError, VerifierError
from paddock.resources_servers.pivot.server import PivotServer, PivotTask
from paddock.types import JsonObject, Row, Verdict

SHARE = 0.2


class FaultyPivot(PivotServer):
    async def verify(self, task: PivotTask, row: Row, response: JsonObject) -> Verdict:
        stamp = row.stamp
        drawn = random.Random(f"{stamp.group_id} {stamp.epoch} {stamp.member}").random()
        if drawn < SHARE / 2:
            raise InfraError("injected: the machine failed", kind="injected")
        if drawn < SHARE:
            raise VerifierError("injected: the grader failed", kind="injected")
        return await super().verify(task, row, response)
