"""Puts an archive (`layers.archives`) into a sandbox, at the paths that it was taken from.

Order   folders and links by one shell of the sandbox, then files by the keeper, with their modes. What the image has at
        a path is replaced, except for a folder by a folder, which stays, with what is in it. What the archive has below
        one of its own links is not written: it would go wherever that leads.
Errors  SandboxError `restore_failed` where a path can't be made.
"""

import io
import shlex
import tarfile
import uuid
from pathlib import PurePosixPath
from typing import NamedTuple

from paddock.sandbox.failures import SandboxError
from paddock.sandbox.protocol import Provider
from paddock.sandbox.records import ExecRequest

TIMEOUT_S = 300.0


class ArchivedFile(NamedTuple):
    """A regular file of an archive."""

    path: str
    """Absolute."""
    data: bytes
    mode: int


def archived_files(data: bytes) -> list[ArchivedFile]:
    """Read the regular files of an archive."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        return [_file(archive, info) for info in archive if info.isfile()]


async def restore(provider: Provider, sandbox_id: str, data: bytes) -> None:
    """Write what the archive holds; b"": nothing."""
    if not data:
        return
    lines, files = ["set -e"], list[ArchivedFile]()
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        members = archive.getmembers()
        links = {info.name for info in members if info.issym()}
        for info in members:
            if any(str(above) in links for above in PurePosixPath(info.name).parents):
                continue
            path = shlex.quote(f"/{info.name}")
            if info.isdir():
                lines.append(f"if [ -L {path} ] || [ ! -d {path} ]; then rm -rf -- {path}; fi")
                lines.append(f"mkdir -p -m {info.mode:o} -- {path}")
            elif info.issym():
                parent = shlex.quote(f"/{info.name}".rpartition("/")[0] or "/")
                lines.append(f"[ -d {parent} ] || mkdir -p -- {parent}")
                lines.append(f"if [ -L {path} ] || [ -e {path} ]; then rm -rf -- {path}; fi")
                lines.append(f"ln -s -- {shlex.quote(info.linkname)} {path}")
            else:
                files.append(_file(archive, info))
                lines.append(f"if [ -L {path} ] || [ -d {path} ]; then rm -rf -- {path}; fi")
    script = "\n".join(lines).encode("utf-8", "surrogateescape")
    request = ExecRequest(argv=["/bin/sh", "-s"], workdir="/", stdin=script, timeout_s=TIMEOUT_S)
    done = await provider.exec(sandbox_id, request, request_id=uuid.uuid4().hex)
    if not done.ok:
        text = (bytes(done.stderr) or bytes(done.stdout)).decode(errors="replace").strip()[-500:]
        raise SandboxError(f"artifacts: exit status {done.exit_code}: {text}", kind="restore_failed")
    for file in files:
        try:
            await provider.write(sandbox_id, file.path, file.data, mode=file.mode)
        except OSError as error:
            raise SandboxError(f"artifacts: {file.path}: {error}", kind="restore_failed") from error


def _file(archive: tarfile.TarFile, info: tarfile.TarInfo) -> ArchivedFile:
    content = archive.extractfile(info)
    assert content is not None  # it is a regular file
    return ArchivedFile(f"/{info.name}", content.read(), info.mode)
