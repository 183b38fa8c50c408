"""A row's tests, and the program in a response.

Row     `verifier_metadata.unit_tests`: `inputs`, `outputs` and, for a function, `fn_name`, as NeMo-Gym's code_gen and
        LiveCodeBench have them; `verifier_metadata.language`: a name of the config's languages, `python` where it is
        missing; `solution`: a program that passes, for `--oracle`. A function's input has one JSON value a line.
        At least one output is neither blank nor null.
Program the last closed fenced block (```) of the last message with text, after the last `</think>`.
"""

import json
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from paddock.types import JsonObject
from paddock.types.responses import final_text

FENCE = "```"
PYTHON = "python"
_NOTHING = ("", "null")


class UnitTests(BaseModel):
    """Inputs and what has to come out of each."""

    model_config = ConfigDict(frozen=True)

    inputs: list[str] = Field(min_length=1)
    outputs: list[str]
    fn_name: str | None = None
    """A function, or a method of the class `Solution`; None: programs that read stdin and write stdout."""

    @field_validator("fn_name")
    @classmethod
    def _identifier(cls, name: str | None) -> str | None:
        if name and not name.isidentifier():
            raise ValueError("no name of a function")
        return name or None

    @model_validator(mode="after")
    def _pairs(self) -> Self:
        if len(self.inputs) != len(self.outputs):
            raise ValueError(f"{len(self.inputs)} inputs, but {len(self.outputs)} outputs")
        if all(text.strip() in _NOTHING for text in self.outputs):
            raise ValueError("outputs: none says anything, so a program that does nothing would pass")
        if self.fn_name is not None:
            for text in (*self.outputs, *(line for given in self.inputs for line in given.split("\n"))):
                try:
                    json.loads(text)
                except ValueError as error:
                    raise ValueError(f"{text[:80]!r} is no JSON value, which a function's tests consist of") from error
        return self


class VerifierMetadata(BaseModel):
    """What the verifier needs; further keys are kept and not read."""

    model_config = ConfigDict(frozen=True)

    unit_tests: UnitTests
    language: str = PYTHON

    @model_validator(mode="after")
    def _functions_in_python(self) -> Self:
        if self.unit_tests.fn_name is not None and self.language != PYTHON:
            raise ValueError(f"unit_tests.fn_name: functions are called in {PYTHON} alone, not in {self.language}")
        return self


class CodeTask(BaseModel):
    """The tests; every other key of the row is kept and not read."""

    model_config = ConfigDict(frozen=True)

    verifier_metadata: VerifierMetadata
    solution: str | None = None


def program_of(response: JsonObject) -> str | None:
    """The program of a response; None: it has none."""
    text = final_text(response)
    if text is None:
        return None
    lines = text.split("\n")
    fences = [number for number, line in enumerate(lines) if line.lstrip().startswith(FENCE)]
    if len(fences) % 2:
        fences.pop()  # the last was not closed
    if not fences:
        return None
    program = "\n".join(lines[fences[-2] + 1 : fences[-1]])
    return program if program.strip() else None
