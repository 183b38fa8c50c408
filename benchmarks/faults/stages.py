"""Where a grading is: a provider that looks at what the grader asks of it, and passes all on.

Stages  `reference` makes the reference; `run` runs the patch, `control` the fix; `calibration` runs the fix over tests
        made false, `audit` the patch. Each is followed by `/before`, `/in` or `/after`, which is of its tests; the last
        is also the reading. Of runs at the same time it is that that did something last.
"""

from pathlib import PurePosixPath
from typing import Any

from paddock.resources_servers.swe.instance import SweInstance
from paddock.sandbox import ExecRequest, ExecResult, Provider

_STAGES = {(False, False): "run", (True, False): "control", (True, True): "calibration", (False, True): "audit"}
"""The stage, by whether the patch is the fix and whether its tests are false."""


class Stages:
    """One grading at a time."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.now = "reference/before"
        self._gold = b""
        self._tests: dict[str, bytes] = {}
        self._is_fix: dict[str, bool] = {}
        """Whether a sandbox runs the fix, from when its patch is applied."""
        self._is_false: set[str] = set()
        self.runs = 0
        """How many runs of tests have started."""
        self.ended = 0
        """How many of them have ended."""

    def begin(self, instance: SweInstance, patch: bytes) -> None:
        self._gold = b"" if patch == instance.gold_patch else instance.gold_patch.strip()
        self._tests = {PurePosixPath(path).name: data for path, data in instance.test_files.items()}
        self.now, self.runs, self.ended = "reference/before", 0, 0
        self._is_fix.clear()
        self._is_false.clear()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    async def write(self, sandbox_id: str, path: str, data: bytes, *, mode: int | None = None) -> None:
        name = PurePosixPath(path).name
        if self._tests.get(name, data) != data:
            self._is_false.add(sandbox_id)
        await self._provider.write(sandbox_id, path, data, mode=mode)

    async def exec(self, sandbox_id: str, request: ExecRequest, *, request_id: str) -> ExecResult:
        if request.argv[:2] == ["git", "apply"]:
            self._is_fix[sandbox_id] = request.stdin.strip() == self._gold
            self._note(sandbox_id, "before")
        tests = request.argv[0] == "bash"
        self.runs += tests
        if tests:
            self._note(sandbox_id, "in")
        try:
            return await self._provider.exec(sandbox_id, request, request_id=request_id)
        finally:
            if tests:
                self._note(sandbox_id, "after")
                self.ended += 1

    def _note(self, sandbox_id: str, moment: str) -> None:
        if sandbox_id in self._is_fix:
            self.now = f"{_STAGES[self._is_fix[sandbox_id], sandbox_id in self._is_false]}/{moment}"
