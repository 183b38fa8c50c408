"""What a server is, and the bases of the three kinds.

A plugin derives from one base, names its config (and a resources server its task) as pydantic models, and implements
the base's few methods with plain records. Paths, codecs, errors, transports and start-up are done here.
Errors  a plugin may raise plain exceptions: those of a resources server become VerifierError in `/verify` and
        RowError never (only a task that does not validate is the row's fault), all others BugError.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from paddock.errors import BugError, ConfigError, RowError, VerifierError, boundary, describe
from paddock.http import (
    AGGREGATE,
    CALL_TOOL,
    CHAT,
    FORGET,
    MESSAGES,
    PLAIN_CHAT,
    PLAIN_MESSAGES,
    PLAIN_RESPONSES,
    RESPONSES,
    RUN,
    SEED,
    SETTINGS,
    TRANSCRIPT,
    TURNS,
    VERIFY,
    WITHDRAW,
    AggregateMetrics,
    AggregateRequest,
    Call,
    ModelReply,
    Peer,
    Route,
    VerifyRequest,
)
from paddock.sandbox.loans import SandboxLoan, borrow
from paddock.server.metrics import aggregate
from paddock.tracing import is_on, traced_rollout
from paddock.types import (
    Fix,
    JsonObject,
    Rollout,
    RolloutSettings,
    Row,
    Session,
    TurnRecord,
    TurnSummaries,
    TurnSummaryQuery,
    Verdict,
)

if TYPE_CHECKING:
    from fastapi import FastAPI

    from paddock.server.endpoint_trial import UpstreamEndpoint

Kind = Literal["resources_servers", "agents", "models_servers"]
Handler = Callable[[Any, Call], Awaitable[Any]]


class Reference(BaseModel):
    """Another server of the config, by instance name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Kind
    """Kind of the server."""
    name: str
    """Its instance name, a top-level key of the config."""


class ServerConfig(BaseModel):
    """Fields that every server block has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str | None = None
    """Address to bind; None: the config's `default_host`, else loopback."""
    port: int | None = Field(default=None, ge=0, le=65535)
    """TCP port; None or 0: any free one, printed when the server is ready."""
    python: Path | None = None
    """Interpreter of another environment that has this package too, for a process of the server's own; None: this
    one."""
    start_timeout_s: float | None = Field(default=None, gt=0)
    """Seconds that it may take to start; None: as long as `serve.start_timeout_s` says."""
    stop_timeout_s: float | None = Field(default=None, gt=0)
    """Seconds that it may take to stop, in a process of its own; None: as long as `serve.stop_timeout_s` says."""


class Dataset(BaseModel):
    """One dataset of an agent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """A label for whoever reads the config."""
    type: Literal["train", "validation", "example", "benchmark"]
    """What it is for: commands choose datasets by it (`eval.split`)."""
    jsonl_fpath: str
    """Path of the rows, looked for like a config path."""
    num_repeats: int = Field(default=1, ge=1)
    """Rollouts per row, unless the command says otherwise."""
    prompt_config: str | None = None
    """Path of a YAML file with the prompt of its rows, which then bring none: `user` and perhaps `system`, texts in
    which `{question}` is the row's key of that name. None: each row brings its own."""


ConfigT = TypeVar("ConfigT", bound=ServerConfig)
TaskT = TypeVar("TaskT", bound=BaseModel)


class Figure(NamedTuple):
    """A number that a server keeps itself, for `/metrics`."""

    name: str
    """Without `paddock_`, and a counter's without `_total`."""
    help: str
    value: float
    labels: Mapping[str, str] = {}
    """The same names in all figures of one name; values are words of ours, of which there are few."""
    kind: Literal["counter", "gauge"] = "counter"


