"""What a harness is: the loop, or the program, inside an agent that talks to the model and acts on a workspace.

Contract a harness gets a task in words, a workspace to act on, a model endpoint of its own, and limits. The endpoint's
        secret names the rollout, so every call is recorded whatever the harness sends; it never sees token ids.
Outcome it returns how it ended. A tool's error is a text for the model; a failure of the workspace or the model server
        is raised, and ends the rollout as nobody's fault but the machine's.
Source  one folder in `harnesses/`, one class in its `__all__`; config names the folder, or `my_pkg.mod:Class`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple, Protocol

from paddock.types import JsonObject, Record

Ended = Literal["finished", "turn_limit", "token_limit", "time_limit", "context_limit"]


class Endpoint(Record):
    """Where this rollout's model is."""

    base_url: str
    """Ends in `/v1`; the rollout's secret is part of it."""
    api_key: str = "unused"
    """For clients that insist on one."""
    model: str


class Limits(Record):
    """None: no limit."""

    max_turns: int | None = None
    """Model calls."""
    max_tokens: int | None = None
    """Sampled tokens of all calls together."""
    time_s: float | None = None
    """Wall clock seconds of the whole run."""
    tool_s: float | None = None
    """Wall clock seconds of one tool call."""


class Task(Record):
    """What the policy is asked to do."""

    prompt: str
    system: str | None = None
    tools: Sequence[JsonObject] = ()
    """Tools that the environment serves, beside the harness's own."""


class Step(Record):
    """One model call and the results of the tools it called: what a harness reports while it runs."""

    turn: int
    """From 1."""
    output: list[JsonObject]
    """The model's items, then the `function_call_output` items."""


class Exit(Record):
    """How a run ended."""

    ended: Ended
    turns: int
    final: str | None = None
    """The policy's last words."""
    detail: str | None = None


class Executed(NamedTuple):
    """A command's end: what it wrote to both streams, in order."""

    exit_code: int
    output: bytes
    timed_out: bool = False


class Workspace(Protocol):
    """Where commands run and files are. Its own failures are raised, never returned as a command's output."""

    workdir: str

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Executed: ...

    async def read(self, path: str) -> bytes: ...

    async def write(self, path: str, data: bytes) -> None: ...


class Harness(Protocol):
    """A harness plugin; made once per rollout."""

    KIND: ClassVar[Literal["harnesses"]]

    async def run(
        self, task: Task, workspace: Workspace, endpoint: Endpoint, limits: Limits, report: Callable[[Step], None]
    ) -> Exit:
        """Work on the task until it is finished or a limit is met; `report` each step as it ends."""
        ...
