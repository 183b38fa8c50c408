"""Prefetching what a run needs, where its nodes have no network: environments, programs of harnesses, images.

Law     each job is one command, which a user could give; each can be repeated, and then does what is left to do. A job
        that fails stops no other.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from paddock.training.launch.settings import RunLaunchSettings
from paddock.training.launch.shell import LaunchStep

SETUP = Path("scripts") / "setup_vllm.sh"


class PrefetchNeeds(NamedTuple):
    """What a config needs."""

    programs: Sequence[str] = ()
    """Harnesses that run a program."""
    rows: Sequence[str] = ()
    """Files with rows that name images."""
    formatters: Sequence[str] = ()
    """Templates of the config for the paths of images."""
    engine_on_cpu: bool = False


class PrefetchJob(NamedTuple):
    """One command, and what it fetches."""

    why: str
    step: LaunchStep


def prefetch_jobs(settings: RunLaunchSettings, needs: PrefetchNeeds, package: Path) -> Iterator[PrefetchJob]:
    """The jobs in the order in which they run."""
    if settings.trainer == "paddock" and not settings.python and needs.engine_on_cpu and (package / SETUP).is_file():
        folder = Path(settings.persistent_cache or "~/.cache/paddock").expanduser().absolute() / "vllm"
        yield PrefetchJob("an environment with vLLM for a CPU", LaunchStep([str(package / SETUP), str(folder)]))
    paddock = [sys.executable, "-m", "paddock"]
    for name in needs.programs:
        yield PrefetchJob(f"the program of harness {name}", LaunchStep([*paddock, "harness", "install", name]))
    for rows in needs.rows:
        formatters = [word for formatter in needs.formatters for word in ("--formatter", formatter)]
        yield PrefetchJob(f"images of {rows}", LaunchStep([*paddock, "images", "pull", "--rows", rows, *formatters]))
