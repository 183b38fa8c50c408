"""What a run needs on nodes other than its own: logs are sent from there, and the shared folder is looked at.

Logs    a role writes into a file of its node, in a folder that ends with the run; every `FETCH_S` what is new is
        appended to the run's own `logs/<role>.log`. Of a node that dies the last second may be missing.
Shared  a file that this process writes is read on each node, and the other way round.
Errors  ConfigError `not_shared`, naming the node.
"""

import asyncio
import secrets
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from paddock.errors import ConfigError
from paddock.training.grpo.placement import ClusterNode
from paddock.training.grpo.ray_folder import ray_folder

FETCH_S = 1.0
SHARED_S = 10.0
"""A network file system may show a new file late."""
CALL_S = 30.0
"""A node that is gone answers nothing."""


class _NodeHost:
    """A Ray actor on one node."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._folder = self._stack.enter_context(ray_folder(Path(tempfile.gettempdir())))

    def log_file(self, name: str) -> Path:
        return self._folder / name

    def read_logs(self, offsets: Mapping[str, int]) -> dict[str, bytes]:
        """What each log has from an offset on, by its name."""
        return {path.name: _read_from(path, offsets.get(path.name, 0)) for path in self._folder.glob("*.log")}

    def answer_file(self, folder: Path, name: str, answer: str) -> str | None:
        """Read the file of that name, and write `answer` beside it; why that can't be, else None."""
        try:
            (folder / name).read_text()
            (folder / answer).write_text(name)
        except OSError as error:
            return str(error.strerror)
        return None

    def close(self) -> None:
        self._stack.close()


class NodeHosts:
    """The hosts of a run, on the nodes that are not this process's."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._hosts: dict[str, Any] = {}
        self._offsets: dict[str, dict[str, int]] = {}
        self._follower: asyncio.Task[None] | None = None
        self._fetching = asyncio.Lock()

    async def start(self, nodes: Iterable[ClusterNode]) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        for node in nodes:
            where = NodeAffinitySchedulingStrategy(node.id, soft=False)
            self._hosts[node.id] = ray.remote(_NodeHost).options(num_cpus=0, scheduling_strategy=where).remote()
            self._offsets[node.id] = {}
        if self._hosts:
            self._follower = asyncio.create_task(self._follow())

    def get(self, node: ClusterNode) -> Any:
        """The host of a node; None: it is this process's own."""
        return self._hosts.get(node.id)

    async def check_shared(self, folder: Path, nodes: Iterable[ClusterNode]) -> None:
        """ConfigError for the first node that does not see the folder as this process does."""
        question = folder / f".shared-{secrets.token_hex(8)}"
        await asyncio.to_thread(_write_new, question)
        try:
            for node in nodes:
                await self._check_one(folder, question.name, node)
        finally:
            question.unlink(missing_ok=True)

    async def fetch_logs(self) -> None:
        """Append what is new to the logs of the run."""
        async with self._fetching:
            await asyncio.gather(*(self._fetch(node, host) for node, host in self._hosts.items()))

    async def end(self) -> None:
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.gather(self._follower, return_exceptions=True)
        await self.fetch_logs()
        for host in self._hosts.values():
            with suppress(Exception):
                async with asyncio.timeout(CALL_S):
                    await host.close.remote()
        self._hosts.clear()

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(FETCH_S)
            await self.fetch_logs()

    async def _fetch(self, node: str, host: Any) -> None:
        offsets = self._offsets[node]
        with suppress(Exception):  # a node that is gone is told by its roles
            async with asyncio.timeout(CALL_S):
                logs: dict[str, bytes] = await host.read_logs.remote(dict(offsets))
            for name, text in logs.items():
                with (self._logs / name).open("ab") as file:
                    file.write(text)
                offsets[name] = offsets.get(name, 0) + len(text)

    async def _check_one(self, folder: Path, question: str, node: ClusterNode) -> None:
        host, answer = self._hosts[node.id], folder / f"{question}-{node.id[:8]}"
        why: str | None = "no answer"
        with suppress(TimeoutError):
            async with asyncio.timeout(SHARED_S):
                while (why := await host.answer_file.remote(folder, question, answer.name)) or not answer.exists():
                    await asyncio.sleep(0.5)
        if not answer.exists():
            raise ConfigError(
                f"{folder}: {node} does not see it as this machine does ({why or 'what it writes is not here'}): "
                "checkpoints need a folder that is shared with every node of the policy: set "
                "checkpointing.checkpoint_dir to one",
                kind="not_shared",
            )
        answer.unlink()


def _write_new(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("")


def _read_from(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read()
