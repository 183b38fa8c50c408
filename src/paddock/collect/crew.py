"""From a config to the workers of a collection: in this process, in processes of their own, or on a cluster's nodes.

Shared  servers of which there can be only one (`Server.SHARED`), and those that run apart in any case, are started by
        the driver, as `--isolate` starts all; workers reach them by URL. Each worker starts the others itself.
Errors  ConfigError before anything starts; InfraError when a first worker or a server can't start.
"""

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from paddock.collect.artifact_receiver import remove_incoming
from paddock.collect.artifact_sender import artifact_roots
from paddock.collect.cluster_places import ClusterPlaces, patient
from paddock.collect.jobs import MemberSetup, WorkerSetup
from paddock.collect.locations import ServerLocations
from paddock.collect.oracle import OraclePrompter
from paddock.collect.plan import Plan
from paddock.collect.ray_worker import connect, count_places
from paddock.collect.worker_process import LinkedPlace, OpenLink, ProcessLink, close_all, start_all
from paddock.collect.workers import Crew, addresses, open_local_worker, served_config
from paddock.config.interpolation import variables_read
from paddock.server.lifecycle import longest_start_s, longest_stop_s
from paddock.server.runtime import Runtime, describe_servers, open_runtime, shared_names
from paddock.server.settings import serve_settings


def check_servers(plan: Plan, locations: ServerLocations) -> None:
    """ConfigError for what is wrong with the servers, as far as that shows before one is started or called."""
    if plan.identity.oracle:
        OraclePrompter(plan)
    if locations.start:
        describe_servers(served_config(plan), list(plan.router.agents), token=locations.token)
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
    check_servers(plan, locations)
    async with AsyncExitStack() as stack:
        if settings.cluster is None:
            runtime = await _open_shared(plan, locations, stack, None)
            maker = _PlaceMaker(plan, _locations_for_workers(plan, locations, runtime), ProcessLink.open)
            places = [maker.place(nth, slots) for nth, slots in enumerate(plan.slots)]
            stack.push_async_callback(close_all, places)
            await start_all(places)
            yield Crew(places, runtime)
            return
        roots = artifact_roots(plan)
        await asyncio.to_thread(remove_incoming, roots, plan.identity.run_id)
        label, wait_s = settings.cluster_label, settings.cluster_wait_s
        host, open_link = stack.enter_context(connect(settings.cluster, label=label, place_wait_s=wait_s))
        runtime = await _open_shared(plan, locations, stack, host)
        theirs = _locations_for_workers(plan, locations, runtime)
        maker = _PlaceMaker(plan, theirs, patient(open_link), roots, variables_read(plan.config.to_yaml()))
        cluster_places = ClusterPlaces(
            lambda nth: maker.place(nth, settings.concurrency),
            partial(count_places, label),
            most=plan.max_workers,
            look_s=settings.cluster_look_s,
            wait_s=wait_s,
        )
        stack.push_async_callback(close_all, cluster_places.places)
        await cluster_places.first()
        yield Crew(cluster_places.places, runtime, cluster_places.later())


class _PlaceMaker:
    """Makes the places of a collection's workers."""

    def __init__(
        self,
        plan: Plan,
        locations: ServerLocations,
        open_link: OpenLink,
        artifact_roots: Mapping[str, Path] = {},
        env: Mapping[str, str] = {},
    ) -> None:
        config = served_config(plan)
        self._start_timeout_s = longest_start_s(config, serve_settings(config), list(plan.router.agents))
        self._setup = _setup(plan, locations, 1, dict(env))
        self._open_link = open_link
        self._artifact_roots = artifact_roots

    def place(self, nth: int, slots: int) -> LinkedPlace:
        return LinkedPlace(
            f"worker-{nth}",
            self._setup.model_copy(update={"slots": slots}),
            self._open_link,
            start_timeout_s=self._start_timeout_s,
            artifact_roots=self._artifact_roots,
        )


async def _open_shared(
    plan: Plan, locations: ServerLocations, stack: AsyncExitStack, host: str | None
) -> Runtime | None:
    """`host`: the address at which workers of other machines reach them; None: there are none."""
    config, agents = served_config(plan), list(plan.router.agents)
    names = agents if locations.isolate else shared_names(config, agents)
    if not locations.start or not names:
        return None
    token = locations.token or (secrets.token_urlsafe() if host is not None else None)
    return await stack.enter_async_context(open_runtime(config, names=names, isolate=True, host=host, token=token))


def _locations_for_workers(plan: Plan, locations: ServerLocations, runtime: Runtime | None) -> ServerLocations:
    if not locations.start:
        return locations._replace(urls=addresses(plan, locations))
    if runtime is None:
        return locations
    urls = {name: server.url for name, server in runtime.servers.items() if server.url is not None}
    starts = any(name not in urls for name in served_config(plan).needed(plan.router.agents))
    return ServerLocations(start=starts, urls=urls, token=runtime.token)


def _setup(plan: Plan, locations: ServerLocations, slots: int, env: dict[str, str]) -> WorkerSetup:
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
        opens="paddock.collect.member_work:open_members",
        given=given.model_dump(mode="json"),
        slots=slots,
        env=env,
        path=sys.path,
        silence_s=plan.settings.worker_silence_s,
        stop_timeout_s=longest_stop_s(config, serve_settings(config), list(plan.router.agents)),
    )
