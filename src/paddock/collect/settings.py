"""Settings of a collection: the `eval` block of a config; most fields are flags of `paddock eval` too.

Flags   `SETTINGS` in `paddock.cli.eval` says which, with their help.
Units   seconds as float; a row's index counts the non-empty lines of all row files, in order, from 0.
Errors  a value that breaks a field's rule is a ConfigError that names the field.
"""

from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

from paddock.collect.prices import TokenPrice
from paddock.errors import ConfigError
from paddock.types import TERMINAL, FailedOutcome

MIN_FAILURES = 20
ClusterAddress = Annotated[str, Field(pattern=r"^(auto|[^:\s]+:\d+)$")]
Label = Annotated[str, Field(pattern=r"^[^=\s]+=[^=\s]*$")]
Split = Literal["train", "validation", "example", "benchmark"]


class EvalSettings(BaseModel):
    """Settings of one collection. Everything has a default; nothing here is secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    out: str | None = None
    """Folder of the run; None: `runs/<name of the first config file>`."""
    rows: list[str] = []
    """Row files; none: the datasets of the agents, of `split`."""
    prompt_config: str | None = None
    """Path of a YAML file with the prompt of `rows`, which then bring none; as a dataset's. None: each row brings its
    own."""
    split: Split | None = None
    """Which datasets; None: all, when the agents have datasets of one type alone."""
    agent: str | None = None
    """Agent for rows without `agent_ref`; None: the dataset's own, else the only one there is."""
    repeats: int | None = Field(default=None, ge=1)
    """Rollouts per row; None: as the dataset says, 1 for a row file."""
    limit: int | None = Field(default=None, ge=1)
    """At most this many rows, counted inside `slice`; None: all."""
    slice: str | None = None
    """`first:end`, row indices, end excluded, either may be missing; None: all."""
    shard: str | None = None
    """`i/n`: of the selected rows those whose index modulo n is i, 0 <= i < n; None: all."""
    strict_rows: bool = False
    """Refuse to start when any row is wrong; otherwise such a row ends with outcome `row`, and the others run."""
    concurrency: int = Field(default=64, ge=1)
    """Rollouts in flight."""
    workers: int | None = Field(default=None, ge=1)
    """Processes that rollouts run in, which share `concurrency`; each has agents and servers of its own, but for those
    of which there can be only one. With `cluster` there are at most so many. 1: this process alone. None: 1, or with
    `cluster` one for each CPU of its nodes."""
    cluster: ClusterAddress | None = None
    """The Ray cluster on whose nodes the workers are, as HOST:PORT, or `auto`: the one that RAY_ADDRESS or this machine
    knows. None: they are here."""
    cluster_label: Label | None = None
    """`KEY=VALUE` of the cluster's nodes that workers may be on, as `ray start --labels` gave it; None: any."""
    cluster_look_s: float = Field(default=5.0, gt=0)
    """Seconds between two looks at the cluster for nodes that have joined."""
    cluster_wait_s: float = Field(default=120.0, gt=0)
    """Seconds that a collection waits while no worker has a place on the cluster, at its start and later; then it
    ends, and can be resumed."""
    max_artifacts_mib: int = Field(default=256, ge=0)
    """MiB of files beside one attempt (an agent's `artifacts_dir`) that a worker of a cluster sends to the command;
    those that would pass it are named in a note among them, `not_sent.txt`."""
    worker_silence_s: float = Field(default=300.0, gt=0)
    """Seconds without a sign of a worker process, which gives one each second; then it is ended and replaced."""
    max_attempts: int = Field(default=3, ge=1)
    """Attempts per rollout and command, the first included; only outcomes `infra` and `verifier` are tried again. An
    `infra` that the policy may have caused is tried again once in all, and for it even where this number is used up."""
    retry_wait_s: float = Field(default=1.0, ge=0)
    """Seconds before the second attempt; twice as long before each further one, at most 60."""
    rollout_timeout_s: float | None = Field(default=None, gt=0)
    """Seconds for one attempt, wall clock; then it is an `infra` failure of kind `timeout`. None: as long as its
    agent's own `rollout_timeout_s`."""
    deadline_s: float | None = Field(default=None, gt=0)
    """Seconds for the whole collection; then it stops as if interrupted, and can be resumed. None: no end."""
    stop_after_failures: int | None = Field(default=None, ge=0)
    """Attempts in a row that failed for one cause (owner, kind and stage), without a verdict between them, after which
    the collection stops, and can be resumed. Only outcomes `infra` and `verifier` count. 0: it never stops. None: as
    many as all rollouts in flight may make, and at least 20."""
    retry: list[Literal["row"]] = []
    """Outcomes that a resumed run tries again besides those that it always does (`infra`, `verifier`, `cancelled`)."""
    endpoint_timeout_s: float = Field(default=5.0, ge=0)
    """Seconds for the trial of each model's endpoint before anything is started: who does not answer is warned of, what
    can't work (no server, a refused key, a model that is not there) ends the command. Not with `cluster`. 0: none is
    tried."""
    min_free_disk_mib: int = Field(default=16, ge=0)
    """MiB that have to be free on the disk of the run's folder before anything is started; 0: any room will do."""
    stuck_after_s: float = Field(default=1800.0, ge=0)
    """Seconds in one stage after which a rollout is named in a line of its own, once, where stderr is no terminal (a
    terminal always shows those that run the longest). A program's whole work is one stage, `model`. 0: no such line."""
    usd_per_million_tokens: dict[str, TokenPrice] = {}
    """Prices of models, by the name that a model server's `model` has: `{gpt-5: {input: 1.25, output: 10}}`. Rollouts
    of these have a cost in every report; those of other models have none."""
    progress_every_s: float = Field(default=10.0, gt=0)
    """Seconds between progress lines where there is no terminal."""

    @field_validator("retry", mode="before")
    @classmethod
    def _retryable_only(cls, value: object) -> object:
        words = [word.strip() for word in value.split(",")] if isinstance(value, str) else value
        for word in words if isinstance(words, list) else ():
            if word in get_args(FailedOutcome) and word not in TERMINAL:
                raise ValueError(f"`{word}` is tried again by every resumed run; what may be added is `row`")
            if word == "leak":
                raise ValueError("`leak` is what the policy did: trying until it does not would flatter it")
        return words

    @property
    def failures_limit(self) -> int:
        """`stop_after_failures` as a number."""
        limit = self.stop_after_failures
        return max(MIN_FAILURES, self.max_attempts * self.concurrency) if limit is None else limit