class Server(Generic[ConfigT]):
    """One server: its config, its name, and handles on the servers that it references."""

    KIND: ClassVar[Kind]
    OWN_PROCESS: ClassVar[bool] = False
    """It never runs in its callers' process: it imports what they need not have, or keeps a core busy."""
    SHARED: ClassVar[bool] = False
    """One serves all workers of a run: it starts what can't be had several times, or equal requests are one to it."""
    OPEN_FILES: ClassVar[int] = 1
    """Open files that one rollout in flight takes at least, in a process with the servers that it needs."""
    PROCESSES: ClassVar[int] = 0
    """Processes that one rollout in flight takes at least."""
    config_type: ClassVar[type[ServerConfig]] = ServerConfig

    def __init__(self, config: ConfigT, *, name: str, peers: Mapping[str, Peer]) -> None:
        self.config = config
        self.name = name
        self.peers = peers
        """By instance name; filled when all servers exist, so read it when serving, not in `__init__`."""

    @classmethod
    def check_references(cls, config: ConfigT, classes: "Mapping[str, type[Server[Any]]]") -> None:
        """ConfigError where a server that `config` names can't do what this one asks of it. `classes`: of the config's
        servers, by instance name. Called before anything starts, and when a config is only checked."""

    async def start(self) -> None:
        """Acquire what serving needs, without calling peers; an error here means that nothing is served."""

    async def stop(self) -> None:
        """Release everything; called once, also after a failed start, its own or another's."""

    async def why_not_ready(self) -> str | None:
        """Why it could not serve a request at this moment; None: it could. `GET /healthz` asks, as often as somebody
        likes: what takes long is asked once for a while."""
        return None

    def figures(self) -> Sequence[Figure]:
        """What it counts itself; asked when `/metrics` is."""
        return ()

    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        """The routes that this server answers."""
        raise NotImplementedError

    def extend(self, app: "FastAPI") -> None:
        """Add routes of the server's own, such as a tool's."""


