"""What the policy is given to train on, written down: a line of JSON for each batch."""

import json
from pathlib import Path
from typing import Any

from paddock.training.core.records import Batch, Group, TrainRow
from paddock.training.grpo.roles import TrainResult


class RecordingPolicy:
    """A policy."""

    def __init__(self, policy: Any, path: Path) -> None:
        self._policy = policy
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    async def train(self, batch: Batch) -> TrainResult:
        with self._path.open("a") as file:
            file.write(json.dumps(_as_json(batch)) + "\n")
        trained: TrainResult = await self._policy.train(batch)
        return trained


def _as_json(batch: Batch) -> dict[str, Any]:
    return {
        "step": batch.step,
        "groups": [_group(group) for group in batch.groups],
        "rows": [_row(row) for row in batch.rows],
        "masked": [masked._asdict() for masked in batch.masked],
        "dropped": batch.dropped,
    }


def _group(group: Group) -> dict[str, Any]:
    members = [{"nth": one.nth, "outcome": one.outcome, "reward": one.reward} for one in group.members]
    return {"id": group.id, "members": members}


def _row(row: TrainRow) -> dict[str, Any]:
    given = set(row.advantages[row.loss_mask].tolist())
    named = {"group": row.group, "member": row.member, "sample": row.sample, "reward": row.reward}
    return {**named, "advantages": sorted(given)}
