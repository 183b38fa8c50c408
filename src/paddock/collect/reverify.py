"""Scoring stored rollouts again, without a model: every verdict can be reproduced offline from its stored rollout.

Source  `rollouts.jsonl`; each line's row and response go to the `/verify` of its agent's environment, in this process.
        Scores of steps are kept as they are stored: the new verdict is combined with them, and no judge is asked.
File    `reverified.jsonl` beside it: the same lines, in the same order, each with the verdict it got now; one whose
        scoring failed keeps none and is reported. The rollouts themselves are never changed.
Errors  ConfigError: no rollouts, or an agent that the config does not have.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import orjson
from pydantic import ValidationError

from paddock.collect.folder import ROLLOUTS
from paddock.collect.routing import Agent, Router
from paddock.config import Config
from paddock.errors import BugError, ConfigError, PaddockError, RowError, describe
from paddock.http import VERIFY, Call, Peer, VerifyRequest, rollout_from_wire, rollout_to_wire
from paddock.server.runtime import open_runtime
from paddock.types import Rollout, Verdict
from paddock.types.step_rewards import STEP_REWARDS, as_stored

REVERIFIED = "reverified.jsonl"


class Change(NamedTuple):
    """A rollout whose score differs now, or could not be given."""

    line: int
    """In the file, from 1."""
    group_id: int | None
    member: int | None
    before: float
    now: float | None
    """None: scoring failed."""
    why: str
    """The reasons before and now; or the failure."""

    def __str__(self) -> str:
        now = "no verdict" if self.now is None else f"{self.now:g}"
        return f"line {self.line} (row {self.group_id}, member {self.member}): {self.before:g} -> {now}: {self.why}"


class Reverified(NamedTuple):
    n: int
    """Rollouts scored or tried."""
    changed: list[Change]
    failed: list[Change]
    path: Path


def find_rollouts(path: Path) -> Path:
    """The rollouts of a run folder, or the file itself."""
    file = path / ROLLOUTS if path.is_dir() else path
    if not file.is_file():
        raise ConfigError(f"{file}: there are no rollouts", kind="no_rollouts")
    return file


async def reverify(config: Config, path: Path, *, concurrency: int = 16, timeout_s: float = 600.0) -> Reverified:
    """Score every line of `path` again. `timeout_s` is for one rollout."""
    file = find_rollouts(path)
    router = Router(config)
    out = file.with_name(REVERIFIED)
    changed: list[Change] = []
    failed: list[Change] = []
    n = 0
    names = sorted({agent.environment for agent in router.agents.values()})
    async with open_runtime(config, names=names) as runtime:
        with file.open("rb") as lines, out.open("wb") as target:
            for batch in _batches(lines, concurrency):
                stored = [_read(line, file, n + nth) for nth, line in enumerate(batch, 1)]
                results = await asyncio.gather(
                    *(_score(rollout, router, runtime.peers, timeout_s) for rollout in stored)
                )
                for rollout, result in zip(stored, results, strict=True):
                    n += 1
                    change = _change(n, rollout, result)
                    if isinstance(result, Verdict):
                        target.write(
                            orjson.dumps(rollout_to_wire(rollout.model_copy(update={"verdict": result}))) + b"\n"
                        )
                        changed += [change] if change else []
                    elif change:
                        failed.append(change)
    return Reverified(n, changed, failed, out)


def _read(line: bytes, file: Path, number: int) -> Rollout:
    try:
        return rollout_from_wire(orjson.loads(line))
    except (orjson.JSONDecodeError, PaddockError, ValidationError) as error:
        raise ConfigError(f"{file}:{number}: no rollout: {error}", kind="no_rollouts") from error


async def _score(
    rollout: Rollout, router: Router, peers: Mapping[str, Peer], timeout_s: float
) -> Verdict | PaddockError:
    try:
        agent: Agent = router.agent_of(rollout.row)
        if rollout.response is None:
            raise RowError("the rollout has no response to score", kind="no_response")
        request = VerifyRequest(row=rollout.row, response=rollout.response)
        verdict = await peers[agent.environment].call(VERIFY, request, Call().within(timeout_s))
        return as_stored(verdict, rollout.verdict)
    except PaddockError as error:
        return error
    except ValidationError as error:
        return BugError(f"{STEP_REWARDS}: {describe(error)}", kind="rollout_invalid")


def _change(line: int, rollout: Rollout, result: Verdict | PaddockError) -> Change | None:
    if rollout.verdict is None:
        return None
    stamp, before = rollout.row.stamp, rollout.verdict
    place = (line, stamp.group_id, stamp.member, before.reward)
    if not isinstance(result, Verdict):
        return Change(*place, None, f"{result.kind}: {result.message}")
    if result.reward == before.reward:
        return None
    return Change(*place, result.reward, f"{before.reason} before, {result.reason} now")


def _batches(lines: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for line in lines:
        if not line.endswith(b"\n"):
            break  # torn: its rollout had not ended
        batch.append(line)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
