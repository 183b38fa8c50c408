"""One run of a task's tests in a sandbox, and what it left: a reward file, or text for a parser.

Order   reward files that are there are removed, the tests are put in, then they run: whatever stood there before is not
        believed. Folders that tests count on, the workdir too, are made where the agent left something else or nothing;
        those of the tests' own files and /tmp, which it could leave full, where it left a link.
        The exit code is not looked at. Output goes to `/logs/verifier/test-stdout.txt`, as Harbor has it.
Errors  VerifierError for a run that met its time limit (`tests_timeout`) or did not start (`tests_not_run`);
        BudgetExceeded and the sandbox's own failures as they are.
"""

import asyncio
import errno
import shlex
import uuid
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from paddock.errors import VerifierError
from paddock.resources_servers.harbor.rewards import JSON, MAX_BYTES, TEXT, RewardFile, reward_file
from paddock.resources_servers.harbor.task import PublishedTask, SolutionFiles, TaskFile
from paddock.sandbox import ExecRequest, ExecResult, Provider, SandboxError

VERIFIER = "/logs/verifier"
OUTPUT = f"{VERIFIER}/test-stdout.txt"
OUTPUT_BYTES = 8 << 20
"""The most of the output that a parser gets."""
OWN_PLACES = ("/logs", VERIFIER, "/tests")
"""Where no link is followed, nor below the last."""
ROOM_FILE = ".paddock-room"
ROOM_BYTES = 1 << 20
STEP_TIMEOUT_S = 120.0
KILLS = 2
"""What is started while the first kill goes on ends with the second."""


class VerifierFiles(NamedTuple):
    """What a run of tests left."""

    reward_file: RewardFile | None
    output: str


class Box:
    """A sandbox that tests run in."""

    def __init__(self, provider: Provider, sandbox_id: str) -> None:
        self.provider = provider
        self.sandbox_id = sandbox_id

    async def run_tests(self, task: PublishedTask, workdir: str) -> VerifierFiles:
        """Put the tests in, run them, and read what they left."""
        await self.step(_make_room(task.tests, workdir))
        await self.upload(task.tests)
        command = f"({shlex.join(task.tests_argv)}) > {OUTPUT} 2>&1"
        if task.tests_argv[0].startswith("/"):
            command = f"chmod +x {shlex.quote(task.tests_argv[0])}; {command}"
        request = ExecRequest(argv=["/bin/sh", "-c", command], env=task.tests_env, timeout_s=task.tests_timeout_s)
        done = await self._exec(request)
        if done.killed_by == "timeout":
            raise VerifierError(f"the tests took more than {task.tests_timeout_s:g} s", kind="tests_timeout")
        output = (await self._read(OUTPUT, OUTPUT_BYTES) or b"").decode(errors="replace")
        if task.parser is None:
            return VerifierFiles(await self._reward_file(), output)
        return VerifierFiles(None, output)

    async def solve(self, task: PublishedTask, solution: SolutionFiles) -> None:
        """Play the published solution."""
        await self.upload(solution.files)
        timeout_s = task.agent_timeout_s or STEP_TIMEOUT_S
        await self._exec(ExecRequest(argv=solution.argv, env=solution.env, timeout_s=timeout_s))

    async def has_room(self, folder: str) -> bool:
        """Whether a small file can be written there, where there is such a folder."""
        path = f"{folder.rstrip('/')}/{ROOM_FILE}"
        try:
            await self.provider.write(self.sandbox_id, path, bytes(ROOM_BYTES))
        except OSError as error:
            return error.errno != errno.ENOSPC
        except SandboxError as error:
            # Of other doubtful failures nobody knows that it was the agent.
            if error.kind != "disk_failed" or not error.doubtful:
                raise
            return False  # the host's disk has room
        finally:
            await self._exec(ExecRequest(argv=["rm", "-f", "--", path], workdir="/", timeout_s=STEP_TIMEOUT_S))
        return True

    async def kill_others(self) -> None:
        """Kill all that runs in the sandbox, by its own shell, which the policy may have changed."""
        for _ in range(KILLS):
            await self._exec(ExecRequest(argv=["/bin/sh", "-c", "kill -9 -1"], workdir="/", timeout_s=STEP_TIMEOUT_S))

    async def upload(self, files: Sequence[TaskFile]) -> None:
        """Write files of the task; what has their paths is replaced."""
        for file in files:
            data = await asyncio.to_thread(file.source.read_bytes)
            await self.provider.write(self.sandbox_id, file.path, data, mode=0o755 if file.executable else 0o644)

    async def step(self, script: str) -> None:
        """Run a step of our own; VerifierError where it fails."""
        request = ExecRequest(argv=["/bin/sh", "-s"], workdir="/", stdin=script.encode(), timeout_s=STEP_TIMEOUT_S)
        done = await self._exec(request)
        if not done.ok:
            text = (bytes(done.stdout) + bytes(done.stderr)).decode(errors="replace").strip()[-500:]
            raise VerifierError(f"`{script[:80]}` ended with {done.exit_code}: {text}", kind="tests_not_run")

    async def _exec(self, request: ExecRequest) -> ExecResult:
        return await self.provider.exec(self.sandbox_id, request, request_id=uuid.uuid4().hex)

    async def _reward_file(self) -> RewardFile | None:
        for name in (JSON, TEXT):
            data = await self._read(f"{VERIFIER}/{name}", MAX_BYTES + 1)
            if data is not None:
                return reward_file(name, data)
        return None

    async def _read(self, path: str, max_bytes: int) -> bytes | None:
        try:
            return await self.provider.read(self.sandbox_id, path, max_bytes=max_bytes)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None


def _make_room(tests: Sequence[TaskFile], workdir: str) -> str:
    """Write the script that leaves no reward file, nothing at the tests' paths, and the folders that tests count on."""
    above = {parent for file in tests for parent in map(str, PurePosixPath(file.path).parents)}
    folders = [VERIFIER, "/logs/agent", "/logs/artifacts", "/tests", *sorted(above), workdir]
    gone = [f"rm -rf -- {shlex.quote(path)}" for path in (VERIFIER, *(file.path for file in tests))]
    lines = ["set -e", "[ ! -L /tmp ] || { rm -f /tmp; mkdir -m 1777 /tmp; }", _folder("/logs")]
    return "\n".join([*lines, _folder("/tests"), *gone, *map(_folder, folders)])


def _folder(path: str) -> str:
    quoted = shlex.quote(path)
    linked = f" && [ ! -L {quoted} ]" if path in OWN_PLACES or path.startswith("/tests/") else ""
    return f"[ -d {quoted} ]{linked} || {{ rm -rf -- {quoted}; mkdir -p -- {quoted}; }}"
