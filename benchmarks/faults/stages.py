"""Where a grading is: a provider that looks at what the grader asks of it, and passes all on.

Stages  `reference` makes the reference; `run` runs the patch, `control` the fix; `calibration` runs the fix over tests
        made false, `audit` the patch. Each is followed by `/before`, `/in` or `/after`, which is of its tests; the last
        is also the reading, until the next sandbox is made.
"""

from pathlib import PurePosixPath
from typing import Any

from paddock.resources_servers.swe.instance import Instance
from paddock.sandbox import ExecRequest, ExecResult, Provider, SandboxHandle, SandboxSpec

_STAGES = {(False, False): "run", (True, False): "control", (True, True): "calibration", (False, True): "audit"}
"""By whether it is the fix, and whether its tests are false."""


class Stages:
    """One grading at a time."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.now = "reference/before"
        self._gold = b""
        self._tests: dict[str, bytes] = {}
        self._is_fix: bool | None = None
        self._is_false = False
        self.runs = 0
        """Of tests, begun so far."""
        self.ended = 0
        """Those that have ended."""

    def begin(self, instance: Instance, patch: bytes) -> None:
        self._gold = b"" if patch == instance.gold_patch else instance.gold_patch.strip()
        self._tests = {PurePosixPath(path).name: data for path, data in instance.test_files.items()}
        self.now, self.runs, self.ended, self._is_fix = "reference/before", 0, 0, None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    async def create(self, spec: SandboxSpec, *, request_id: str) -> SandboxHandle:
        self._is_fix, self._is_false = None, False
        return await self._provider.create(spec, request_id=request_id)

    async def write(self, sandbox_id: str, path: str, data: bytes, *, mode: int | None = None) -> None:
        name = PurePosixPath(path).name
        self._is_false |= self._tests.get(name, data) != data
        await self._provider.write(sandbox_id, path, data, mode=mode)

    async def exec(self, sandbox_id: str, request: ExecRequest, *, request_id: str) -> ExecResult:
        if request.argv[:2] == ["git", "apply"]:
            self._is_fix = request.stdin.strip() == self._gold
            self._tell("before")
        tests = request.argv[0] == "bash"
        self.runs += tests
        if tests:
            self._tell("in")
        try:
            return await self._provider.exec(sandbox_id, request, request_id=request_id)
        finally:
            if tests:
                self._tell("after")
                self.ended += 1

    def _tell(self, moment: str) -> None:
        if self._is_fix is not None:
            self.now = f"{_STAGES[self._is_fix, self._is_false]}/{moment}"
