"""Whether this machine lets the servers of a config have as many rollouts in flight as were asked for.

Errors  ConfigError: what is lacking, how much of it is needed, and how to have more.
"""

from collections.abc import Iterable
from typing import Any

from paddock import limits
from paddock.config import Config, resolve_class
from paddock.errors import ConfigError
from paddock.server.base import Server

ISOLATED_OPEN_FILES = 3
"""Open files of one rollout in flight in its agent's process: its caller's connection and its own two."""


def require_capacity(
    config: Config, names: Iterable[str], *, concurrency: int, isolate: bool, workers: int = 1
) -> None:
    """`names` are the servers that are started, with those that they need; `workers`: processes that have them."""
    needed = [config.instance(name) for name in config.needed(names)]
    classes: list[type[Server[Any]]] = [resolve_class(instance.implementation, instance.kind) for instance in needed]
    files = max((cls.OPEN_FILES for cls in classes), default=1)
    processes = max((cls.PROCESSES for cls in classes), default=0)
    problem = limits.lack_of_open_files(concurrency, max(files, ISOLATED_OPEN_FILES if isolate else 1), workers)
    if problem is None and (processes or workers > 1):
        problem = limits.lack_of_processes(concurrency, processes, workers)
    if problem is not None:
        raise ConfigError(problem, kind="limits")
