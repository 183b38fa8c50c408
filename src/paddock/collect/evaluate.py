"""From a config to a finished collection: start or connect to servers, run rollouts, stop at a signal.

Law     the folder is opened, and so refused, before models' endpoints are tried, and these before a server is started.
        SIGINT, SIGTERM and SIGHUP cancel what is in flight, once; the folder can then be resumed. A second one ends the
        process at once.
Errors  ConfigError before anything starts; InfraError when the folder or the servers can't go on.
"""

import logging
from pathlib import Path

from paddock.collect.crew import open_crew
from paddock.collect.endpoint_trials import try_endpoints
from paddock.collect.locations import ServerLocations
from paddock.collect.plan import Plan
from paddock.collect.progress import ProgressView, show_progress
from paddock.collect.run import CollectionResult, open_run
from paddock.collect.workers import served_config
from paddock.errors import ConfigError
from paddock.limits import lack_of_disk
from paddock.server.capacity import require_capacity
from paddock.signals import cancel_on_signal

_log = logging.getLogger("paddock.collect")


async def evaluate(
    plan: Plan, folder: Path, *, resume: bool = False, servers: ServerLocations | None = None, quiet: bool = False
) -> CollectionResult:
    """Run the plan into the folder. Cancelling it, by a signal too, leaves a folder that can be resumed."""
    locations = servers or ServerLocations()
    _require_room(plan, folder, locations)
    with open_run(plan, folder, resume=resume) as run, cancel_on_signal():
        if run.board.outcomes.total() < plan.n_rollouts:
            for warning in await try_endpoints(run.plan, locations):
                _log.warning("%s", warning)
        async with open_crew(run.plan, locations) as crew:
            view = ProgressView(run.board, plan.n_rollouts, crew.reports)
            watcher = show_progress(view, every_s=plan.settings.progress_every_s, quiet=quiet)
            return await run.collect(crew, watcher=watcher)


def _require_room(plan: Plan, folder: Path, locations: ServerLocations) -> None:
    """ConfigError where this machine has too little disk, memory or cores for the run."""
    if (shortage := lack_of_disk(folder, plan.settings.min_free_disk_mib)) is not None:
        raise ConfigError(f"{shortage} (eval.min_free_disk_mib)", kind="disk_full")
    concurrency = max(1, min(plan.settings.concurrency, plan.n_rollouts))
    names = list(plan.router.agents) if locations.start else []
    isolate = locations.isolate or not locations.start
    if plan.settings.cluster is None:
        require_capacity(served_config(plan), names, concurrency=concurrency, isolate=isolate, workers=plan.max_workers)
