"""The grading of single patches, by the ids of the rows of one file: for who has an id and a patch, and no row.

Errors  ConfigError for a file that can't be read; what concerns one row or the machine is raised as the server does.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from paddock.errors import BugError, InfraError, boundary
from paddock.http import read_row
from paddock.resources_servers.swe.checks import read_lines
from paddock.resources_servers.swe.predictions.grading import rows_by_id
from paddock.resources_servers.swe.server import MODEL_PATCH, SweServer, SweServerConfig
from paddock.sandbox import SandboxSettings
from paddock.types import Verdict

PatchGrader = Callable[[str, str], Awaitable[Verdict | None]]
"""The verdict on a patch of an instance; None: the file has no such row."""


@asynccontextmanager
async def open_row_grader(rows: Path, sandbox: SandboxSettings, *, max_concurrent: int) -> AsyncIterator[PatchGrader]:
    """Grade patches of a file's rows, as a rollout's are graded, until the block ends."""
    lines = rows_by_id(read_lines(rows))
    config = SweServerConfig(sandbox=sandbox, max_concurrent_gradings=max_concurrent)
    server = SweServer(config, name="swe", peers={})

    async def grade(instance_id: str, patch: str) -> Verdict | None:
        line = lines.get(instance_id)
        if line is None or line.row is None:
            return None
        with boundary(BugError, f"grading {instance_id}"):
            row = read_row({"responses_create_params": {"input": []}, **line.row})
            return await server.verify(server.read_task(row), row, {"output": [], MODEL_PATCH: patch})

    await server.start()
    try:
        if why_not := await server.why_not_ready():
            raise InfraError(why_not, kind="sandbox_not_ready")
        yield grade
    finally:
        await server.stop()
