"""What runs the rollouts of a collection: a worker, which holds agents and servers, or reaches them.

`LocalWorker` runs them in this process. Others are the same in another process, and pass on what it is told and tells
(`jobs`); `hand_out` gives each its jobs.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple, Protocol

from paddock.collect.attempts import Attempts, InFlight, ResultSink, RolloutSetup, RunningReport
from paddock.collect.jobs import MemberJob
from paddock.collect.locations import ServerLocations
from paddock.collect.oracle import OraclePrompter, oracle_config
from paddock.collect.plan import GroupReader, Plan
from paddock.collect.restarts import WorkerSource
from paddock.collect.settings import EvalSettings
from paddock.config import Config
from paddock.config.problems import nearest
from paddock.errors import ConfigError, InfraError
from paddock.http import HttpPeer, Peer, token_for
from paddock.http.transport import make_client
from paddock.server.runtime import Runtime, open_runtime


class WorkerLostError(InfraError):
    """The worker is gone, and with it the attempts that it had in flight."""

    def __init__(self, why: str) -> None:
        super().__init__(why, kind="worker_lost")


class MemberWorker(Protocol):
    """Runs jobs, `slots` at a time."""

    @property
    def slots(self) -> int: ...

    @property
    def lost(self) -> "asyncio.Future[str]":
        """Done when it is gone and nothing of it runs any more: how it ended, in words."""
        ...

    async def run(self, job: MemberJob, sink: ResultSink) -> None:
        """Run a member to its end: the sink has its verdict or a final failure. WorkerLostError: that did not come."""
        ...

    def report(self) -> RunningReport: ...


class WorkerPlace(WorkerSource[MemberWorker], Protocol):
    """Where a worker of a collection is."""

    def report(self) -> RunningReport: ...


class Crew(NamedTuple):
    """The workers of a collection."""

    places: Sequence[WorkerPlace]
    runtime: Runtime | None = None
    """The servers that were started in this process or by it; None: there are none."""
    later: AsyncIterator[WorkerPlace] | None = None
    """Places that are added while the collection runs; they are in `places`, too."""

    def reports(self) -> list[RunningReport]:
        return [place.report() for place in self.places]


class LocalWorker:
    """Runs rollouts by peers of this process. It is its own place: it is never lost."""

    def __init__(
        self,
        peers: Mapping[str, Peer],
        groups: GroupReader,
        settings: EvalSettings,
        slots: int,
        setup: RolloutSetup | None = None,
    ) -> None:
        self.slots = slots
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._peers = peers
        self._groups = groups
        self._settings = settings
        self._setup = setup
        self._in_flight = InFlight(stuck_after_s=settings.stuck_after_s)

    async def run(self, job: MemberJob, sink: ResultSink) -> None:
        attempts = Attempts(self._peers, sink, self._settings, self._setup, self._in_flight)
        group = self._groups.group(job.line)
        await attempts.withdraw(group, job.ended)
        await attempts.run_member(group, job.member, job.attempt, job.doubts, made=job.made)

    def report(self) -> RunningReport:
        return self._in_flight.report()

    async def worker(self) -> "LocalWorker":
        return self


class ServerPeers(NamedTuple):
    """The servers that a worker calls."""

    peers: Mapping[str, Peer]
    runtime: Runtime | None
    """Those that were started with it; None: all are somebody else's."""


class LocalServers(NamedTuple):
    """A worker of this process, and the servers that were started with it."""

    worker: LocalWorker
    runtime: Runtime | None
    """None: the servers are somebody else's."""


@asynccontextmanager
async def reach_servers(plan: Plan, locations: ServerLocations, slots: int) -> AsyncIterator[ServerPeers]:
    """Servers that are started in this process, or reached where they are."""
    async with AsyncExitStack() as stack:
        if locations.start:
            runtime = await stack.enter_async_context(
                open_runtime(
                    served_config(plan),
                    names=list(plan.router.agents),
                    isolate=locations.isolate,
                    token=locations.token,
                    elsewhere=locations.urls,
                )
            )
            yield ServerPeers(runtime.peers, runtime)
            return
        client = make_client(max_connections=2 * slots + 16)
        stack.push_async_callback(client.aclose)
        urls = addresses(plan, locations)
        yield ServerPeers(
            {name: HttpPeer(name, client, url, token=token_for(url, locations.token)) for name, url in urls.items()},
            None,
        )


@asynccontextmanager
async def open_local_worker(plan: Plan, locations: ServerLocations, slots: int) -> AsyncIterator[LocalServers]:
    """A worker in this process, with servers that are started for it or reached where they are."""
    prompter = OraclePrompter(plan) if plan.identity.oracle else None
    async with reach_servers(plan, locations, slots) as reached:
        if prompter is not None:
            prompter.peers = reached.peers
        groups = GroupReader(plan.router, plan.identity.run_id)
        yield LocalServers(LocalWorker(reached.peers, groups, plan.settings, slots, prompter), reached.runtime)


def served_config(plan: Plan) -> Config:
    """The config whose servers run."""
    return oracle_config(plan) if plan.identity.oracle else plan.config


def addresses(plan: Plan, locations: ServerLocations) -> dict[str, str]:
    """The URL of every agent by its name; with an oracle, of their model servers too."""
    unknown = [name for name in locations.urls if name not in plan.config.instances]
    if unknown:
        close = nearest(unknown[0], plan.config.instances)
        hint = f"; nearest: {close!r}" if close else ""
        raise ConfigError(f"--url: no server {unknown[0]!r} in the config{hint}", kind="server_unknown")
    agents = plan.router.agents.values()
    needed = {agent.name: agent.config for agent in agents}
    models = {agent.config.model_server.name for agent in agents} if plan.identity.oracle else set()
    urls = dict(locations.urls)
    for name in [*needed, *sorted(models)]:
        if name in urls:
            continue
        block = plan.config.block(name)
        if not block.get("port"):
            raise ConfigError(
                f"{name}: where does it run? Its block gives no port: use --url {name}=URL", kind="no_address"
            )
        host = block.get("host") or plan.config.top("default_host") or "127.0.0.1"
        urls[name] = f"http://{host}:{block['port']}"
    return urls
