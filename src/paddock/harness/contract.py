"""The protocols and records between an agent and a harness.

Shapes  `Harness.run(task, workspace, model, limits, report) -> Exit`; a `Step` is reported as soon as it has ended.
Class   `KIND`; where it has settings, `config_type`, a pydantic model that its constructor takes; where it does not
        talk to a model, `NEEDS`. It is made once per rollout. What a class may have beside: `PromptedHarness`,
        `OracleHarness`, `ProgramHarness`, `ArtifactProducer`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, Protocol

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
    """Where a program inside the workspace finds this rollout's model."""

    base_url: str
    """Ends in `/v1`. What names the rollout is added on the way."""
    api_key: str = "unused"
    """For clients that insist on one."""
    model: str


class Model(Protocol):
    """This rollout's model. Every call is recorded, whoever makes it."""

    name: str
    """What `model` in a request says."""

    async def respond(self, body: JsonObject) -> JsonObject:
        """A whole Responses API answer. Raises ContextExceeded, and a PaddockError for what ends the rollout."""
        ...

    async def endpoint(self, screen: "RequestFilter | None" = None, *, outside: bool = False) -> ModelEndpoint:
        """The same model for programs; nothing listens there before it is asked for. `screen`: what each call passes.
        `outside`: for a program on this machine, not in the sandbox; then `api_key` is a secret of this rollout."""
        ...

    async def transcript(self, skip: int = 0) -> Sequence[TurnSummary]:
        """The recorded turns so far but for the `known` oldest, oldest first, whoever asked."""
        ...

    @property
    def overflowed(self) -> bool:
        """The last call of a program was refused as too long, or as one too many."""
        ...

    @property
    def has_repeated_call(self) -> bool:
        """A program has repeated a call whose answer had begun, as one does when it broke off."""
        ...


class SideRequest(Exception):  # noqa: N818 - an answer to a program, not an error of ours
    """A request of a program that is no part of the task, such as one for a title: not passed on, and counted."""


class RequestFilter(Protocol):
    """What the calls of a program pass on their way to the model."""

    def filter(self, path: str, body: JsonObject) -> JsonObject:
        """The request as it goes on, which may be `body` itself. Raises Refused. The same request gives the same, as
        programs send their history again with each call. `path`: `/v1/responses`, `/v1/chat/completions` or
        `/v1/messages`."""
        ...


class RunLimits(Record):
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
    params: JsonObject = {}
    """Of each request to the model: `temperature`, `max_output_tokens`, ... as the Responses API has them."""
    tool_names: dict[str, str] = {}
    """The harness's own tools that the model knows by another name: real name to shown name."""
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
    """The recorded turn that the model call is, as its answer names it (`paddock.types.responses.turn_id_of`); None:
    there was no call, or nobody says."""


class Exit(Record):
    """How a run ended."""

    ended: ExitReason
    turns: int
    final: str | None = None
    """The policy's last words."""
    detail: str | None = None
    malformed: dict[MalformedCall, int] = {}
    """Calls that no tool could take, by what was wrong."""


OnStep = Callable[[Step], None]


class ShellSession(Protocol):
    """A shell that keeps its folder and variables between lines."""

    async def run(self, line: str, *, timeout_s: float | None = None, wait_s: float | None = None) -> ShellOutput:
        """Run a line: after `wait_s` it goes on `running`, after `timeout_s` its whole tree is killed."""
        ...

    async def poll(self, *, wait_s: float = 0.0) -> ShellOutput:
        """What came since the last result; returns early when the line ends."""
        ...

    async def type(self, data: bytes, *, wait_s: float = 0.0) -> ShellOutput:
        """Type at the terminal of the running line, then poll."""
        ...

    async def interrupt(self) -> ShellOutput:
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
    ) -> ExecOutput: ...

    async def read(self, path: str) -> bytes: ...

    async def write(self, path: str, data: bytes) -> None: ...

    async def shell(self) -> ShellSession:
        """A new one; many may be open."""
        ...

    async def launch(self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str]) -> ProgramOutput:
        """Run the harness's own program to its end. No command of the policy: no rule of the blocklist and no limit of
        a command holds for it."""
        ...

    def note_command(self, line: str) -> None:
        """A command that a program has run by itself: counted, and by rule if the blocklist would have refused it."""
        ...


class Harness(Protocol):
    """A harness plugin."""

    KIND: ClassVar[Literal["harnesses"]]

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        """Work on the task until it is finished or a limit is met; `report` each step as it ends."""
        ...


class Prompts(Record):
    """Jinja2 templates (`paddock.harness.prompts`) of the first messages."""

    system: str | None = None
    """None: there is no system message."""
    user: str


class PromptedHarness(Protocol):
    """A harness class with prompts of its own, and tools that may be shown by other names."""

    @property
    def prompts(self) -> Prompts: ...

    @property
    def own_tools(self) -> Sequence[str]:
        """Real names."""
        ...


class ProgramHarness(Protocol):
    """A harness class that runs a program which is not ours (`paddock.harness.programs`)."""

    @property
    def program(self) -> Program:
        """The one that its settings name."""
        ...


class ArtifactProducer(Protocol):
    """A harness class that leaves files beside the rollout, such as a trajectory in a format of its own."""

    left: Mapping[str, bytes]
    """By name; filled when it has run, however that ended."""


class OracleHarness(Protocol):
    """A harness class that knows how to make a known fix with its own tools."""

    def oracle(self, fix: Fix) -> list[list[JsonObject]]:
        """Output items per turn: look, edit, run the tests, finish. Pure: the same fix, the same calls, up to ids."""
        ...
