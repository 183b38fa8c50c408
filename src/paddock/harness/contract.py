"""The protocols and records between an agent and a harness.

Shapes  `Harness.run(task, workspace, model, limits, report) -> Exit`; a `Step` is reported as soon as it has ended.
Class   `KIND`; where it has settings, `config_type`, a pydantic model that its constructor takes; where it does not
        talk to a model, `NEEDS`. It is made once per rollout. What a class may have beside: `PromptedHarness`,
        `OracleHarness`, `ProgramHarness`, `ArtifactProducer`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, Protocol

from pydantic import Field

from paddock.harness.programs.program import Program
from paddock.harness.results import ExecOutput, ProgramOutput, ShellOutput
from paddock.types import Fix, JsonObject, Record, TurnSummary

ExitReason = Literal[
    "finished", "turn_limit", "token_limit", "time_limit", "context_limit", "output_limit", "budget", "killed"
]
"""`output_limit`: an answer of the model was cut at its own limit, and the harness ends there; `budget`: the workspace
was killed for using up its own; `killed`: the workspace, or the harness's program in it, ended in doubt by whose doing,
for the second time, which counts as the policy's."""
MalformedCall = Literal["bad_json", "unknown_tool", "bad_arguments", "cut"]
"""What was wrong with a call of a tool. `cut`: the model's answer ended in the middle of it."""
Needs = Literal["model", "gold", "nothing"]
"""What a harness class is given: a model, or the row's known fix, never both."""


class ContextExceeded(Exception):  # noqa: N818 - an answer of the model server, not an error of ours
    """The prompt is longer than the model takes."""


class ModelEndpoint(Record):
    """The address of this rollout's model for a program."""

    base_url: str
    """Ends in `/v1`. The rollout's secret is added at our end of the tunnel."""
    api_key: str = "unused"
    """For clients that need a key."""
    model: str


class Model(Protocol):
    """This rollout's model. Every call is recorded, whether a harness or a program makes it."""

    name: str
    """The value of `model` in a request."""

    async def respond(self, body: JsonObject) -> JsonObject:
        """Return a whole Responses API answer. Raises ContextExceeded, and a PaddockError for what ends the rollout."""
        ...

    async def endpoint(self, request_filter: "RequestFilter | None" = None, *, outside: bool = False) -> ModelEndpoint:
        """Open the endpoint of the model for a program. `request_filter`: applied to each call. `outside`: the program
        runs on this machine, not in the sandbox; then `api_key` is a secret of this rollout."""
        ...

    async def transcript(self, skip: int = 0) -> Sequence[TurnSummary]:
        """Return the turns recorded so far without their ids, oldest first, but for the `skip` oldest."""
        ...

    @property
    def overflowed(self) -> bool:
        """Whether a program's last call was refused as too long, or as one too many."""
        ...

    @property
    def has_repeated_call(self) -> bool:
        """Whether a program repeated a call whose answer had begun, as one does when the answer broke off."""
        ...


class SideRequest(Exception):  # noqa: N818 - an answer to a program, not an error of ours
    """A program's request that is no part of the task, such as one for a title: it is refused and counted."""


class RequestFilter(Protocol):
    """Changes or refuses a program's calls on their way to the model."""

    def filter(self, path: str, body: JsonObject) -> JsonObject:
        """Return the request to send on, which may be `body` itself. Raises SideRequest. Deterministic, as programs
        send their history again with each call. `path`: `/v1/responses`, `/v1/chat/completions` or `/v1/messages`."""
        ...


class RunLimits(Record):
    """The limits of a harness's run; None: no limit."""

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
    params: JsonObject = {}
    """Parameters of each request to the model, as in the Responses API: `temperature`, `max_output_tokens`, ..."""
    tool_names: dict[str, str] = {}
    """The harness's own tools that are shown under another name: shown name by real name."""
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
    turn_id: str | None = None
    """The id of the recorded turn, as the answer names it (`paddock.types.responses.turn_id_of`); None: there was no
    call, or the answer names none."""


class Exit(Record):
    """How a run ended."""

    ended: ExitReason
    turns: int
    final: str | None = None
    """The policy's last words."""
    detail: str | None = None
    malformed: dict[MalformedCall, int] = {}
    """How many calls no tool could take, by what was wrong."""


OnStep = Callable[[Step], None]


class ShellSession(Protocol):
    """A shell that keeps its folder and variables between lines."""

    async def run(self, line: str, *, timeout_s: float | None = None, wait_s: float | None = None) -> ShellOutput:
        """Run a line: after `wait_s` it goes on `running`, after `timeout_s` its whole tree is killed."""
        ...

    async def poll(self, *, wait_s: float = 0.0) -> ShellOutput:
        """Return the output since the last result; returns early when the line ends."""
        ...

    async def type(self, data: bytes, *, wait_s: float = 0.0) -> ShellOutput:
        """Type at the terminal of the running line, then poll."""
        ...

    async def interrupt(self) -> ShellOutput:
        """Send ^C."""
        ...

    async def close(self) -> None: ...


class Workspace(Protocol):
    """Runs commands and holds files. Its own failures are raised, never returned as a command's output."""

    workdir: str

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> ExecOutput: ...

    async def read(self, path: str) -> bytes: ...

    async def write(self, path: str, data: bytes) -> None: ...

    async def shell(self) -> ShellSession:
        """Open a shell; many may be open at once."""
        ...

    async def launch(self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str]) -> ProgramOutput:
        """Run the harness's own program to its end. It is no command of the policy: neither the blocklist nor the time
        limit of commands applies."""
        ...

    def note_command(self, line: str) -> None:
        """Count a command that a program ran by itself, also by rule if the blocklist would have refused it."""
        ...


class Harness(Protocol):
    """A harness plugin."""

    KIND: ClassVar[Literal["harnesses"]]

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        """Work on the task until it is finished or a limit is met; `report` each step as it ends."""
        ...


class SolutionScript(Record):
    """A known solution that is a command with files of its own."""

    archive: bytes
    """A gzipped tar of the files, by their absolute paths without the first slash."""
    argv: list[str] = Field(min_length=1)
    """The command; it is run in the workdir once the files are there."""
    env: dict[str, str] = {}
    """Variables of the command."""


Gold = bytes | SolutionScript
"""A row's known fix: a git patch of the workdir, or a script."""


class Prompts(Record):
    """Jinja2 templates (`paddock.harness.prompts`) of the first messages."""

    system: str | None = None
    """None: no system message."""
    user: str


class PromptedHarness(Protocol):
    """A harness class with prompts of its own, and tools that may be shown by other names."""

    @property
    def prompts(self) -> Prompts: ...

    @property
    def own_tools(self) -> Sequence[str]:
        """The real names of its tools."""
        ...


class ProgramHarness(Protocol):
    """A harness class that runs a program which is not ours (`paddock.harness.programs`)."""

    @property
    def program(self) -> Program:
        """The program, in the version that its settings name."""
        ...


class ArtifactProducer(Protocol):
    """A harness class whose runs produce files beside the rollout, such as a trajectory in a format of its own."""

    artifacts: Mapping[str, bytes]
    """Contents of the files, by name; filled when a run ends, however it ends."""


class OracleHarness(Protocol):
    """A harness class that can play a known fix with its own tools."""

    def oracle(self, fix: Fix) -> list[list[JsonObject]]:
        """Return the output items of each turn: look, edit, run the tests, finish. Pure: one fix gives one list of
        calls, but for their ids."""
        ...
