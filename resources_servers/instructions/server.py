"""Verifiable instructions of IFEval's and IFTrain's kinds; rows as NeMo-Gym's `instruction_following` has them.

Reward  `grading_mode` of the row: `binary` pays an answer that obeys all instructions, `fraction` the share that it
        obeys. An answer without text earns nothing, though it may forbid itself a word; a row all of whose
        instructions it obeys has the metric `weak_row`.
Reasons `all_followed`, `some_followed`, `none_followed`, `empty`, `too_long`.
Errors  an unknown kind, or an argument that is missing, is RowError; whatever the policy wrote is judged.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from paddock.config.problems import suggestion
from paddock.errors import BugError, RowError, describe
from paddock.resources_servers.instructions.checks import Arguments
from paddock.resources_servers.instructions.ifeval import NEEDS_LANGUAGE
from paddock.resources_servers.instructions.kinds import KINDS
from paddock.server import ResourcesServer, ServerConfig
from paddock.types import JsonObject, Row, Verdict
from paddock.types.records import WEAK_ROW
from paddock.types.responses import message_item, messages

_MAX_CHARS_ON_LOOP = 16_384
"""Characters of an answer that take the checks some milliseconds at most."""
MAX_INSTRUCTIONS = 100


class InstructionsConfig(ServerConfig):
    """What an answer may be."""

    max_answer_chars: int = Field(default=200_000, ge=1)
    """Characters of an answer; a longer one is not read and earns nothing."""


class InstructionsTask(BaseModel):  # type: ignore[no-redef]  # of the plugin's own making: a field of that alias
    """The keys of a row that are read; `prompt`, `id` and all others are not."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    instruction_id_list: list[str] = Field(min_length=1, max_length=MAX_INSTRUCTIONS)
    arguments: list[dict[str, Any] | None] = Field(alias="kwargs")
    grading_mode: Literal["binary", "fraction"] = "binary"
    example_answer: str | None = None
    """An answer that obeys, for `--oracle`."""


class Instruction(NamedTuple):
    """One instruction of a row."""

    kind: str
    arguments: Arguments

    def followed_by(self, text: str) -> bool:
        return KINDS[self.kind].follows(text, self.arguments)


class InstructionsServer(ResourcesServer[InstructionsConfig, InstructionsTask]):
    config_type = InstructionsConfig
    task_type = InstructionsTask
    example = {
        "responses_create_params": {"input": "Name two colours, without a comma."},
        "instruction_id_list": ["punctuation:no_comma"],
        "kwargs": [{}],
        "response": {"output": [message_item("Green and blue.")]},
    }

    def read_task(self, row: Row) -> InstructionsTask:
        task = super().read_task(row)
        read_instructions(task)
        return task

    async def verify(self, task: InstructionsTask, row: Row, response: JsonObject) -> Verdict:
        instructions = read_instructions(task)
        text = "".join(messages(response))
        weak = {WEAK_ROW: float(all(one.followed_by("") for one in instructions if one.kind not in NEEDS_LANGUAGE))}
        if len(text) > self.config.max_answer_chars:
            return Verdict(reward=0.0, reason="too_long", metrics=weak)
        if not text.strip():
            return Verdict(reward=0.0, reason="empty", metrics=weak)
        slow = len(text) > _MAX_CHARS_ON_LOOP or any(one.kind in NEEDS_LANGUAGE for one in instructions)
        followed = await asyncio.to_thread(_followed, instructions, text) if slow else _followed(instructions, text)
        return self._verdict(task, row, followed, weak)

    def _verdict(self, task: InstructionsTask, row: Row, followed: list[bool], weak: dict[str, float]) -> Verdict:
        share = sum(followed) / len(followed)
        missed = [kind for kind, yes in zip(task.instruction_id_list, followed, strict=True) if not yes]
        found: JsonObject = {"follow_instruction_list": followed, "follow_all_instructions": not missed}
        return Verdict(
            reward=float(not missed) if task.grading_mode == "binary" else share,
            reason="some_followed" if 0 < share < 1 else "none_followed" if missed else "all_followed",
            comparator=task.grading_mode,
            detail=f"not followed: {', '.join(missed)}" if missed else None,
            metrics={**weak, "followed": share},
            extras={key: value for key, value in found.items() if key not in row.task},
        )

    def oracle(self, task: InstructionsTask, row: Row) -> Sequence[Sequence[JsonObject]]:
        """Return the row's own `example_answer`."""
        if task.example_answer is None:
            raise BugError("the row has no `example_answer`", kind="no_oracle")
        return [[message_item(task.example_answer)]]


def _followed(instructions: Sequence[Instruction], text: str) -> list[bool]:
    return [one.followed_by(text) for one in instructions]


def read_instructions(task: InstructionsTask) -> list[Instruction]:
    """Read the instructions of a row; RowError for an unknown kind, or arguments that it can't use."""
    kinds, given = task.instruction_id_list, task.arguments
    if len(kinds) != len(given):
        raise RowError(f"kwargs: {len(given)} for {len(kinds)} in instruction_id_list", kind="task_invalid")
    instructions = []
    for index, (kind, arguments) in enumerate(zip(kinds, given, strict=True)):
        known = KINDS.get(kind)
        if known is None:
            raise RowError(
                f"instruction_id_list.{index}: no kind {kind!r}{suggestion(kind, KINDS)}", kind="instruction_unknown"
            )
        named = {key: value for key, value in (arguments or {}).items() if value is not None}
        try:
            instructions.append(Instruction(kind, known.arguments.model_validate(named)))
        except ValidationError as error:
            raise RowError(f"kwargs.{index} of {kind}: {describe(error)}", kind="task_invalid") from error
    return instructions
