"""Where the files of a server or an agent of NeMo-Gym's are, and the interpreter that runs it.

Source  NeMo-Gym's `cli/setup_command.py`: `nemo-gym` at its version, and what the server's `requirements.txt` or
        `pyproject.toml` names beside it; of the latter uv's own settings count, too: sources and what builds need.
Made    an environment is made by uv below `<home>/nemo_gym/environments`, once for the same requirements, under a lock;
        half of one is never used, and whoever waits for one gives up after `LOCK_TIMEOUT_S`.
Errors  ConfigError `nemo_gym`: there is no such server, no interpreter, or its requirements can't be installed.
"""

import asyncio
import fcntl
import hashlib
import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from paddock.config.nemo_gym import PYTHON_VARIABLE, package_folder
from paddock.errors import ConfigError, InfraError
from paddock.processes import run
from paddock.sandbox.settings import default_home
from paddock.server.nemo_gym.settings import GymFiles

VERSION = "0.4.0"
"""Of NeMo-Gym, where no interpreter is named that has one."""
OLDEST_PYTHON = "3.12"
POLL_S = 0.1
READY = "paddock-ready"
"""File of an environment that is whole."""
INSTALL_TIMEOUT_S = 800.0
LOCK_TIMEOUT_S = 2 * INSTALL_TIMEOUT_S
"""As long as another process may take to make an environment."""


class GymCommand(NamedTuple):
    """What runs a server."""

    python: Path
    folder: Path
    """Of the server's files, where it runs."""


async def find_command(config: GymFiles) -> GymCommand:
    """Find its files and its interpreter, which is made where it has to be."""
    base = config.interpreter or named_interpreter()
    if base is not None and not os.access(base, os.X_OK):
        raise _error(f"{base} is no interpreter: `interpreter` of the block, or {PYTHON_VARIABLE}, names it")
    if base is None:
        base = await _environment(VERSION, Requirements())
    folder = _folder_of(config, base)
    extra = requirements(folder)
    if config.interpreter is None and (extra.lines or extra.project):
        base = await _environment(_version(base), extra)
    return GymCommand(base, folder)


def named_interpreter() -> Path | None:
    named = os.environ.get(PYTHON_VARIABLE)
    return Path(named) if named else None


class Requirements(NamedTuple):
    """What a server requires beside NeMo-Gym's package."""

    lines: Sequence[str] = ()
    """Requirements, as pip writes them."""
    project: Path | None = None
    """A `pyproject.toml` that has them."""


def requirements(folder: Path) -> Requirements:
    """Those of the server in that folder; ConfigError where two files have them."""
    file, project = folder / "requirements.txt", folder / "pyproject.toml"
    if not file.is_file():
        return Requirements(project=project if project.is_file() else None)
    if project.is_file():
        raise _error(f"{folder} has a requirements.txt and a pyproject.toml, which NeMo-Gym refuses too: keep one")
    lines = [line.partition(" #")[0].strip() for line in file.read_text().splitlines()]
    return Requirements(sorted({line for line in lines if line and not line.startswith("#") and "../.." not in line}))


def _folder_of(config: GymFiles, python: Path) -> Path:
    package = package_folder(python)
    own = config.own_folder
    places = [config.folder] if config.folder else [Path.cwd() / own, *([package / own] if package else [])]
    for place in places:
        if (place / config.entrypoint).is_file():
            return place.resolve()
    listed = ", ".join(str(place / config.entrypoint) for place in places)
    raise _error(f"no {own} of NeMo-Gym's; looked for {listed} (the package is that of {python})")


def _version(python: Path) -> str:
    package = package_folder(python)
    found = [path.name for path in package.glob("nemo_gym-*.dist-info")] if package else []
    return found[0].removeprefix("nemo_gym-").removesuffix(".dist-info") if found else VERSION


async def _environment(version: str, extra: Requirements) -> Path:
    """The interpreter of an environment with that version of NeMo-Gym and `extra`."""
    wanted = [f"nemo-gym=={version}", *extra.lines]
    project = [extra.project.read_text()] if extra.project else []
    digest = hashlib.sha256("\n".join([OLDEST_PYTHON, *wanted, *project]).encode()).hexdigest()[:16]
    root = default_home() / "nemo_gym" / "environments"
    root.mkdir(parents=True, exist_ok=True)
    folder = root / digest
    python = folder / "bin" / "python"
    with (root / f"{digest}.lock").open("w") as lock:
        await _take(lock, wanted)
        if not (folder / READY).exists():
            shutil.rmtree(folder, ignore_errors=True)
            await _install(folder, python, wanted, extra.project)
            (folder / READY).touch()
    return python


async def _take(lock: IO[str], wanted: Sequence[str]) -> None:
    """Take the lock. Polls it: a thread that waits for one would keep this process from its end."""
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                text = f"another process has been at it for {LOCK_TIMEOUT_S:g} s, by the lock {lock.name}"
                raise _error(f"{', '.join(wanted)}: {text}") from None
            await asyncio.sleep(POLL_S)
        else:
            return


async def _install(folder: Path, python: Path, wanted: Sequence[str], project: Path | None) -> None:
    if importlib.util.find_spec("uv") is None:
        raise _error("making an environment needs uv: pip install 'paddock[recipes]'; or name one by `interpreter`")
    uv = [sys.executable, "-m", "uv"]
    named = named_interpreter()
    base = str(await asyncio.to_thread(named.resolve)) if named else OLDEST_PYTHON
    # The package of NeMo-Gym is that of the version, not the folder that the file says.
    of_project = ["-r", str(project), "--no-sources-package", "nemo-gym"] if project else []
    steps = [
        [*uv, "venv", "--quiet", "--python", base, str(folder)],
        [*uv, "pip", "install", "--quiet", "--python", str(python), *wanted, *of_project],
    ]
    names = ", ".join([*wanted, *([f"what {project} names"] if project else [])])
    for step in steps:
        try:
            # Where it runs, uv finds the settings of the project.
            done = await run(step, cwd=project.parent if project else None, timeout_s=INSTALL_TIMEOUT_S)
        except InfraError as error:
            raise _error(f"{names}: {error.message}") from error
        if done.code:
            raise _error(f"{names} can't be installed:\n{done.tail}")


def _error(text: str) -> ConfigError:
    return ConfigError(text, kind="nemo_gym")
