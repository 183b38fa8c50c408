"""Claims about whose fault it is that the known fix does not come into the tree."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from paddock.errors import InfraError, PaddockError, RowError
from paddock.harness import ExecOutput, RunLimits, Task
from paddock.harnesses.gold import GoldHarness
from paddock.sandbox import SandboxError

UNFIT = ExecOutput(1, b"error: patch failed: calc.py:1\nerror: calc.py: patch does not apply\n")
FULL = ExecOutput(128, b"fatal: failed to write to '.git/x': No space left on device\n")
WRITING = ExecOutput(128, b"error: unable to write file 'calc.py' mode 100644: Input/output error\n")
CORRUPT = ExecOutput(128, b"error: corrupt patch at line 3\n")
KILLED, TIMED_OUT, DONE = ExecOutput(137, b""), ExecOutput(137, b"", timed_out=True), ExecOutput(0, b"")


class GitWorkspace:
    """A workspace whose git ends as it is told to."""

    workdir = "/testbed"

    def __init__(self, ends: Sequence[ExecOutput], *, full: bool) -> None:
        self.ends = list(ends)
        self.full = full

    async def exec(self, argv: Sequence[str], **_: Any) -> ExecOutput:
        assert argv[:2] == ("git", "apply")
        return self.ends.pop(0)

    async def write(self, path: str, data: bytes) -> None:
        if self.full:
            raise SandboxError(f"{path}: the host's disk: No space left on device", kind="disk_failed")


@pytest.fixture
def apply() -> Callable[..., Any]:
    """How the harness ends where git ends so, first and on a second look."""

    async def run(*ends: ExecOutput, full: bool = False) -> str | PaddockError:
        folder: Any = GitWorkspace(ends, full=full)
        nobody: Any = None  # it asks no model
        try:
            left = await GoldHarness(gold=b"x").run(Task(prompt="x"), folder, nobody, RunLimits(), lambda _: None)
        except PaddockError as error:
            return error
        return left.ended

    return run


@pytest.mark.parametrize("ends", [(UNFIT, UNFIT), (CORRUPT, CORRUPT)])
async def test_a_fix_that_git_refuses_twice_is_the_rows_fault(apply: Any, ends: tuple[ExecOutput, ...]) -> None:
    error = await apply(*ends)
    assert isinstance(error, RowError)
    assert error.kind == "gold_does_not_apply"


@pytest.mark.parametrize("first", [UNFIT, FULL, WRITING, KILLED, TIMED_OUT])
@pytest.mark.parametrize("second", [DONE, FULL, KILLED, TIMED_OUT])
async def test_a_git_that_the_machine_failed_is_the_machines_fault(
    apply: Any, first: ExecOutput, second: ExecOutput
) -> None:
    error = await apply(first, second)
    assert isinstance(error, InfraError)
    assert error.retryable


@pytest.mark.parametrize("first", [UNFIT, FULL])
async def test_a_workspace_without_room_is_the_machines_fault(apply: Any, first: ExecOutput) -> None:
    error = await apply(first, UNFIT, full=True)
    assert (error.outcome, error.kind) == ("infra", "disk_failed")


async def test_a_fix_that_applies_is_applied_once(apply: Any) -> None:
    assert await apply(DONE) == "finished"
