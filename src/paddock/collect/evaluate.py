"""From a config to a finished collection: start or connect to servers, run rollouts, stop at a signal.

Law     the folder is opened, and so refused, before a server is started. SIGINT, SIGTERM and SIGHUP cancel what is in
        flight, once; the folder can then be resumed. A second one ends the process at once.
Errors  ConfigError before anything starts; InfraError when the folder or the servers can't go on.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from paddock.collect.oracle import OraclePrompter, oracle_config
from paddock.collect.plan import Plan
from paddock.collect.progress import ProgressView, show_progress
from paddock.collect.run import CollectionResult, Run, open_run
from paddock.config import Config
from paddock.config.problems import nearest
from paddock.errors import ConfigError
from paddock.http import HttpPeer, Peer, token_for
from paddock.http.transport import make_client
from paddock.limits import lack_of_disk
from paddock.server.capacity import require_capacity
from paddock.server.runtime import Runtime, describe_servers, open_runtime
from paddock.signals import cancel_on_signal


class ServerLocations(NamedTuple):
    """Where the servers of a collection are."""

    start: bool = True
    """True: start them here; False: they run already."""
    isolate: bool = False
    """Start each in a process of its own."""
    urls: Mapping[str, str] = {}
    """URLs of running servers, by instance name; the others are where the config's host and port say."""
    token: str | None = None
    """The token that servers ask for; None: see `paddock.http.access`."""


class _Servers(NamedTuple):
    peers: Mapping[str, Peer]
    runtime: Runtime | None
    """None: the servers are somebody else's."""


def check_servers(plan: Plan, locations: ServerLocations) -> None:
    """ConfigError for what is wrong with the servers, as far as that shows before one is started or called."""
    if plan.identity.oracle:
        OraclePrompter(plan)
    if locations.start:
        config = oracle_config(plan) if plan.identity.oracle else plan.config
        describe_servers(config, list(plan.router.agents), token=locations.token)
    else:
        addresses(plan, locations)


async def evaluate(
    plan: Plan, folder: Path, *, resume: bool = False, servers: ServerLocations | None = None, quiet: bool = False
) -> CollectionResult:
    """Run the plan into the folder. Cancelling it, by a signal too, leaves a folder that can be resumed."""
    locations = servers or ServerLocations()
    _require_room(plan, folder, locations)
    with open_run(plan, folder, resume=resume) as run, cancel_on_signal():
        config = oracle_config(run.plan) if plan.identity.oracle else plan.config
        prompter = OraclePrompter(run.plan) if plan.identity.oracle else None
        async with _servers(config, run, locations) as running:
            if prompter is not None:
                prompter.peers = running.peers
            failed = running.runtime.failed if running.runtime is not None else None
            view = ProgressView(run.board, plan.n_rollouts, run.in_flight)
            watcher = show_progress(view, every_s=plan.settings.progress_every_s, quiet=quiet)
            collected = await run.collect(running.peers, setup=prompter, failed=failed, watcher=watcher)
            failure = running.runtime.failure if running.runtime is not None else None
            return collected._replace(why=str(failure)) if failure else collected


def _require_room(plan: Plan, folder: Path, locations: ServerLocations) -> None:
    """ConfigError where this machine has too little disk, memory or cores for the run."""
    if (shortage := lack_of_disk(folder, plan.settings.min_free_disk_mib)) is not None:
        raise ConfigError(f"{shortage} (eval.min_free_disk_mib)", kind="disk_full")
    concurrency = max(1, min(plan.settings.concurrency, plan.n_rollouts))
    names = list(plan.router.agents) if locations.start else []
    config = oracle_config(plan) if plan.identity.oracle else plan.config
    require_capacity(config, names, concurrency=concurrency, isolate=locations.isolate or not locations.start)


@asynccontextmanager
async def _servers(config: Config, run: Run, locations: ServerLocations) -> AsyncIterator[_Servers]:
    async with AsyncExitStack() as stack:
        if locations.start:
            names = list(run.plan.router.agents)
            runtime = await stack.enter_async_context(
                open_runtime(config, names=names, isolate=locations.isolate, token=locations.token)
            )
            yield _Servers(runtime.peers, runtime)
            return
        client = make_client(max_connections=2 * run.plan.settings.concurrency + 16)
        stack.push_async_callback(client.aclose)
        peers = {
            name: HttpPeer(name, client, url, token=token_for(url, locations.token))
            for name, url in addresses(run.plan, locations).items()
        }
        yield _Servers(peers, None)


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
