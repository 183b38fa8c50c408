"""The process that runs an environment's episodes (`host`), as the agent sees it.

Law     it is under the supervisor, with a scratch folder of its own: however the agent ends, nothing of it is left. An
        episode ends with its connection: whoever leaves `run` has ended it, and has seen its end.
Errors  ConfigError for an environment that can't be loaded; InfraError `host_gone`.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

from paddock.errors import ConfigError, InfraError
from paddock.processes import Supervised, start_supervised
from paddock.temporary import Hold, hold_scratch
from paddock.types import JsonObject

HOST = Path(__file__).with_name("host.py")
START_S = 300.0
"""Seconds that an environment may take to be imported."""
GRACE_S = 10.0
"""Seconds that its episodes have to end their containers when the host is told to end."""
END_S = 15.0
"""Seconds to wait until nothing of an episode is left; beyond the grace that `host` gives it."""
MAX_LINE = 1 << 28
"""Bytes of one message of an episode."""


class EpisodeHost:
    """One environment's."""

    def __init__(self, scratch: Hold, process: Supervised) -> None:
        self.has_others = False
        """Whether the environment has seats beside the model's."""
        self._scratch = scratch
        self._process = process

    @classmethod
    async def start(cls, settings: JsonObject, folders: list[Path]) -> "EpisodeHost":
        """Start it and wait until it has imported the environment, whose modules may be in `folders`."""
        scratch = hold_scratch()
        places = [*map(str, folders), *sys.path]
        (scratch.folder / "settings.json").write_bytes(orjson.dumps({**settings, "sys_path": places}))
        answer, writing = os.pipe()
        try:
            started = start_supervised(
                [sys.executable, "-P", HOST, scratch.folder],
                scratch=scratch.folder,
                grace_s=GRACE_S,
                stdout=writing,
                stderr=2,
                env=_environment(folders),
            )
        except BaseException:
            os.close(answer)
            scratch.release()
            raise
        finally:
            os.close(writing)
        host = cls(scratch, Supervised(started, name="verifiers-host", grace_s=GRACE_S))
        try:
            host.has_others = await _ready(answer, str(settings["environment"]))
        except BaseException:
            await host.stop()
            raise
        return host

    async def stop(self) -> None:
        """End it and its episodes."""
        await self._process.end()
        shutil.rmtree(self._scratch.folder, ignore_errors=True)
        self._scratch.release()

    @property
    def folder(self) -> Path:
        """Where the files of its episodes are."""
        return self._scratch.folder

    def why_not_ready(self) -> str | None:
        return "the process of the environment has ended" if self._process.exited.done() else None

    async def run(self, job: JsonObject) -> AsyncGenerator[JsonObject, None]:
        """The messages of one episode, until its process ends."""
        async with self._connection() as (reader, writer):
            writer.write(orjson.dumps(job) + b"\n")
            while line := await reader.readline():
                message: JsonObject = orjson.loads(line)
                yield message
                if "stage" not in message:
                    await _ended(reader)
                    return

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._scratch.folder / "jobs"), limit=MAX_LINE)
        except OSError as error:
            raise InfraError(f"the process of the environment is gone: {error}", kind="host_gone") from error
        try:
            yield reader, writer
        finally:
            await _run_to_end(_close(reader, writer))


async def _ended(reader: asyncio.StreamReader) -> None:
    """Wait for the end of an episode that has given its answer, for `END_S` at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(END_S):
            await reader.read(1)


async def _close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close our side, and wait for the other's: then nothing of the episode is left."""
    try:
        async with asyncio.timeout(END_S):
            if writer.can_write_eof():
                writer.write_eof()
            while await reader.read(1 << 16):
                continue
    except (OSError, TimeoutError):
        return
    finally:
        writer.close()


async def _run_to_end(work: Any) -> None:
    """Await `work` to its end, also when the caller is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def _ready(answer: int, environment: str) -> bool:
    """Wait for the host's answer: whether there are other seats. Closes `answer`."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(answer, "rb", buffering=0)
    )
    try:
        async with asyncio.timeout(START_S):
            line = await reader.readline()
    except TimeoutError:
        raise ConfigError(
            f"environment: {environment}: not imported within {START_S:g} s", kind="environment_slow"
        ) from None
    finally:
        transport.close()
    said = orjson.loads(line) if line else {"error": "its process ended; what it wrote is on stderr"}
    if "error" in said:
        raise ConfigError(_start_problem(environment, said["error"]), kind="environment_unusable")
    return bool(said["has_others"])


def _start_problem(environment: str, said: str) -> str:
    if said.startswith("ModuleNotFoundError: No module named 'verifiers"):
        return (
            f"environment: {environment}: {sys.executable} has no verifiers 0.4; name by `python` an interpreter that "
            "has it (`uv pip install 'verifiers==0.4.0'`), and this package"
        )
    return f"environment: {environment}: {said}"


def _environment(folders: list[Path]) -> dict[str, str]:
    """Variables of the host. What it starts finds the environment's modules, and `uv` where that is beside Python."""
    inherited = dict(os.environ)
    python_path = [*map(str, folders), *filter(None, [inherited.get("PYTHONPATH")])]
    path = [str(Path(sys.executable).parent), inherited.get("PATH", os.defpath)]
    local = [*filter(None, [inherited.get("NO_PROXY") or inherited.get("no_proxy")]), "127.0.0.1", "localhost"]
    return {
        **inherited,
        **({"PYTHONPATH": os.pathsep.join(python_path)} if python_path else {}),
        "PATH": os.pathsep.join(path),
        "NO_PROXY": ",".join(local),
        "no_proxy": ",".join(local),
    }
