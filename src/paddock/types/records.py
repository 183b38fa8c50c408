"""Frozen records: row, stamp, turn, verdict, failure, rollout. All forbid unknown keys.

Law     a rollout has exactly one outcome; `completed` and `truncated` carry a verdict and no failure, all others a
        failure and no verdict: so no failure can ever carry a reward.
Wire    on the wire a row is flat: `responses_create_params`, `agent_ref`, the `_ng_*` stamps, and every key that the
        framework does not own. `Row.from_wire` folds the latter into `task`; `to_wire` is its exact inverse.
Units   seconds as float, token counts and ids as int, log-probs natural.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from paddock.types.routed_experts import text_shape

Json = Any
JsonObject = dict[str, Any]


RewardedOutcome = Literal["completed", "truncated"]
RetriedOutcome = Literal["infra", "verifier"]
"""Neither the policy's nor the data's fault: another attempt is made at once, if the failure says that it may be."""
TerminalOutcome = Literal["row", "leak"]
"""Caused by the data or the policy: another attempt mends nothing, so a resumed run makes none."""
ResumedOutcome = Literal["cancelled"]
FailedOutcome = Literal[RetriedOutcome, TerminalOutcome, ResumedOutcome]
"""Masked in training, each for a reason of its own name."""
Outcome = Literal[RewardedOutcome, FailedOutcome]
Owner = Literal["row", "policy", "infra", "verifier", "us", "user"]
Engine = Literal["exact", "spliced", "text"]
FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]

Finite = Annotated[float, Field(allow_inf_nan=False)]
"""A finite number: JSON has no others."""

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
REWARDED: frozenset[Outcome] = frozenset(get_args(RewardedOutcome))
RETRIED: frozenset[Outcome] = frozenset(get_args(RetriedOutcome))
TERMINAL: frozenset[Outcome] = frozenset(get_args(TerminalOutcome))


class Record(BaseModel):
    """A frozen record with no unknown keys; equal by value; safe to share between tasks.

    Those that each rollout makes have factories for empty defaults: pydantic makes a deep copy of a default that can
    change, which takes longer than checking all other fields.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="null")


class AgentRef(Record):
    """Which agent instance runs a row."""

    name: str
    type: str = "agents"


