"""What scores stored rollouts again: the environments of this process, or those of worker processes here or elsewhere.

Spread  each worker has environments of its own, but for servers of which there can be only one, which the driver
        starts. It gets lines as they are stored, and nothing else of a run's folder; verdicts come back.
Errors  of a rollout are returned, the loss of its workers among them; what concerns all of them is raised.
"""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

import orjson
from pydantic import Field, ValidationError

from paddock.collect.item_work import ItemResult, MakeItem, WorkItem
from paddock.collect.items import ItemWork, open_item_workers
from paddock.collect.restarts import WORKERS_LOST
from paddock.collect.routing import Agent, Router, environment
from paddock.collect.worker_nodes import WorkerNodes, connect_nodes
from paddock.collect.worker_spread import WorkerSpread
from paddock.config import Config
from paddock.config.interpolation import variables_read
from paddock.errors import BugError, PaddockError, RowError, VerifierError, boundary, describe
from paddock.http import VERIFY, Call, Peer, VerifyRequest, rollout_from_wire
from paddock.server import ResourcesServer
from paddock.server.lifecycle import longest_start_s, longest_stop_s
from paddock.server.runtime import open_runtime, shared_names
from paddock.server.settings import serve_settings
from paddock.types import JsonObject, Record, Rollout, Row, Verdict
from paddock.types.step_rewards import STEP_REWARDS, combine_as_stored

OPENS = f"{__name__}:open_rescoring"
Score = Callable[[bytes, Rollout], Awaitable[Verdict | PaddockError]]
"""Scores a rollout: its stored line, and the same as it was read."""


class ScoringSetup(Record):
    """What a worker is given."""

    config: str = Field(repr=False)
    """The composed config, unresolved."""
    timeout_s: float
    """For one rollout."""
    urls: dict[str, str] = {}
    """Where servers run that it does not start, by name."""
    token: str | None = Field(default=None, repr=False)
    """What those servers ask for."""


class _Environments(NamedTuple):
    """The environments of a config: those that are started, and those that score from the stored verdict."""

    peers: Mapping[str, Peer]
    by_record: Mapping[str, ResourcesServer[Any, Any]]


@asynccontextmanager
async def open_scorer(
    config: Config, spread: WorkerSpread, *, concurrency: int, timeout_s: float
) -> AsyncIterator[Score]:
    """What scores rollouts, `concurrency` at once, each within `timeout_s` seconds."""
    setup = ScoringSetup(config=config.to_yaml(), timeout_s=timeout_s)
    if spread.is_here:
        async with _open_here(config, setup) as score:
            yield lambda _, rollout: score(rollout)
        return
    spread = _with_timeouts(spread, config)
    async with AsyncExitStack() as stack:
        nodes = stack.enter_context(connect_nodes(spread))
        setup = await _with_shared(config, setup, nodes, stack)
        work = ItemWork(OPENS, setup.model_dump(mode="json"), variables_read(setup.config))
        workers = await stack.enter_async_context(open_item_workers(work, spread, at_once=concurrency, nodes=nodes))

        async def score_there(line: bytes, _: Rollout) -> Verdict | PaddockError:
            try:
                return Verdict.model_validate((await workers.make({}, line)).result)
            except PaddockError as error:
                if error.kind == WORKERS_LOST:
                    raise
                return error

        yield score_there


@asynccontextmanager
async def open_rescoring(given: JsonObject) -> AsyncIterator[MakeItem]:
    """What a worker does."""
    setup = ScoringSetup.model_validate(given)
    async with _open_here(Config.from_yaml(setup.config), setup) as score:

        async def make(item: WorkItem) -> ItemResult:
            verdict = await score(rollout_from_wire(orjson.loads(item.body)))
            if isinstance(verdict, PaddockError):
                raise verdict
            return ItemResult(verdict.model_dump(mode="json"))

        yield make


async def _with_shared(config: Config, setup: ScoringSetup, nodes: WorkerNodes, stack: AsyncExitStack) -> ScoringSetup:
    """Start the servers of which there can be only one, and say where they are."""
    names = shared_names(config, _started(config))
    if not names:
        return setup
    token = secrets.token_urlsafe() if nodes.host is not None else None
    opening = open_runtime(config, names=names, isolate=True, host=nodes.host, token=token)
    runtime = await stack.enter_async_context(opening)
    urls = {name: server.url for name, server in runtime.servers.items() if server.url is not None}
    return setup.model_copy(update={"urls": urls, "token": runtime.token})


def _with_timeouts(spread: WorkerSpread, config: Config) -> WorkerSpread:
    serving, names = serve_settings(config), _started(config)
    update = {
        "max_restarts": serving.max_restarts,
        "restart_wait_s": serving.restart_wait_s,
        "start_timeout_s": longest_start_s(config, serving, names),
        "stop_timeout_s": longest_stop_s(config, serving, names),
    }
    return spread.model_copy(update=update)


def _servers(config: Config) -> dict[str, ResourcesServer[Any, Any]]:
    names = {agent.environment for agent in Router(config).agents.values()}
    return {name: environment(config, name) for name in sorted(names)}


def _scores_by_record(server: ResourcesServer[Any, Any]) -> bool:
    return type(server).reverify is not ResourcesServer.reverify


def _started(config: Config) -> list[str]:
    """The environments that have to run."""
    return [name for name, server in _servers(config).items() if not _scores_by_record(server)]


@asynccontextmanager
async def _open_here(
    config: Config, setup: ScoringSetup
) -> AsyncIterator[Callable[[Rollout], Awaitable[Verdict | PaddockError]]]:
    router = Router(config)
    async with _open_environments(config, setup) as environments:
        yield lambda rollout: _score(rollout, router, environments, setup.timeout_s)


@asynccontextmanager
async def _open_environments(config: Config, setup: ScoringSetup) -> AsyncIterator[_Environments]:
    by_record = {name: server for name, server in _servers(config).items() if _scores_by_record(server)}
    started: Sequence[str] = _started(config)
    if not started:
        yield _Environments({}, by_record)
        return
    async with open_runtime(config, names=started, elsewhere=setup.urls, token=setup.token) as runtime:
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
