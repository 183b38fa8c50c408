"""Structured output, graded by a JSON Schema; rows as NeMo-Gym's `structured_outputs` has them.

Reward  1 where the answer is exactly one document of the row's format and its schema takes it, else 0. What a field
        says is not looked at: a row whose schema takes an empty document has the metric `weak_row`.
Reasons `valid`, `invalid`, `no_document`, `empty`, `too_long`; of rows that ask for a tool call, `no_call`,
        `several_calls`, `other_tool`, `no_payload`.
Errors  a schema that can't be used is RowError; whatever the policy wrote is judged.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from paddock.errors import BugError, RowError
from paddock.resources_servers.schema.documents import DocumentError, Format, read_document, without_fence
from paddock.resources_servers.schema.schemas import (
    AnswerSchema,
    SchemaError,
    compile_schema,
    problem_of,
    typed_csv,
    typed_xml,
)
from paddock.server import ResourcesServer, ServerConfig
from paddock.types import JsonObject, Row, Verdict
from paddock.types.records import WEAK_ROW
from paddock.types.responses import call_item, message_item, messages, output_items, tool_call

_MAX_CHARS_ON_LOOP = 8192
"""Characters of an answer that take a reader some milliseconds at most."""


class SchemaConfig(ServerConfig):
    """How answers are read and schemas are meant."""

    strict: bool = True
    """True: each property that a schema lists is required, and no other is taken. False: as the schema says."""
    formats: bool = False
    """Whether `format` of a schema (dates, addresses, ...) is checked."""
    fence: bool = False
    """Whether the whole answer may stand in one Markdown fence."""
    xml_types: bool = True
    """Whether texts of XML are taken for numbers, booleans and lists where the schema names those."""
    max_answer_chars: int = Field(default=100_000, ge=1)
    """Characters of an answer; a longer one is not read and earns nothing."""


class SchemaTask(BaseModel):
    """The keys of a row that are read; all others are not."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_str: str
    schema_type: Format = "json"
    response_mode: Literal["text", "tool_call"] | None = "text"
    tool_name: str | None = None
    tool_payload_key: str | None = None
    example_answer: str | None = None
    """An answer that the schema takes, for `--oracle`; of a tool call its arguments."""


class SchemaJudgement(NamedTuple):
    """A reason and, where it is a refusal, what was wrong."""

    reason: str
    detail: str | None = None


class SchemaServer(ResourcesServer[SchemaConfig, SchemaTask]):
    config_type = SchemaConfig
    task_type = SchemaTask
    example = {
        "responses_create_params": {"input": "Give the name and the year of a ship as JSON."},
        "schema_str": '{"type": "object", "properties": {"name": {"type": "string"}, "year": {"type": "integer"}}}',
        "response": {"output": [message_item('{"name": "Fram", "year": 1892}')]},
    }

    def read_task(self, row: Row) -> SchemaTask:
        task = super().read_task(row)
        self._schema(task)
        return task

    def _schema(self, task: SchemaTask) -> AnswerSchema:
        try:
            return compile_schema(task.schema_str, strict=self.config.strict, formats=self.config.formats)
        except SchemaError as error:
            raise RowError(f"schema_str: {error}", kind="schema_invalid") from error

    async def verify(self, task: SchemaTask, row: Row, response: JsonObject) -> Verdict:
        schema = self._schema(task)
        judgement = self._unread(task, response)
        if judgement is None:
            text = self._text(task, response)
            if len(text) > self.config.max_answer_chars:
                judgement = SchemaJudgement("too_long")
            elif len(text) > _MAX_CHARS_ON_LOOP:
                judgement = await asyncio.to_thread(self.judge, task, schema, text)
            else:
                judgement = self.judge(task, schema, text)
        return Verdict(
            reward=float(judgement.reason == "valid"),
            reason=judgement.reason,
            detail=judgement.detail,
            metrics={WEAK_ROW: float(schema.takes_empty)},
        )

    def _unread(self, task: SchemaTask, response: JsonObject) -> SchemaJudgement | None:
        """Say what is wrong with a response before its text is read; None: nothing."""
        if task.response_mode != "tool_call":
            return None
        calls = [tool_call(item) for item in output_items(response) if item.get("type") == "function_call"]
        if len(calls) != 1:
            return SchemaJudgement("several_calls" if calls else "no_call")
        return SchemaJudgement("other_tool") if task.tool_name not in (None, "", calls[0].name) else None

    def _text(self, task: SchemaTask, response: JsonObject) -> str:
        if task.response_mode == "tool_call":
            return next(tool_call(i).arguments for i in output_items(response) if i.get("type") == "function_call")
        return "".join(messages(response))

    def judge(self, task: SchemaTask, schema: AnswerSchema, text: str) -> SchemaJudgement:
        """Judge the text of an answer, or the arguments of its call; pure."""
        if not text.strip():
            return SchemaJudgement("empty")
        try:
            value = self._value(task, schema, text)
        except DocumentError as error:
            return SchemaJudgement("no_document", str(error))
        except _NoPayloadError:
            return SchemaJudgement("no_payload", f"no key {task.tool_payload_key!r}")
        problem = problem_of(schema, value)
        return SchemaJudgement("valid") if problem is None else SchemaJudgement("invalid", problem)

    def _value(self, task: SchemaTask, schema: AnswerSchema, text: str) -> Any:
        if task.response_mode == "tool_call":
            value = read_document(text, "json")
            if not task.tool_payload_key:
                return value
            if not isinstance(value, dict) or task.tool_payload_key not in value:
                raise _NoPayloadError
            return value[task.tool_payload_key]
        value = read_document(without_fence(text) if self.config.fence else text, task.schema_type)
        if task.schema_type == "xml" and self.config.xml_types:
            return typed_xml(value, schema.schema)
        return typed_csv(value, schema.schema) if task.schema_type == "csv" else value

    def oracle(self, task: SchemaTask, row: Row) -> Sequence[Sequence[JsonObject]]:
        """Return the row's own `example_answer`."""
        if task.example_answer is None:
            raise BugError("the row has no `example_answer`", kind="no_oracle")
        if task.response_mode == "tool_call":
            return [[call_item(task.tool_name or "answer", task.example_answer)]]
        return [[message_item(task.example_answer)]]


class _NoPayloadError(Exception):
    pass
