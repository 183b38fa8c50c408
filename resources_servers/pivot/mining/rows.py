"""Pivot rows of candidates, and which of two splits a repository belongs to.

Row     `responses_create_params` (history and tools), `expected_action`, `cwd` where it is known, `snapshot`
        where the trajectory was played again so far, `metadata` with where the step comes from: what our pivot server
        reads, in NeMo-Gym's published form.
Split   by a hash of the repository's name, else of the task's, so that no repository is in both.
"""

import hashlib
from collections.abc import Mapping
from typing import Literal

from paddock.resources_servers.pivot.executed.step import StepSnapshot
from paddock.resources_servers.pivot.mining.candidates import PivotCandidate
from paddock.resources_servers.pivot.mining.replay import TrajectoryReplay
from paddock.types import JsonObject

Split = Literal["train", "validation"]


def row_of(candidate: PivotCandidate, replays: Mapping[str, TrajectoryReplay] = {}) -> JsonObject:
    """Return the pivot row of a candidate. `replays`: of trajectories by name; they give rows their `snapshot`."""
    trajectory = candidate.trajectory
    calls = [
        {"type": "function_call", "name": call["name"], "arguments": call["arguments"]} for call in candidate.calls
    ]
    expected = calls[0] if len(calls) == 1 else {"type": "function_call_batch", "calls": calls}
    metadata = {
        "trajectory": trajectory.name,
        "step": candidate.step,
        "kind": candidate.kind,
        "form": trajectory.form,
        "repository": repository_of(candidate),
        "instance_id": trajectory.instance_id,
        "image": trajectory.image,
    }
    row: JsonObject = {
        "uuid": candidate.uuid,
        "responses_create_params": {"input": trajectory.items[: candidate.at], "tools": trajectory.tools},
        "expected_action": expected,
        "metadata": {key: value for key, value in metadata.items() if value is not None},
    }
    snapshot = snapshot_of(candidate, replays)
    if snapshot is not None:
        return {**row, "cwd": snapshot.workdir, "snapshot": snapshot.model_dump()}
    return {**row, "cwd": trajectory.cwd} if trajectory.cwd else row


def snapshot_of(candidate: PivotCandidate, replays: Mapping[str, TrajectoryReplay]) -> StepSnapshot | None:
    """Return the snapshot that a candidate's step starts from; None: its trajectory was not played so far."""
    replay = replays.get(candidate.trajectory.name)
    return replay.snapshots.get(candidate.step) if replay is not None else None


def repository_of(candidate: PivotCandidate) -> str:
    """Return a repository's name: the source's, else what SWE-bench's ids say, else the trajectory's."""
    trajectory = candidate.trajectory
    if trajectory.repository:
        return trajectory.repository
    name = trajectory.instance_id or trajectory.name
    owner, mark, rest = name.partition("__")
    return f"{owner}/{rest.rsplit('-', 1)[0]}" if mark else name


def split_of(repository: str, validation_share: float) -> Split:
    """Return the split of a repository; about `validation_share` of all names are of the second."""
    digest = hashlib.sha256(repository.encode()).digest()
    return "validation" if int.from_bytes(digest[:8]) < validation_share * 2**64 else "train"