class ResourcesServer(Server[ConfigT], Generic[ConfigT, TaskT]):
    """Owns a task's state, tools and verifier."""

    KIND = "resources_servers"
    GROUP_WISE: ClassVar[bool] = False
    """A verdict waits for those of the group's other members: they have to be in flight together, and one whose caller
    has gone is not waited for."""
    OWN_PROMPT: ClassVar[bool] = False
    """Agents make the model's request of its sessions: a row need not bring one."""
    JUDGES_STEP: ClassVar[bool] = False
    """It judges one answer with the calls in it, and serves none of a row's tools: an agent must not go on after it."""
    ROWS_HAVE_FIX: ClassVar[bool] = False
    """Its rows carry their known fix (`patch` or `solution`): the harness `gold` needs nothing of the server."""
    task_type: ClassVar[type[BaseModel]]
    """What `Row.task` must be; keys that it does not declare are its own business (forbid, ignore or allow)."""
    example: ClassVar[JsonObject] = {}
    """A body of `/verify` that the OpenAPI page shows; empty: none is shown."""

    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        group_wise: dict[Route[Any, Any], Handler] = {WITHDRAW: self._withdraw} if self.GROUP_WISE else {}
        return {SEED: self._seed, VERIFY: self._verify, AGGREGATE: self._aggregate, **group_wise}

    def read_task(self, row: Row) -> TaskT:
        """The row's task, typed; RowError names the key that can't be used."""
        try:
            return self.task_type.model_validate(row.task)  # type: ignore[return-value]
        except ValidationError as error:
            raise RowError(describe(error), kind="task_invalid") from error

    async def seed_session(self, task: TaskT, row: Row) -> Session:
        """Open the row's world; the reply is all that an agent may see of it."""
        return Session()

    async def verify(self, task: TaskT, row: Row, response: JsonObject) -> Verdict:
        """Judge a response. Deterministic and idempotent: the same row and response give the same verdict."""
        raise NotImplementedError

    async def verify_sandbox(self, task: TaskT, row: Row, response: JsonObject, sandbox: SandboxLoan) -> Verdict:
        """Judge a rollout by its sandbox, which is alive; asked in place of `verify` where its session wanted that
        (`EndState.sandbox`). What ran in it was the policy's, and nothing that it says of itself is to be believed."""
        raise BugError(f"{type(self).__name__} judges no sandbox", kind="no_verify_sandbox")

    async def withdraw(self, task: TaskT, row: Row) -> None:
        """Note that the member of the row's stamp has ended without a response. Only group-wise servers are asked."""

    async def reverify(self, task: TaskT, row: Row, response: JsonObject, verdict: Verdict) -> Verdict:
        """Judge a stored rollout again, offline; `verdict`: the one that it has. A server that judges by more than the
        row and the response reads that from there: it is then asked without having been started, and has no peers."""
        return await self.verify(task, row, response)

    def oracle(self, task: TaskT, row: Row) -> Sequence[Sequence[JsonObject]]:
        """Known-good output items per turn, for validation without a model."""
        raise BugError(f"{type(self).__name__} has no oracle", kind="no_oracle")

    def tool_names(self) -> frozenset[str] | None:
        """Names of the tools that its sessions serve, also before it is started; None: it does not know them yet."""
        return None if CALL_TOOL in self.handlers() else frozenset()

    async def fix(self, task: TaskT, row: Row) -> Fix:
        """The known solution, for an agent whose harness can play it. Also asked of a server that was not started."""
        raise BugError(f"{type(self).__name__} knows no fix", kind="no_oracle")

    def aggregate_metrics(self, verify_responses: Sequence[JsonObject]) -> AggregateMetrics:
        """Metrics over verify replies: means per number, pass@k per group."""
        return aggregate(verify_responses)

    async def _seed(self, row: Row, call: Call) -> Session:
        task = self.read_task(row)
        with boundary(BugError, f"{self.name}: seed_session", stage="seed"):
            return await self.seed_session(task, row)

    async def _verify(self, request: VerifyRequest, call: Call) -> Verdict:
        task = self.read_task(request.row)
        with boundary(VerifierError, f"{self.name}: verify", stage="verify"):
            if request.sandbox_loan is None:
                return await self.verify(task, request.row, request.response)
            return await self.verify_sandbox(task, request.row, request.response, borrow(request.sandbox_loan))

    async def _withdraw(self, row: Row, call: Call) -> JsonObject:
        task = self.read_task(row)
        with boundary(BugError, f"{self.name}: withdraw"):
            await self.withdraw(task, row)
        return {}

    async def _aggregate(self, request: AggregateRequest, call: Call) -> AggregateMetrics:
        with boundary(BugError, f"{self.name}: aggregate_metrics"):
            return self.aggregate_metrics(request.verify_responses)


class AgentConfig(ServerConfig):
    """Fields that every agent block has."""

    resources_server: Reference
    """The environment, which prepares each rollout and judges it."""
    model_server: Reference
    """The model that its rollouts ask."""
    datasets: list[Dataset] = []
    """Row files that the agent runs where the command names none."""
    rollout_timeout_s: float = Field(default=3600.0, gt=0)
    """Seconds that one rollout may take in all; then its outcome is `infra`."""


AgentConfigT = TypeVar("AgentConfigT", bound=AgentConfig)


