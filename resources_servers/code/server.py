"""Code: a program against hidden tests, in a sandbox of its own.

Row     see `task.py`; rows of NeMo-Gym's code_gen are read.
Reward  1 where the program passes all tests. They run in order, and the first that fails decides.
Errors  RowError: a language that the config does not know or the image lacks. A sandbox that fails by itself is the
        machine's, and never a verdict; what a program uses up is a verdict.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import Field, field_validator

from paddock.config.problems import suggestion
from paddock.errors import ConfigError, RowError
from paddock.http import Peer
from paddock.resources_servers.code.box import ProgramLimits
from paddock.resources_servers.code.languages import FILE, LANGUAGES, ProgramLanguage
from paddock.resources_servers.code.runs import ProgramResult, ProgramRunner
from paddock.resources_servers.code.task import FENCE, PYTHON, CodeTask, program_of
from paddock.sandbox import Provider, SandboxSettings
from paddock.sandbox.images import ImageStore
from paddock.sandbox.leases import Lease, shared_provider
from paddock.server import ResourcesServer, ServerConfig
from paddock.types import JsonObject, Row, Verdict
from paddock.types.responses import message_item


class CodeConfig(ServerConfig):
    image: str = "paddock/python:3.11"
    """Image that programs run in: its store has it, and it has the languages. `paddock images build` makes the default
    one below each environment."""
    languages: dict[str, ProgramLanguage] = LANGUAGES
    """Command templates by the names that rows use; those of the config are added to the ten that are there."""
    limits: ProgramLimits = ProgramLimits()
    """Bounds of one program."""
    sandbox: SandboxSettings = SandboxSettings(runtime="quickest")
    """Where programs run. A program takes little longer than its sandbox takes to start."""
    max_concurrent_sandboxes: int = Field(default_factory=lambda: 2 * (os.cpu_count() or 1), ge=1)
    """Programs that run at the same time."""
    max_program_chars: int = Field(default=65_536, ge=1)
    """Characters of a program."""

    @field_validator("languages")
    @classmethod
    def _added(cls, given: dict[str, ProgramLanguage]) -> dict[str, ProgramLanguage]:
        languages = {**LANGUAGES, **given}
        if FILE not in languages[PYTHON].run:
            raise ValueError(f"{PYTHON}.run: give {FILE} as a word of its own, as in `python3 {FILE}`")
        return languages


class CodeServer(ResourcesServer[CodeConfig, CodeTask]):
    config_type = CodeConfig
    task_type = CodeTask
    example: ClassVar[JsonObject] = {
        "responses_create_params": {"input": "Write a Python program that doubles the number on stdin."},
        "verifier_metadata": {"unit_tests": {"inputs": ["4"], "outputs": ["8"]}},
        "response": {
            "output": [
                {"type": "message", "role": "assistant", "content": "```python\nprint(2 * int(input()))\n```"},
            ]
        },
    }

    def __init__(self, config: CodeConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self._lease: Lease[Provider] | None = None
        self._runner: ProgramRunner | None = None
        self._turns = asyncio.Semaphore(config.max_concurrent_sandboxes)
        self._alone = asyncio.Lock()

    async def start(self) -> None:
        sandbox, image = self.config.sandbox, self.config.image
        if sandbox.elsewhere is None and not ImageStore(sandbox.home, payload_id=sandbox.payload_id).has(image):
            raise ConfigError(
                f"{self.name}: no image {image} in {sandbox.home} (`paddock images list`, `paddock images convert`)",
                kind="image_missing",
            )
        self._lease = await shared_provider(sandbox)
        self._runner = ProgramRunner(self._lease.value, image, self.config.limits)

    async def stop(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease.release()

    def read_task(self, row: Row) -> CodeTask:
        task = super().read_task(row)
        name = task.verifier_metadata.language
        if name not in self.config.languages:
            known = suggestion(name, self.config.languages)
            raise RowError(f"verifier_metadata.language: no language {name!r}{known}", kind="language_unknown")
        return task

    async def verify(self, task: CodeTask, row: Row, response: JsonObject) -> Verdict:
        program = program_of(response)
        if program is None:
            result = ProgramResult("no_program", 0)
        elif len(program) > self.config.max_program_chars:
            result = ProgramResult("program_too_long", 0, f"{len(program)} characters")
        else:
            result = await self._run(task, program)
        n_tests = len(task.verifier_metadata.unit_tests.inputs)
        return Verdict(
            reward=float(result.reason == "passed"),
            reason=result.reason,
            detail=result.detail or None,
            metrics={"tests": float(n_tests), "tests_passed": result.passed / n_tests},
        )

    async def _run(self, task: CodeTask, program: str) -> ProgramResult:
        assert self._runner is not None, "started"
        name, tests = task.verifier_metadata.language, task.verifier_metadata.unit_tests
        language = self.config.languages[name]
        async with self._turns:
            result = await self._runner.run(name, language, program, tests)
        if result.stalled:
            async with self._alone, self._turns:
                result = await self._runner.run(name, language, program, tests)
        return result

    def oracle(self, task: CodeTask, row: Row) -> Sequence[Sequence[JsonObject]]:
        """Return the row's solution in a fenced block."""
        if task.solution is None:
            raise RowError("solution: missing; without one there is no known-good program", kind="solution_missing")
        return [[message_item(f"{FENCE}{task.verifier_metadata.language}\n{task.solution}\n{FENCE}")]]
