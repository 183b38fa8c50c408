"""What native harnesses never ask of a model and a workspace: bases of scripted ones."""

from collections.abc import Mapping, Sequence

from paddock.harness import ModelEndpoint, ProgramOutput, RequestFilter
from paddock.types import TurnSummary


class ModelWithoutPrograms:
    """A model that no program asks."""

    overflowed = False
    has_repeated_call = False

    async def endpoint(self, request_filter: RequestFilter | None = None, *, outside: bool = False) -> ModelEndpoint:
        raise AssertionError("a program asks over a tunnel, and there is none")

    async def transcript(self, skip: int = 0) -> Sequence[TurnSummary]:
        raise AssertionError("a native harness has its own history")


class WorkspaceWithoutPrograms:
    """A workspace that runs no program of a harness."""

    async def launch(self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str]) -> ProgramOutput:
        raise AssertionError(f"a native harness runs no program of its own: {argv}")

    def note_command(self, line: str) -> None:
        raise AssertionError(f"a native harness's commands are run by the workspace: {line}")
