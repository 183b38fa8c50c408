"""What no native harness asks of its model and its workspace: for scripted ones."""

from collections.abc import Mapping, Sequence

from paddock.harness import ModelEndpoint, ProgramOutput, RequestFilter
from paddock.types import SaidTurn


class NoProgramAsks:
    """Of a model."""

    overflowed = False
    asked_again = False

    async def endpoint(self, screen: RequestFilter | None = None, *, outside: bool = False) -> ModelEndpoint:
        raise AssertionError("a program asks over a tunnel, and there is none")

    async def said(self, known: int = 0) -> Sequence[SaidTurn]:
        raise AssertionError("a native harness knows what was said")


class NoProgramRuns:
    """Of a workspace."""

    async def launch(self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str]) -> ProgramOutput:
        raise AssertionError(f"a native harness runs no program of its own: {argv}")

    def note_command(self, line: str) -> None:
        raise AssertionError(f"a native harness's commands are run by the workspace: {line}")
