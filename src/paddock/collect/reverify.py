"""Reverification: stored rollouts are scored again, without a model, so that every verdict can be reproduced offline.

Source  `rollouts.jsonl`; each line's row and response go to the `/verify` of its agent's environment, in this process.
        An environment with a `reverify` method of its own gets the stored verdict too, and is not started: what its
        judges said is in the verdict.
        Scores of steps are kept as they are stored: the new verdict is combined with them, and no judge is asked.
File    `reverified.jsonl` beside it: the same lines, in the same order, each with the verdict it got now; one whose
        scoring failed keeps none and is reported. The rollouts themselves are never changed.
Errors  ConfigError: no rollouts, or an agent that the config does not have.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from pydantic import ValidationError

from paddock.collect.folder import ROLLOUTS
from paddock.collect.lines import Fault, check, seal
from paddock.collect.routing import Agent, Router, environment
from paddock.config import Config
from paddock.errors import BugError, ConfigError, PaddockError, RowError, VerifierError, boundary, describe
from paddock.http import VERIFY, Call, Peer, VerifyRequest, rollout_from_wire, rollout_to_wire
from paddock.server import ResourcesServer
from paddock.server.runtime import open_runtime
from paddock.types import JsonObject, Rollout, Row, Verdict
from paddock.types.step_rewards import STEP_REWARDS, combine_as_stored

REVERIFIED = "reverified.jsonl"


class VerdictChange(NamedTuple):
    """A rollout whose reward or reason differs now, or that could not be scored."""

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


class ReverifyReport(NamedTuple):
    """What scoring again came to."""

    n: int
    """Number of rollouts, those that could not be scored included."""
    changed: list[VerdictChange]
    failed: list[VerdictChange]
    path: Path


class _Environments(NamedTuple):
    """The environments of a config: those that are started, and those that score from the stored verdict."""

    peers: Mapping[str, Peer]
    by_record: Mapping[str, ResourcesServer[Any, Any]]


def find_rollouts(path: Path) -> Path:
    """The rollouts of a run folder, or the file itself."""
    file = path / ROLLOUTS if path.is_dir() else path
    if not path.exists():
        raise ConfigError(f"{path}: no such folder or file", kind="no_rollouts")
    if not file.is_file():
        raise ConfigError(f"{file}: there are no rollouts", kind="no_rollouts")
    return file


async def reverify(config: Config, path: Path, *, concurrency: int = 16, timeout_s: float = 600.0) -> ReverifyReport:
    """Score every line of `path` again; `concurrency` rollouts at once, each within `timeout_s` seconds."""
    file = find_rollouts(path)
    router = Router(config)
    out = file.with_name(REVERIFIED)
    changed: list[VerdictChange] = []
    failed: list[VerdictChange] = []
    n = 0
    async with _open_environments(config, router) as environments:
        with file.open("rb") as lines, out.open("wb") as target:
            for batch in _batches(lines, concurrency):
                stored = [_read(line, file, n + nth) for nth, line in enumerate(batch, 1)]
                results = await asyncio.gather(
                    *(_score(line.rollout, router, environments, timeout_s) for line in stored)
                )
                for (rollout, altered), result in zip(stored, results, strict=True):
                    n += 1
                    change = _change(n, rollout, result, altered=altered)
                    if isinstance(result, Verdict):
                        again = rollout.model_copy(update={"verdict": result})
                        target.write(seal(orjson.dumps(rollout_to_wire(again)) + b"\n"))
                        changed += [change] if change else []
                    elif change:
                        failed.append(change)
    return ReverifyReport(n, changed, failed, out)


class _StoredRollout(NamedTuple):
    """A rollout as its line has it."""

    rollout: Rollout
    changed: bool
    """True: its line does not match its digest."""


def _read(line: bytes, file: Path, number: int) -> _StoredRollout:
    changed = False
    try:
        check(line, older=True)
    except Fault as fault:
        if fault.kind == "foreign":
            raise fault.error(file, number) from fault
        changed = True
    try:
        return _StoredRollout(rollout_from_wire(orjson.loads(line)), changed)
    except (orjson.JSONDecodeError, PaddockError, ValidationError) as error:
        raise ConfigError(f"{file}:{number}: no rollout: {error}", kind="no_rollouts") from error


@asynccontextmanager
async def _open_environments(config: Config, router: Router) -> AsyncIterator[_Environments]:
    names = sorted({agent.environment for agent in router.agents.values()})
    servers = {name: environment(config, name) for name in names}
    by_record = {
        name: server for name, server in servers.items() if type(server).reverify is not ResourcesServer.reverify
    }
    started = [name for name in names if name not in by_record]
    if not started:
        yield _Environments({}, by_record)
        return
    async with open_runtime(config, names=started) as runtime:
        yield _Environments(runtime.peers, by_record)


async def _score(
    rollout: Rollout, router: Router, environments: _Environments, timeout_s: float
) -> Verdict | PaddockError:
    try:
        agent: Agent = router.agent_of(rollout.row)
        if rollout.response is None:
            raise RowError("the rollout has no response to score", kind="no_response")
        server = environments.by_record.get(agent.environment)
        if server is None:
            request = VerifyRequest(row=rollout.row, response=rollout.response)
            verdict = await environments.peers[agent.environment].call(VERIFY, request, Call().within(timeout_s))
        else:
            verdict = await _by_record(server, rollout.row, rollout.response, rollout.verdict)
        return combine_as_stored(verdict.model_copy(update={"waited_s": 0.0}), rollout.verdict)
    except PaddockError as error:
        return error
    except ValidationError as error:
        return BugError(f"{STEP_REWARDS}: {describe(error)}", kind="rollout_invalid")


async def _by_record(
    server: ResourcesServer[Any, Any], row: Row, response: JsonObject, stored: Verdict | None
) -> Verdict:
    if stored is None:
        raise RowError("the rollout has no verdict to score again", kind="no_verdict")
    with boundary(VerifierError, f"{server.name}: reverify", stage="verify"):
        return await server.reverify(server.read_task(row), row, response, stored)


def _change(line: int, rollout: Rollout, result: Verdict | PaddockError, *, altered: bool) -> VerdictChange | None:
    if rollout.verdict is None:
        return None
    stamp, before = rollout.row.stamp, rollout.verdict
    where = (line, stamp.group_id, stamp.member, before.reward)
    if not isinstance(result, Verdict):
        return VerdictChange(*where, None, f"{result.kind}: {result.message}")
    if (result.reward, result.reason) == (before.reward, before.reason):
        return None
    why = f"{before.reason} before, {result.reason} now"
    return VerdictChange(*where, result.reward, f"{why}; the stored line does not match its digest" if altered else why)


def _batches(lines: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for line in lines:
        if not line.endswith(b"\n"):
            break  # torn: it was never finished
        batch.append(line)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
