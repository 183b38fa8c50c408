"""Tasks folders: which form one has, and where a row's folder lies.

Where   below `tasks_dir` of the config, else below the working directory, else in the installed package. A row can't
        name a folder outside of them, and no part of a task that is read on this machine is a link out of its folder.
Errors  RowError `no_task`: no such folder, or one without a task; `task_changed`: it is not what the row was made from.
"""

import os
from pathlib import Path

import paddock
from paddock.errors import RowError
from paddock.resources_servers.harbor.task import PublishedTask, folder_digest, refused
from paddock.resources_servers.harbor.task_toml import read_task_toml
from paddock.resources_servers.harbor.task_yaml import read_task_yaml

READERS = {"task.toml": read_task_toml, "task.yaml": read_task_yaml}
"""By the file that tells the form; a folder with both is read by the first."""


def read_folder(folder: Path) -> PublishedTask:
    """Read a task of any form."""
    for name, read in READERS.items():
        if (folder / name).is_file():
            _refuse_links(folder)
            return read(folder)
    raise RowError(f"{folder}: no {' or '.join(READERS)} there", kind="no_task", stage="seed")


def _refuse_links(folder: Path) -> None:
    """Raise RowError where a part of the task that is read on this machine lies elsewhere on it."""
    root = folder.resolve()
    for path in [*sorted(folder.iterdir()), folder / "environment" / "Dockerfile", folder / "tests" / "Dockerfile"]:
        if not Path(os.path.realpath(path)).is_relative_to(root):
            raise refused(path, "a link that leads out of the task's folder")


def is_task(folder: Path) -> bool:
    return any((folder / name).is_file() for name in READERS)


def find_folder(name: str, tasks_dir: Path | None, sha256: str | None) -> Path:
    """Return the folder of a row's task."""
    roots = [tasks_dir] if tasks_dir else [Path.cwd(), *(Path(path) for path in paddock.__path__)]
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise RowError(f"task_folder: {name!r}: needs a path below the tasks' folder", kind="no_task", stage="seed")
    folder = next((root / name for root in roots if is_task(root / name)), None)
    if folder is None:
        raise RowError(
            f"task_folder: no task {name!r} in {', '.join(map(str, roots))}: set `tasks_dir`",
            kind="no_task",
            stage="seed",
        )
    if sha256 is not None and folder_digest(folder) != sha256:
        raise RowError(
            f"{folder} is not the task that the row was made from (task_sha256): make the rows again",
            kind="task_changed",
            stage="seed",
        )
    return folder
