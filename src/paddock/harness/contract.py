"""The protocols and records between an agent and a harness.

Shapes  `Harness.run(task, workspace, endpoint, limits, report) -> Exit`; a `Step` is reported as soon as it has ended.
Class   `KIND`; where it has settings, `config_type`, a pydantic model that its constructor takes; where it does not
        talk to a model, `NEEDS`. It is made once per rollout.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, Protocol

from paddock.harness.results import Executed, ShellExecuted
from paddock.types import JsonObject, Record

Ended = Literal["finished", "turn_limit", "token_limit", "time_limit", "context_limit", "budget"]
"""`budget`: the workspace was killed for using up its own."""
Needs = Literal["model", "gold", "nothing"]
"""What a harness class is given: a model, or the row's known fix, never both."""


class Endpoint(Record):
    """Where this rollout's model is; nothing listens there for a harness that needs none."""

    base_url: str
    """Inside the workspace; ends in `/v1`. What names the rollout is added on the way."""
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
    visible: JsonObject = {}
    """The row's fields that the agent may read, by name."""


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


Report = Callable[[Step], None]


class ShellSession(Protocol):
    """A shell that keeps its folder and variables between lines."""

    async def run(self, line: str, *, timeout_s: float | None = None, wait_s: float | None = None) -> ShellExecuted:
        """Run a line: after `wait_s` it goes on `running`, after `timeout_s` its whole tree is killed."""
        ...

    async def poll(self, *, wait_s: float = 0.0) -> ShellExecuted:
        """What came since the last result; returns early when the line ends."""
        ...

    async def type(self, data: bytes, *, wait_s: float = 0.0) -> ShellExecuted:
        """Type at the terminal of the running line, then poll."""
        ...

    async def interrupt(self) -> ShellExecuted:
        """What ^C does."""
        ...

    async def close(self) -> None: ...


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

    async def shell(self) -> ShellSession:
        """A new one; many may be open."""
        ...


class Harness(Protocol):
    """A harness plugin."""

    KIND: ClassVar[Literal["harnesses"]]

    async def run(
        self, task: Task, workspace: Workspace, endpoint: Endpoint, limits: Limits, report: Callable[[Step], None]
    ) -> Exit:
        """Work on the task until it is finished or a limit is met; `report` each step as it ends."""
        ...
