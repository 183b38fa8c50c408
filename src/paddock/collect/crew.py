"""From a config to the workers of a collection: in this process, in processes of their own, or on a cluster's nodes.

Shared  servers of which there can be only one (`Server.SHARED`), and those that run apart in any case, are started by
        the driver, as `--isolate` starts all; workers reach them by URL. Each worker starts the others itself.
Errors  ConfigError before anything starts; InfraError when a first worker or a server can't start.
"""

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from paddock import tracing
from paddock.collect.artifact_receiver import remove_incoming
from paddock.collect.artifact_sender import artifact_roots
from paddock.collect.jobs import MemberSetup, WorkerSetup
from paddock.collect.locations import ServerLocations
from paddock.collect.oracle import OraclePrompter
from paddock.collect.plan import Plan
from paddock.collect.worker_nodes import OpenPlaces, WorkerNodes, connect_nodes
from paddock.collect.worker_process import LinkedPlace
from paddock.collect.workers import Crew, addresses, open_local_worker, served_config
from paddock.config.interpolation import variables_read
from paddock.server.lifecycle import longest_start_s, longest_stop_s
from paddock.server.runtime import Runtime, describe_servers, open_runtime, shared_names
from paddock.server.settings import serve_settings

MEMBERS = "paddock.collect.member_work:open_members"


def check_servers(plan: Plan, locations: ServerLocations) -> None:
    """ConfigError for what is wrong with the servers, as far as that shows before one is started or called."""
    if plan.identity.oracle:
        OraclePrompter(plan)
    if locations.start:
        agents = list(plan.router.agents)
        describe_servers(served_config(plan), agents, token=locations.token, elsewhere=locations.urls)
    else:
        addresses(plan, locations)


@asynccontextmanager
async def open_crew(plan: Plan, locations: ServerLocations) -> AsyncIterator[Crew]:
    """The workers, ready; they end with the block, and so does all that they started."""
    settings = plan.settings
    if plan.max_workers == 1 and settings.cluster is None:
        async with open_local_worker(plan, locations, plan.slots[0]) as opened:
            yield Crew([opened.worker], opened.runtime)
        return
    async with open_spread(plan, locations) as spread:
        yield Crew(spread.opened.places, spread.runtime, spread.opened.later)


class SpreadWorkers(NamedTuple):
    """Workers in processes of their own."""

    opened: OpenPlaces
    runtime: Runtime | None
    """The servers that all share, which were started by this process; None: there are none."""


@asynccontextmanager
async def open_spread(plan: Plan, locations: ServerLocations, *, opens: str = MEMBERS) -> AsyncIterator[SpreadWorkers]:
    """The workers; they end with the block. `opens`: what each does (`WorkerSetup.opens`), given a `MemberSetup`."""
    check_servers(plan, locations)
    async with AsyncExitStack() as stack:
        nodes = stack.enter_context(connect_nodes(plan.settings))
        runtime = await _open_shared(plan, locations, stack, nodes.host)
        maker = _PlaceMaker(plan, _locations_for_workers(plan, locations, runtime), nodes, opens)
        await asyncio.to_thread(remove_incoming, maker.artifact_roots, plan.identity.run_id)
        yield SpreadWorkers(await stack.enter_async_context(nodes.open_places(maker.place, plan.max_workers)), runtime)


class _PlaceMaker:
    """Makes the places of a collection's workers."""

    def __init__(self, plan: Plan, locations: ServerLocations, nodes: WorkerNodes, opens: str) -> None:
        config = served_config(plan)
        is_here = nodes.host is None
        self.artifact_roots = {} if is_here else artifact_roots(plan)
        """Where files of attempts are written that workers of other machines send."""
        self._slots = plan.slots if is_here else None
        self._start_timeout_s = longest_start_s(config, serve_settings(config), list(plan.router.agents))
        env = {} if is_here else {**variables_read(plan.config.to_yaml()), **tracing.variables()}
        self._setup = _setup(plan, locations, opens, env)
        self._open_link = nodes.open_link

    def place(self, nth: int) -> LinkedPlace:
        """The place of that number. On a cluster each may have all in flight, while it is the only one."""
        setup = self._setup if self._slots is None else self._setup.model_copy(update={"slots": self._slots[nth]})
        return LinkedPlace(
            f"worker-{nth}",
            setup,
            self._open_link,
            start_timeout_s=self._start_timeout_s,
            artifact_roots=self.artifact_roots,
        )


async def _open_shared(
    plan: Plan, locations: ServerLocations, stack: AsyncExitStack, host: str | None
) -> Runtime | None:
    """`host`: the address at which workers of other machines reach them; None: there are none."""
    config, agents = served_config(plan), list(plan.router.agents)
    wanted = agents if locations.isolate else shared_names(config, agents)
    names = [name for name in wanted if name not in locations.urls]
    if not locations.start or not names:
        return None
    token = locations.token or (secrets.token_urlsafe() if host is not None else None)
    return await stack.enter_async_context(
        open_runtime(config, names=names, isolate=True, host=host, token=token, elsewhere=locations.urls)
    )


def _locations_for_workers(plan: Plan, locations: ServerLocations, runtime: Runtime | None) -> ServerLocations:
    if not locations.start:
        return locations._replace(urls=addresses(plan, locations))
    if runtime is None:
        return locations
    started = {name: server.url for name, server in runtime.servers.items() if server.url is not None}
    urls = {**locations.urls, **started}
    starts = any(name not in urls for name in served_config(plan).needed(plan.router.agents))
    return ServerLocations(start=starts, urls=urls, token=runtime.token)


def _setup(plan: Plan, locations: ServerLocations, opens: str, env: dict[str, str]) -> WorkerSetup:
    config = served_config(plan)
    given = MemberSetup(
        config=plan.config.to_yaml(),
        settings=plan.settings,
        identity=plan.identity,
        starts=locations.start,
        urls=dict(locations.urls),
        token=locations.token,
        sends_artifacts=plan.settings.cluster is not None,
    )
    return WorkerSetup(
        opens=opens,
        given=given.model_dump(mode="json"),
        slots=plan.settings.concurrency,
        env=env,
        path=sys.path,
        silence_s=plan.settings.worker_silence_s,
        stop_timeout_s=longest_stop_s(config, serve_settings(config), list(plan.router.agents)),
    )