class AgentServer(Server[AgentConfigT]):
    """Owns one rollout from start to end: seed, act, verify, return. A failing rollout is data, not an exception."""

    KIND = "agents"
    OWN_PROMPT: ClassVar[bool] = False
    """It makes the model's request from the task: a row without `responses_create_params` is no mistake."""

    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        return {RUN: self._run, PLAIN_RESPONSES: self.responses, AGGREGATE: self._aggregate}

    async def run(self, row: Row, call: Call) -> Rollout:
        """One rollout. Raises only when it was cancelled."""
        raise NotImplementedError

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        """The agent as a model: its whole loop's items in one response, without seed or verdict."""
        raise NotImplementedError

    def check_row(self, row: Row, environment: ResourcesServer[Any, Any]) -> None:
        """RowError where this agent can't run the row in its environment. Asked before anything starts, so neither was
        started."""

    def check_oracle(self, environment: ResourcesServer[Any, Any]) -> None:
        """ConfigError where `oracle` can't give turns of any row."""
        if type(environment).oracle is ResourcesServer.oracle:
            raise ConfigError(
                f"--oracle: {environment.name} ({type(environment).__name__}) knows no good turns: it has no `oracle`",
                kind="no_oracle",
            )

    async def oracle(self, environment: ResourcesServer[Any, Any], row: Row) -> Sequence[Sequence[JsonObject]]:
        """Output items per turn of a policy that does what the environment knows to be right. Asked in the collector's
        process, of an agent that was not started: what the environment tells is for the model's side alone."""
        turns: Sequence[Sequence[JsonObject]] = environment.oracle(environment.read_task(row), row)
        return turns

    async def _run(self, row: Row, call: Call) -> Rollout:
        run = self.run(row, call)
        return await (traced_rollout(run, self.name, row.stamp) if is_on() else run)

    @property
    def resources(self) -> Peer:
        return self.peers[self.config.resources_server.name]

    @property
    def model(self) -> Peer:
        return self.peers[self.config.model_server.name]

    async def _aggregate(self, request: AggregateRequest, call: Call) -> AggregateMetrics:
        return await self.resources.call(AGGREGATE, request, call)


class ModelServer(Server[ConfigT]):
    """Speaks the Responses, Chat and Messages dialects in front of an engine, and records each call of a rollout as a
    turn."""

    KIND = "models_servers"
    COMPARES: ClassVar[bool] = False
    """It puts to its model the texts `response_1` and `response_2` of a request's `metadata`, so it can be a judge of
    groups. Others pass on the conversation alone."""

    @classmethod
    def endpoint(cls, config: ConfigT) -> "UpstreamEndpoint | None":
        """The endpoint of somebody else's that a server of this config calls, which is tried before a run; None: it has
        none, or waits for it when it starts."""
        return None

    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        return {
            RESPONSES: self.responses,
            CHAT: self.chat,
            MESSAGES: self.messages,
            PLAIN_RESPONSES: self.responses,
            PLAIN_CHAT: self.chat,
            PLAIN_MESSAGES: self.messages,
            TURNS: self._turns,
            TRANSCRIPT: self._transcript,
            FORGET: self._forget,
            SETTINGS: self._set,
        }

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        """`POST /v1/responses`, in the rollout that `call.path["secret"]` or else `call.bearer` names, if any does."""
        raise NotImplementedError

    async def chat(self, body: JsonObject, call: Call) -> ModelReply:
        """`POST /v1/chat/completions`, in a rollout as `responses` is."""
        raise NotImplementedError

    async def messages(self, body: JsonObject, call: Call) -> ModelReply:
        """`POST /v1/messages`, in a rollout as `responses` is."""
        raise NotImplementedError

    async def turns(self, secret: str) -> TurnRecord:
        """Freeze a rollout's record and return it; an unknown secret has no turns."""
        raise NotImplementedError

    async def transcript(self, secret: str, query: TurnSummaryQuery) -> TurnSummaries:
        """The turns of a rollout so far, without their ids; an unknown secret has none."""
        raise NotImplementedError

    async def forget(self, secret: str) -> None:
        """Drop a rollout's record; an unknown secret is no error."""
        raise NotImplementedError

    async def set(self, secret: str, settings: RolloutSettings) -> None:
        """Note what holds for a rollout, in place of what was noted before."""
        raise NotImplementedError

    async def _turns(self, _body: JsonObject, call: Call) -> TurnRecord:
        return await self.turns(call.path["secret"])

    async def _transcript(self, query: TurnSummaryQuery, call: Call) -> TurnSummaries:
        return await self.transcript(call.path["secret"], query)

    async def _set(self, settings: RolloutSettings, call: Call) -> JsonObject:
        await self.set(call.path["secret"], settings)
        return {}

    async def _forget(self, _body: JsonObject, call: Call) -> JsonObject:
        await self.forget(call.path["secret"])
        return {}
