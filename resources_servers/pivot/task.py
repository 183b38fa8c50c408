"""A pivot row's task: the action the expert took at this step, and how a comparator answers.

Row     `expected_action` (object), else `expected_answer` (JSON string), else `metadata.expected_action`: the order
        of NeMo-Gym's two pivot servers. Types `message`, `function_call`, `function_call_batch`.
Errors  an expected action that is missing, of another type, or whose arguments do not decode is the row's fault:
        RowError naming the key; it is never scored.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from paddock.errors import RowError, describe
from paddock.tools import decode_lenient
from paddock.types import JsonObject
from paddock.types.responses import messages, output_items


class _ExpectedAction(BaseModel):
    """Keys of the published rows that no comparator reads (`id`, `status`, ...) are kept out, not refused."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ExpectedMessage(_ExpectedAction):
    type: Literal["message"]
    content: str | list[Any] = ""


class ExpectedCall(_ExpectedAction):
    type: Literal["function_call"]
    name: str = Field(min_length=1)
    arguments: str
    """JSON object as text."""

    @field_validator("arguments")
    @classmethod
    def _decodes_to_an_object(cls, value: str) -> str:
        try:
            decoded = decode_lenient(value)
        except ValueError as error:
            raise ValueError(f"not JSON: {error}") from error
        if not isinstance(decoded, dict):
            raise ValueError("decodes to no JSON object")
        return value

    @property
    def decoded(self) -> JsonObject:
        value: JsonObject = json.loads(self.arguments)
        return value


class ExpectedBatch(_ExpectedAction):
    type: Literal["function_call_batch"]
    calls: list[ExpectedCall] = Field(min_length=1)


ExpectedAction = ExpectedMessage | ExpectedCall | ExpectedBatch
_ADAPTER: TypeAdapter[ExpectedAction] = TypeAdapter(Annotated[ExpectedAction, Field(discriminator="type")])


class ActionComparison(NamedTuple):
    """A comparator's result: `reason` is one of its closed set, `reward` is in [0, 1]."""

    reward: float
    reason: str
    detail: str = ""
    metrics: Mapping[str, float] = {}
    extras: Mapping[str, Any] = {}


def expected_calls(action: ExpectedAction) -> list[ExpectedCall]:
    """Return the expected calls in order; none for a message."""
    if isinstance(action, ExpectedBatch):
        return action.calls
    return [action] if isinstance(action, ExpectedCall) else []


def chars_of(response: object) -> int:
    """Count the characters of a response's calls and messages."""
    return call_chars_of(response) + sum(map(len, messages(response)))


def call_chars_of(response: object) -> int:
    """Count the characters of the arguments of a response's calls."""
    texts = (item.get(key) for item in output_items(response) for key in ("arguments", "input"))
    return sum(len(text) for text in texts if isinstance(text, str))


def read_expected(task: Mapping[str, Any]) -> ExpectedAction:
    """Read the expected action of a row's task; RowError when there is none that can be used."""
    key, value = _find(task)
    try:
        return _ADAPTER.validate_python(value)
    except ValidationError as error:
        raise RowError(f"{key}: {describe(error)}", kind="expected_action_invalid", stage="seed") from error


def _find(task: Mapping[str, Any]) -> tuple[str, Any]:
    if task.get("expected_action") is not None:
        return "expected_action", task["expected_action"]
    if task.get("expected_answer") is not None:
        raw = task["expected_answer"]
        try:
            return "expected_answer", decode_lenient(raw) if isinstance(raw, str) else raw
        except ValueError as error:
            raise RowError(
                f"expected_answer: not JSON: {error}", kind="expected_action_invalid", stage="seed"
            ) from error
    metadata = task.get("metadata")
    if isinstance(metadata, Mapping) and metadata.get("expected_action") is not None:
        return "metadata.expected_action", metadata["expected_action"]
    raise RowError(
        "expected_action: missing; a pivot row needs an object of type message, function_call or function_call_batch",
        kind="expected_action_missing",
        stage="seed",
    )
