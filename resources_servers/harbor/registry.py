"""A registry of Harbor or Terminal-Bench: a JSON list of datasets, and the folders of their tasks.

Source  harbor 0.25.0, `models/registry.py`: `[{name, version, description, tasks: [{name, git_url, git_commit_id,
        path}]}]`; a task without `git_url` lies below the registry's own folder.
Git     each commit is checked out once, without hooks or filters of its repository, below the folder for checkouts.
Errors  ConfigError for a file that is no registry, and a dataset that it does not have; InfraError for a source that
        can't be fetched.
"""

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from paddock.config.problems import suggestion
from paddock.errors import ConfigError, InfraError, describe

FETCH_TIMEOUT_S = 900


class RegistryTask(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str | None = None
    path: Path
    git_url: str | None = None
    git_commit_id: str | None = None


class RegistryDataset(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    version: str | None = None
    tasks: list[RegistryTask]


def registry_folders(file: Path, dataset: str | None, checkouts: Path) -> Iterator[Path]:
    """Yield the tasks' folders of a registry, or of one dataset of it (`NAME` or `NAME@VERSION`)."""
    try:
        datasets = TypeAdapter(list[RegistryDataset]).validate_json(file.read_bytes())
    except ValidationError as error:
        raise ConfigError(f"{file}: no registry: {describe(error)}", kind="registry_invalid") from error
    names = {name: entry for entry in datasets for name in (entry.name, f"{entry.name}@{entry.version}")}
    if dataset is not None and dataset not in names:
        raise ConfigError(f"{file}: no dataset {dataset!r}{suggestion(dataset, names)}", kind="no_dataset")
    for entry in datasets if dataset is None else [names[dataset]]:
        for task in entry.tasks:
            root = file.parent if task.git_url is None else checkout(task.git_url, task.git_commit_id, checkouts)
            yield root / task.path


def checkout(url: str, commit: str | None, checkouts: Path) -> Path:
    """Return the folder of a commit's files (None: of the default branch), fetched once."""
    if url.startswith("-") or (commit or "").startswith("-"):
        raise ConfigError(f"{url} {commit}: no git source", kind="registry_invalid")
    folder = checkouts / f"{Path(url).stem}-{hashlib.sha256(f'{url} {commit}'.encode()).hexdigest()[:12]}"
    if (folder / ".git" / "HEAD").is_file() and (folder / ".git" / "paddock-whole").is_file():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    _git(folder, "init", "-q")
    _git(folder, "fetch", "-q", "--depth", "1", url, commit or "HEAD")
    _git(folder, "checkout", "-q", "--force", "FETCH_HEAD")
    (folder / ".git" / "paddock-whole").touch()
    return folder


def _git(folder: Path, *words: str) -> None:
    options = ("-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never")
    env = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"}
    try:
        done = subprocess.run(
            ["git", *options, *words], cwd=folder, env=env, capture_output=True, timeout=FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise InfraError(f"git {words[0]} in {folder}: more than {FETCH_TIMEOUT_S} s", kind="git_failed") from error
    if done.returncode:
        text = done.stderr.decode(errors="replace").strip()[-500:]
        raise InfraError(f"git {' '.join(words)}: {text}", kind="git_failed")