class Stamp(Record):
    """What the collector stamps on a row. Wire keys are NeMo-Gym's where it has one, else `_paddock_*`."""

    run_id: str | None = Field(default=None, alias="_paddock_run_id")
    """The collection this rollout belongs to."""
    group_id: int | None = Field(default=None, alias="_ng_task_index")
    """The row's index in its dataset: all rollouts of one row share it."""
    group_size: int | None = Field(default=None, alias="_paddock_group_size")
    """How many members the group has."""
    member: int | None = Field(default=None, alias="_ng_rollout_index")
    """This rollout's index in its group, from 0."""
    attempt: int | None = Field(default=None, alias="_ng_attempt_index")
    """How many earlier attempts at this member failed."""
    doubts: int | None = Field(default=None, alias="_paddock_doubts")
    """How many of them failed in doubt (`Failure.doubtful`); None: none. From 1 on, an agent takes another such failure
    for the policy's, and has the work done so far graded."""
    epoch: int | None = Field(default=None, alias="_paddock_epoch")
    """Which pass over its dataset a trainer is in, from 0; None: nobody counts."""
    cohort: str | None = Field(default=None, alias="_paddock_cohort")
    """Tells a group from others of the same row and epoch, where one is run again; None: there are no others."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    def to_wire(self) -> JsonObject:
        return self.model_dump(by_alias=True, exclude_none=True)


_STAMP_KEYS = frozenset(field.alias for field in Stamp.model_fields.values() if field.alias)


class Row(Record):
    """One dataset line: the body of `POST /run`."""

    responses_create_params: JsonObject
    """A Responses API request; kept as given."""
    agent_ref: AgentRef | None = None
    """None: the only agent there is, or the one that the caller names."""
    stamp: Stamp = Stamp()
    task: JsonObject = Field(default_factory=dict)
    """Every other key of the line, opaque to the framework; the resources server gives it a type."""

    @classmethod
    def from_wire(cls, line: Mapping[str, Any]) -> Self:
        """The row of one wire object; ValidationError when a framework key is missing or of the wrong type."""
        own: JsonObject = {}
        stamp: JsonObject = {}
        task: JsonObject = {}
        for key, value in line.items():
            if key in ("responses_create_params", "agent_ref"):
                own[key] = value
            elif key in _STAMP_KEYS:
                stamp[key] = value
            else:
                task[key] = value
        return cls.model_validate({**own, "stamp": stamp, "task": task})

    def to_wire(self) -> JsonObject:
        """Flat wire object; shares (does not copy) the nested values."""
        ref = {"agent_ref": {"type": self.agent_ref.type, "name": self.agent_ref.name}} if self.agent_ref else {}
        return {"responses_create_params": self.responses_create_params, **ref, **self.stamp.to_wire(), **self.task}

    @property
    def name(self) -> str | None:
        """What the row calls itself: its `instance_id` (or that in its request's metadata), else `uuid`, else `id`;
        None: none of them is a string."""
        metadata = self.responses_create_params.get("metadata")
        inner = metadata.get("instance_id") if isinstance(metadata, dict) else None
        named = (self.task.get("instance_id"), inner, self.task.get("uuid"), self.task.get("id"))
        return next((name for name in named if isinstance(name, str) and name), None)


class EndState(Record):
    """What an environment that judges by state, and not by a patch, wants of the sandbox at a rollout's end."""

    artifacts: list[str] = Field(default_factory=list)
    """Absolute paths of files and folders that travel to the verifier, as the response's `artifacts`."""
    exclude: list[str] = Field(default_factory=list)
    """Shell patterns of paths below them that stay behind; one without a slash is that of a name at any depth."""
    max_bytes: int = Field(default=64 << 20, ge=0)
    """What the artifacts may hold in all, before compression; more than that does not travel at all."""
    sandbox: bool = False
    """True: the sandbox itself is handed over, alive, and destroyed after the verdict."""


class Session(Record):
    """Reply of `/seed_session`: what an agent may see of a task. An allow-list: nothing else of the row reaches it."""

    session_id: str | None = None
    """None: the environment keeps no state between seed and verify."""
    image: str | None = None
    """Sandbox image; None: the task needs no sandbox."""
    workdir: str | None = None
    tools: list[JsonObject] = Field(default_factory=list)
    """Responses API definitions of the tools that the environment serves within the session."""
    opening: list[JsonObject] = Field(default_factory=list)
    """Items that the model sees after the row's `input`: the first observation of an environment that is stepped."""
    visible: JsonObject = Field(default_factory=dict)
    """Task fields that the agent may read, by name."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the sandbox, beside the image's own."""
    memory_mib: int | None = Field(default=None, ge=16)
    """MiB of memory that the task's sandbox may use; None: as many as the agent's block says."""
    agent_timeout_s: float | None = Field(default=None, gt=0)
    """Seconds that the harness may take; None: as many as the agent's block says."""
    end_state: EndState | None = None
    """None: the rollout is judged by its response, which has the patch where there is a repository."""

    def __str__(self) -> str:
        from paddock.types.display import session_line

        return session_line(self)

    def _repr_html_(self) -> str:
        from paddock.types.display import session_html

        return session_html(self)


COMPONENTS_TOLERANCE = 1e-9
"""How far the sum of reward components may be from the reward, relative to the largest of them."""


WEAK_ROW = "weak_row"
"""Name of the metric that is 1 for rows whose verdicts say little, such as those that expect words and nothing done."""


class Verdict(Record):
    """A judgement of what the policy did. A failure of the environment has none."""

    reward: float = Field(allow_inf_nan=False)
    reward_components: dict[str, Finite] = Field(default_factory=dict)
    """The parts that sum to the reward, by name; empty: it has no parts."""
    reason: str
    """Why, as a short stable key (`match`, `target_differs`, ...): one of a closed set per verifier."""
    comparator: str | None = None
    """Which of the verifier's rule sets judged; None where it has only one."""
    detail: str | None = None
    """One sentence for a reader: what was expected and what was there."""
    metrics: dict[str, Finite] = Field(default_factory=dict)
    """Numbers to average over rollouts; booleans as 0 and 1."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Words to count rollouts by, each name with few values in a data set (`repo`)."""
    extras: JsonObject = Field(default_factory=dict)
    """Further keys of the verify reply, flat on the wire (`category`, `expected_action`, ...)."""
    waited_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Seconds that the verifier waited for its turn on a busy machine before it began; 0 in a stored rollout, whose
    timing has it."""

    @model_validator(mode="after")
    def _components_sum(self) -> Self:
        parts = self.reward_components
        if not parts:
            return self
        total = math.fsum(parts.values())
        scale = max([1.0, *map(abs, parts.values())])
        if abs(total - self.reward) > COMPONENTS_TOLERANCE * scale:
            raise ValueError(f"reward {self.reward!r}, but its components {parts} sum to {total!r}")
        return self

    def to_wire(self) -> JsonObject:
        """The keys that stand flat beside the row and the response: `reward`, its parts where there are some, and the
        extras; shares (does not copy) them."""
        components = {"reward_components": self.reward_components} if self.reward_components else {}
        return {"reward": self.reward, **components, **self.extras}

    def record(self) -> JsonObject:
        """All that is not flat on the wire."""
        return self.model_dump(exclude={"extras"}, exclude_none=True)

    def __str__(self) -> str:
        from paddock.types.display import verdict_line

        return verdict_line(self)

    def _repr_html_(self) -> str:
        from paddock.types.display import verdict_html

        return verdict_html(self)


class Failure(Record):
    """Why a rollout has no verdict."""

    owner: Owner
    kind: str
    """Short stable key, such as `upstream_status`, `timeout`, `connection`."""
    message: str
    """What was wrong, where, and what would be right."""
    stage: str | None = None
    """Where in the rollout: `seed`, `model`, `verify`, ...; None: outside any stage."""
    retryable: bool = False
    doubtful: bool = False
    """The policy's commands may have caused it, or the machine: it can't be told which. Such a failure is tried again
    once; the second one of a rollout counts as the policy's."""


class Usage(Record):
    """Token counts of a rollout or a turn, as the engine reported them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Of the input, read from the engine's prompt cache; 0 too where the engine does not say."""
    reasoning_tokens: int = 0
    """Of the output, spent on reasoning; 0 too where the engine does not say."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


class WeightSpan(Record):
    """The range of a turn's sampled ids that one version of the weights sampled."""

    version: str | None
    """The version as the engine names it; None: it gave none."""
    start: int = Field(ge=0)
    """Index of the first among the turn's `sampled_ids`."""
    end: int
    """Index after the last."""


class Turn(Record):
    """One model call as recorded. Turns of a rollout form a tree by `parent`.

    The full prompt of a turn is the full prompt of its parent, the parent's `sampled_ids`, then `prompt_ids`.
    Ids are None where the engine gave none; they are never guessed.
    """

    id: str
    parent: str | None
    """The turn that this one's prompt continues token by token; None: it starts a branch."""
    prompt_ids: list[int] | None
    """Prompt ids after the parent's end; the whole prompt when `parent` is None."""
    sampled_ids: list[int] | None
    log_probs: list[Finite] | None
    """One per sampled id, of the sampling distribution."""
    weight_version: str | None
    """Version of the weights that sampled, as the engine names it; of several, the last."""
    finish_reason: FinishReason | None
    request_hash: str
    """SHA-256 (hex) of the canonical request."""
    output: list[JsonObject]
    """Responses API output items."""
    usage: Usage | None = None
    weight_spans: list[WeightSpan] = Field(default_factory=list)
    """Which weights sampled which ids, where more than one version did; empty: `weight_version` sampled all."""
    sampling: JsonObject = Field(default_factory=dict)
    """The sampling parameters that the engine was given."""
    overridden: list[str] = Field(default_factory=list)
    """Names of those that the server's config or the row set over the client's."""
    splice_broken: bool = False
    """True: the engine was to continue a turn's ids, and gave a prompt that does not begin with them. This turn starts
    a branch; neither it nor a turn that continues it is trained on."""
    routed_experts: str | None = None
    """Experts that tokens went through, as `paddock.types.routed_experts` writes them: a row for each token from the
    parent's last on (without a parent: from the first on) to the last but one of `sampled_ids`. None: not recorded."""

    @model_validator(mode="after")
    def _one_of_each_per_id(self) -> Self:
        if self.log_probs is not None and (self.sampled_ids is None or len(self.log_probs) != len(self.sampled_ids)):
            raise ValueError(
                f"turn {self.id}: {len(self.log_probs)} log-probs for {len(self.sampled_ids or [])} sampled ids"
            )
        if self.weight_spans:
            self._require_whole_spans(self.weight_spans)
        if self.routed_experts is not None:
            self._require_row_per_token(self.routed_experts)
        return self

    def _require_whole_spans(self, spans: Sequence[WeightSpan]) -> None:
        reached = 0
        for span in spans:
            if span.start != reached or span.end <= span.start:
                raise ValueError(f"turn {self.id}: weight span {span.start}:{span.end} after the first {reached} ids")
            reached = span.end
        if self.sampled_ids is None or reached != len(self.sampled_ids):
            raise ValueError(
                f"turn {self.id}: weight spans of {reached} ids for {len(self.sampled_ids or [])} sampled ids"
            )
        if spans[-1].version != self.weight_version:
            raise ValueError(
                f"turn {self.id}: weight version {self.weight_version!r}, but its last span's is {spans[-1].version!r}"
            )

    def _require_row_per_token(self, routed_experts: str) -> None:
        rows = text_shape(routed_experts).rows
        tokens = len(self.prompt_ids or ()) + len(self.sampled_ids or ()) - (self.parent is None)
        if self.sampled_ids is None or rows != tokens:
            raise ValueError(f"turn {self.id}: {rows} rows of routed experts for {tokens} tokens")

    def to_wire(self) -> JsonObject:
        """As JSON; shares (does not copy) the nested values: ids and log-probs are many."""
        usage = self.usage.__dict__ if self.usage else None
        wire = {**self.__dict__, "usage": usage, "weight_spans": list(map(vars, self.weight_spans))}
        if self.routed_experts is None:
            del wire["routed_experts"]
        return wire


class RolloutSettings(Record):
    """What an agent sets at the model server for one rollout, before its harness asks for anything."""

    sampling: JsonObject = Field(default_factory=dict)
    """Sampling parameters of the row, under the names of the Chat API: over the client's, under the server's."""
    max_turns: int | None = Field(default=None, ge=1)
    """Model calls that the rollout may make; one more is refused as an overflow of the context, which every client
    understands. None: any number."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Sampled tokens, as the engine counts them, from which on calls are refused in the same way. None: any number."""
    ends_at: float | None = None
    """Second since 1970 (UTC) from which on calls are refused in the same way; None: never."""


class TurnSummary(Record):
    """A recorded turn without its tokens."""

    id: str
    parent: str | None
    finish_reason: FinishReason | None
    output: list[JsonObject]
    """Responses API output items."""
    sampled_tokens: int | None
    """Number of sampled tokens, as the engine counted them; None: it did not."""


class TurnSummaryQuery(Record):
    """Body of `POST /r/<secret>/transcript`."""

    skip: int = Field(default=0, ge=0)
    """How many of the oldest turns the reply leaves out."""


class TurnSummaries(Record):
    """Reply of `POST /r/<secret>/transcript`: the rollout's turns so far, oldest first. The record goes on."""

    turns: list[TurnSummary]


class TurnRecord(Record):
    """Reply of `GET /r/<secret>/turns`: all turns of one rollout, oldest first."""

    engine: Engine
    turns: list[Turn]


class Timing(Record):
    """Seconds spent per stage of a rollout, on a monotonic clock. 0: the stage did not run."""

    seed_s: float = 0.0
    sandbox_s: float = 0.0
    """Waiting for a sandbox, making it, reading the changes made in it."""
    model_s: float = 0.0
    tools_s: float = 0.0
    verify_wait_s: float = 0.0
    """Waiting for the verifier's turn (`Verdict.waited_s`)."""
    verify_s: float = 0.0
    """Verifying, without that wait."""
    total_s: float = 0.0


class Rollout(Record):
    """A row, what was done with it, and a verdict or a failure: one line of `rollouts.jsonl`."""

    row: Row
    outcome: Outcome
    response: JsonObject | None = None
    """The final Responses API response; None when the model never answered."""
    engine: Engine | None = None
    turns: list[Turn] = Field(default_factory=list)
    verdict: Verdict | None = None
    failure: Failure | None = None
    timing: Timing = Timing()
    usage: Usage = Usage()
    ended_at: float | None = None
    """Second since 1970 (UTC) in which the collector stored the verdict; None: it does not say."""
    cost_usd: float | None = None
    """USD, by the prices that the collector was given; None: it had none for the model, or tokens were not counted."""

    @model_validator(mode="after")
    def _verdict_xor_failure(self) -> Self:
        rewarded = self.outcome in REWARDED
        if rewarded != (self.verdict is not None) or rewarded == (self.failure is not None):
            needed = "a verdict and no failure" if rewarded else "a failure and no verdict"
            raise ValueError(f"outcome {self.outcome!r} needs {needed}")
        return self

    @property
    def reward(self) -> float | None:
        """None unless the outcome carries one."""
        return self.verdict.reward if self.verdict else None

    def to_wire(self) -> JsonObject:
        """One line of `rollouts.jsonl`, and the reply of `/run`; shares (does not copy) the nested values."""
        own = self.model_dump(exclude={"row", "response", "verdict", "turns"}, exclude_none=True)
        own["turns"] = [turn.to_wire() for turn in self.turns]
        verdict: JsonObject = {}
        if self.verdict is not None:
            verdict = self.verdict.to_wire()
            own["verdict"] = self.verdict.record()
            own["extras"] = list(self.verdict.extras)
        return {**self.row.to_wire(), "response": self.response, **verdict, "rollout": own}

    def __str__(self) -> str:
        from paddock.types.display import rollout_line

        return rollout_line(self)

    def _repr_html_(self) -> str:
        from paddock.types.display import rollout_html

        return rollout_html(self)


class Fix(Record):
    """A task's known solution, for playing it through an agent's own tools. It reaches the collector and no agent."""

    patch: bytes
    """A git patch of text files, paths below `workdir`."""
    workdir: str
    """Absolute, as the agent sees it."""
    files: dict[str, str] = {}
    """Texts of the files that the patch touches, before it, by path below `workdir`; a missing file is unknown. With
    them each edit can be named by a text that occurs once in its file."""
    test_command: str = "true"
    """A shell line that the agent may run: in its sandbox, without what is hidden."""
