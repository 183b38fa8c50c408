"""What the agent and its workers tell each other: one JSON line for a job, one for its result."""

from typing import Literal

from paddock.types import JsonObject, Record


class SampleModel(Record):
    """A model that a sample may ask."""

    base_url: str
    """Ends in `/v1`."""
    api_key: str
    model: str


class SampleJob(Record):
    """One sample to run."""

    task: str
    """As `inspect eval` names it."""
    args: JsonObject = {}
    sample_id: str | int
    policy: SampleModel
    judge: SampleModel | None = None
    """What scorers ask as the role `grader`."""
    generate: JsonObject = {}
    """Fields of inspect_ai's `GenerateConfig` for the policy."""
    message_limit: int | None = None
    token_limit: int | None = None
    time_limit_s: int | None = None


class SampleResult(Record):
    """How it ended."""

    failed: Literal["row", "task", "sample", "scorer", "judge"] | None = None
    """What failed: the row names no sample; the task could not be read; its solver or model; its scorer; its scorer
    grades by the policy. None: none."""
    error: str = ""
    scores: dict[str, float | str] = {}
    """By the scorer's name, and `/key` for each of several values. A text is a value that is no number."""
    explanations: dict[str, str] = {}
    """By the scorer's name."""
    limit: str | None = None
    """The limit that ended the sample, by inspect_ai's name."""
    is_cut: bool = False
    """The last answer was cut at a limit of tokens."""
    items: list[JsonObject] = []
    """The conversation after the task's own messages, as Responses API items."""
