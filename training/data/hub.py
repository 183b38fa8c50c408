"""Downloads published files by the hub's own client: one commit of one repository, each file as the hub lists it.

Law     the revision is resolved once and its commit written down (`RECORD`) before a byte is fetched: the same command
        again goes on with that commit, wherever the branch is by then. Broken transfers go on where they broke. A
        file counts when its bytes have the size and the hash that the hub lists.
Source  https://huggingface.co/docs/huggingface_hub; `HF_ENDPOINT` is the address of the hub, `HF_TOKEN` the
        only source of a token: none comes from a file or a command line.
Errors  ConfigError for a repository, revision or file that is missing or refused; InfraError for what may pass.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from paddock.collect.new_file import new_file
from paddock.errors import ConfigError, InfraError, boundary
from paddock.types import JsonObject

RECORD = "paddock_download.json"
_CHUNK = 1 << 20


class RemoteFile(NamedTuple):
    """A file as the hub lists it."""

    name: str
    n_bytes: int | None
    digest: str | None
    """SHA-256 of a large file, else git's own hash of it; None: the hub does not say."""


class DownloadedFile(NamedTuple):
    """A downloaded file."""

    path: Path
    n_bytes: int
    sha256: str
    proven: bool
    """Whether the hub lists a hash, and the file has it."""


class Commit(NamedTuple):
    """Files of one commit that are to be downloaded."""

    repo: str
    revision: str
    """The revision that was asked for."""
    sha: str
    files: list[RemoteFile]


class Hub:
    """A client of the hub, configured by variables of the environment."""

    def __init__(self, *, endpoint: str | None = None, token: str | None = None) -> None:
        try:
            from huggingface_hub import HfApi
        except ImportError as error:
            raise ConfigError(
                "downloading needs huggingface_hub: install paddock[data]", kind="package_missing"
            ) from error
        # False: a token that somebody saved on this machine is not used.
        self._api = HfApi(
            endpoint=endpoint or os.environ.get("HF_ENDPOINT") or None,
            token=token or os.environ.get("HF_TOKEN") or False,
        )

    def resolve(self, repo: str, revision: str, patterns: Sequence[str]) -> Commit:
        """The commit of a revision, with its files that match the patterns."""
        from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

        try:
            with boundary(InfraError, f"{repo} on {self._api.endpoint}"):
                try:
                    info = self._api.dataset_info(repo, revision=revision, files_metadata=True)
                except GatedRepoError as error:
                    raise _refused(repo, "is gated: ask for access on its page and set HF_TOKEN", error) from error
                except RevisionNotFoundError as error:
                    raise _refused(repo, f"has no revision {revision!r}", error) from error
                except RepositoryNotFoundError as error:
                    raise _refused(
                        repo, "is no data set there, or is private and HF_TOKEN is not set", error
                    ) from error
        except InfraError as error:
            raise InfraError(f"{error.message}. The same command goes on", kind="hub_unreachable") from error
        remote_files = [_remote(sibling) for sibling in info.siblings or []]
        chosen = [remote for remote in remote_files if any(fnmatch(remote.name, pattern) for pattern in patterns)]
        unmatched = [
            pattern for pattern in patterns if not any(fnmatch(remote.name, pattern) for remote in remote_files)
        ]
        if unmatched:
            have = ", ".join(remote.name for remote in remote_files[:40]) or "none"
            raise ConfigError(
                f"{repo}@{info.sha}: no file is {', '.join(unmatched)}; there are: {have}", kind="file_missing"
            )
        return Commit(repo, revision, str(info.sha), chosen)

    def fetch(self, commit: Commit, remote: RemoteFile, folder: Path) -> DownloadedFile:
        """Download one file to its name below `folder`. InfraError where its bytes are not those that the hub lists."""
        for force in (False, True):
            with boundary(InfraError, f"{commit.repo}: {remote.name}"):
                path = self._api.hf_hub_download(
                    commit.repo,
                    remote.name,
                    repo_type="dataset",
                    revision=commit.sha,
                    local_dir=folder,
                    force_download=force,
                )
            file = _verify(Path(path), remote)
            if file is not None:
                return file
        Path(path).unlink(missing_ok=True)
        raise InfraError(
            f"{commit.repo}: {remote.name}: twice came other bytes than the hub lists "
            f"({remote.n_bytes} bytes, {remote.digest})",
            kind="hub_bytes",
        )


def download(
    hub: Hub,
    repo: str,
    patterns: Sequence[str],
    folder: Path,
    *,
    revision: str | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Iterator[DownloadedFile]:
    """Download files of a repository; `revision` None: the commit of the folder's record, else `main`. `report` gets
    lines for the user."""
    record = read_record(folder)
    if record is not None and record["repo"] != repo:
        raise ConfigError(f"{folder}: holds files of {record['repo']}; name another --out for {repo}", kind="out_taken")
    pinned = record["commit"] if record is not None and revision in (None, record["revision"]) else None
    commit = hub.resolve(repo, pinned or revision or "main", patterns)
    requested = record["revision"] if record is not None and pinned is not None else revision or "main"
    report(f"{repo} at {commit.sha}" + (", as before" if pinned else f" ({requested})"))
    files: JsonObject = record["files"] if record is not None and pinned is not None else {}
    _write_record(folder, repo, requested, commit.sha, files)
    for remote in commit.files:
        file = hub.fetch(commit, remote, folder)
        files[remote.name] = {"bytes": file.n_bytes, "sha256": file.sha256}
        _write_record(folder, repo, requested, commit.sha, files)
        yield file


def read_record(folder: Path) -> JsonObject | None:
    """The record of a folder's files; None: nothing was downloaded into it."""
    path = folder / RECORD
    try:
        record = json.loads(path.read_bytes())
        return {key: record[key] for key in ("repo", "revision", "commit", "files")}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: no record of a download: {error!r}", kind="record_broken") from error


def _write_record(folder: Path, repo: str, revision: str, commit: str, files: JsonObject) -> None:
    record = {"repo": repo, "revision": revision, "commit": commit, "files": files}
    with new_file(folder / RECORD) as file:
        file.write(json.dumps(record, indent=1).encode() + b"\n")


def _refused(repo: str, problem: str, error: Exception) -> ConfigError:
    return ConfigError(f"{repo}: {problem} ({str(error).splitlines()[0]})", kind="hub_refused")


def _remote(sibling: Any) -> RemoteFile:
    large = sibling.lfs
    return RemoteFile(sibling.rfilename, sibling.size, large.sha256 if large is not None else sibling.blob_id)


def _verify(path: Path, remote: RemoteFile) -> DownloadedFile | None:
    """The file at `path`; None: it is not the one that the hub lists."""
    n_bytes = path.stat().st_size
    if remote.n_bytes not in (None, n_bytes):
        return None
    sha256, blob = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % n_bytes, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            sha256.update(chunk)
            blob.update(chunk)
    if remote.digest not in (None, sha256.hexdigest(), blob.hexdigest()):
        return None
    return DownloadedFile(path, n_bytes, sha256.hexdigest(), proven=remote.digest is not None)