class Selection(NamedTuple):
    """Which row indices take part: `first <= index < end`, and `index % shards == shard`."""

    first: int = 0
    end: int | None = None
    shard: int = 0
    shards: int = 1

    def takes(self, index: int) -> bool:
        return index >= self.first and not self.is_past(index) and index % self.shards == self.shard

    def is_past(self, index: int) -> bool:
        return self.end is not None and index >= self.end

    def n_between(self, first: int, end: int) -> int:
        """How many of the indices `first <= index < end` take part."""
        low = max(first, self.first)
        high = end if self.end is None else min(end, self.end)
        low += (self.shard - low) % self.shards
        return max(0, (high - low + self.shards - 1) // self.shards)


def selection(settings: EvalSettings) -> Selection:
    """The rows that `slice`, `limit` and `shard` leave."""
    first, end = _slice(settings.slice)
    if settings.limit is not None:
        end = first + settings.limit if end is None else min(end, first + settings.limit)
    shard, shards = _shard(settings.shard)
    return Selection(first, end, shard, shards)


def _slice(text: str | None) -> tuple[int, int | None]:
    if text is None:
        return 0, None
    first, colon, end = text.partition(":")
    if not colon or not all(part == "" or part.isdecimal() for part in (first, end)):
        raise ConfigError(f"eval.slice: needs `first:end` with row indices, got {text!r}", kind="slice_invalid")
    return int(first or 0), int(end) if end else None


def _shard(text: str | None) -> tuple[int, int]:
    if text is None:
        return 0, 1
    shard, _, shards = text.partition("/")
    if not (shard.isdecimal() and shards.isdecimal() and int(shard) < int(shards)):
        raise ConfigError(f"eval.shard: needs `i/n` with 0 <= i < n, got {text!r}", kind="shard_invalid")
    return int(shard), int(shards)
