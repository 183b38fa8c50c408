"""What agents of a worker on another machine write beside their rollouts (`artifacts_dir`), on its way to the driver.

Folder  `<artifacts_dir>/<run>/<group>-<member>-<attempt>[-NAME]`: an agent that writes there has its files sent.
Law     a worker's agents write into a folder of its own, never where the driver's would be: both may be one disk. The
        files of an attempt are sent before its event, and then removed here. `eval.max_artifacts_mib` bounds those of
        one attempt; what would pass it, or can't be read, is named in `NOT_SENT` in its place.
"""

import asyncio
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from paddock.collect.jobs import SendMessage, WorkerMessage
from paddock.collect.plan import Plan
from paddock.collect.results import FailedAttempt, RolloutResult
from paddock.config import Config
from paddock.config.yaml_text import dump, parse
from paddock.temporary import hold_scratch

KEY = "artifacts_dir"
NOT_SENT = "not_sent.txt"
CHUNK_BYTES = 64 << 10
"""Ray passes objects of this size from process to process, without a place in its store."""


class _File(NamedTuple):
    path: Path
    name: str
    """Below the root of its agent."""
    size_bytes: int


class ArtifactSender:
    """Sends the files of attempts. `roots`: of the agents whose files are sent."""

    def __init__(self, roots: Mapping[str, Path] = {}, max_bytes: int = 0) -> None:
        self._roots = roots
        self._max_bytes = max_bytes

    async def send(self, number: int, ended: RolloutResult | FailedAttempt, send: SendMessage) -> None:
        """Send the files of the attempt that ended so. `number`: its job's."""
        root = self._roots.get(ended.agent)
        if root is None:
            return
        for folder in await asyncio.to_thread(_folders, root, ended):
            sending = _Sending(number, ended.agent, send)
            await sending.folder(folder, root, self._max_bytes)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


class _Sending:
    """The files of one attempt on their way."""

    def __init__(self, number: int, agent: str, send: SendMessage) -> None:
        self._number = number
        self._agent = agent
        self._send = send

    async def folder(self, folder: Path, root: Path, max_bytes: int) -> None:
        left, not_sent = max_bytes, []
        for file in await asyncio.to_thread(_files, folder, root):
            if file.size_bytes > left:
                not_sent.append(f"{file.path.relative_to(folder)}: {file.size_bytes} bytes pass eval.max_artifacts_mib")
                continue
            left -= file.size_bytes
            try:
                await self._file(file)
            except OSError as error:
                not_sent.append(f"{file.path.relative_to(folder)}: {error}")
        if not_sent:
            name = str((folder / NOT_SENT).relative_to(root))
            await self._chunk(name, "\n".join([*not_sent, ""]).encode(), last=True)

    async def _file(self, file: _File) -> None:
        with os.fdopen(os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as opened:
            chunk = b"-" * CHUNK_BYTES
            while len(chunk) == CHUNK_BYTES:
                chunk = await asyncio.to_thread(opened.read, CHUNK_BYTES)
                await self._chunk(file.name, chunk, last=len(chunk) < CHUNK_BYTES)

    async def _chunk(self, name: str, data: bytes, *, last: bool) -> None:
        head = {"job": self._number, "file": {"agent": self._agent, "name": name, "last": last}}
        await self._send(WorkerMessage(head, data))


def artifact_roots(plan: Plan) -> dict[str, Path]:
    """Where each agent that leaves files has them, by its name."""
    given = {name: plan.config.block(name).get(KEY) for name in plan.router.agents}
    return {name: Path(folder).absolute() for name, folder in given.items() if isinstance(folder, str)}


@contextmanager
def artifacts_apart(plan: Plan) -> Iterator[tuple[Plan, ArtifactSender]]:
    """The plan with a folder of this process in the place of each agent's, and what sends what is in them."""
    hold = hold_scratch()
    try:
        roots = {name: hold.folder / str(nth) for nth, name in enumerate(artifact_roots(plan))}
        config = _with_roots(plan, roots)
        yield plan._replace(config=config), ArtifactSender(roots, plan.settings.max_artifacts_mib << 20)
    finally:
        shutil.rmtree(hold.folder, ignore_errors=True)
        hold.release()


def _with_roots(plan: Plan, roots: Mapping[str, Path]) -> Config:
    tree = parse(plan.config.to_yaml(), "composed config").tree
    for name, root in roots.items():
        tree[name]["agents"][plan.config.instance(name).implementation][KEY] = str(root)
    return Config.from_yaml(dump(tree))


def _folders(root: Path, ended: RolloutResult | FailedAttempt) -> list[Path]:
    position = f"{ended.group_id}-{ended.member}-{ended.attempt}"
    return [path for path in root.glob(f"*/{position}*") if path.name == position or path.name[len(position)] == "-"]


def _files(folder: Path, root: Path) -> list[_File]:
    """Regular files alone, in order."""
    found = [(path, path.lstat()) for path in sorted(folder.rglob("*"))]
    return [
        _File(path, path.relative_to(root).as_posix(), status.st_size)
        for path, status in found
        if stat.S_ISREG(status.st_mode)
    ]
