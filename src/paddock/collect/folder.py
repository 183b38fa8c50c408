"""A run's folder: its files, its lock, and writing small files whole.

    run.json          which run this is; written first          config.yaml     its config, secrets blanked
    rollouts.jsonl    every rollout with a verdict, durable     failures.jsonl  every failed attempt, durable
    results.jsonl     one line per finished row                 summary.json    a list of runs, one per agent
    index.jsonl       derived: where each rollout stands        run.lock        held while a collector runs
    damaged.jsonl     lines that a repair set aside

Lines   of rollouts, failures and index end in their format and a digest (`lines`).

Errors  ConfigError when another collector holds the lock, or when the folder can't be made or written.
"""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from paddock.errors import ConfigError
from paddock.whole_file import write_whole

ROLLOUTS = "rollouts.jsonl"
FAILURES = "failures.jsonl"
RESULTS = "results.jsonl"
INDEX = "index.jsonl"
RUN = "run.json"
CONFIG = "config.yaml"
SUMMARY = "summary.json"
LOCK = "run.lock"
DAMAGED = "damaged.jsonl"
JOURNALS = (ROLLOUTS, FAILURES, RESULTS, INDEX)
DURABLE = frozenset({ROLLOUTS, FAILURES})


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make the folder and hold its lock while the block runs; the kernel releases it however this process ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ConfigError(f"{folder}: can't be used: {error.strerror or error}", kind="folder_unusable") from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(fd, 200, 0).decode(errors="replace").strip() or "another process"
            raise ConfigError(f"{folder}: {holder} is collecting into it", kind="folder_locked") from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


def has_run(folder: Path) -> bool:
    """True when the folder holds anything of a run."""
    return any((folder / name).exists() for name in (RUN, *JOURNALS, SUMMARY))


def write_json(path: Path, value: Any) -> None:
    write_whole(path, orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")
