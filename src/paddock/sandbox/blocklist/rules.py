"""Rules as data: which commands are refused, by their program and their arguments, and what to do instead.

Shapes  a `Rule` has forms, and refuses a command that is of one of them; a `Form` is conditions that all hold.
Law     every pattern is a `regex` pattern that has to match a whole text (a name, an option, an operand); no rule sees
        the line. Options and operands are those of `arguments`.
Errors  a pattern that is none, and a form without a condition, raise pydantic's ValidationError.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated, ClassVar, Self

import regex
import yaml
from pydantic import AfterValidator, Field, model_validator

from paddock.sandbox.blocklist.arguments import ProgramProfile
from paddock.sandbox.blocklist.commands import Shape
from paddock.types import Record
from paddock.types.renamed import RenamedKeys


def _valid(pattern: str) -> str:
    try:
        regex.compile(pattern)
    except regex.error as error:
        raise ValueError(f"not a pattern: {error}") from error
    return pattern


Pattern = Annotated[str, AfterValidator(_valid)]


class Form(RenamedKeys, Record):
    """What a command has to be; None: anything."""

    OLD_NAMES: ClassVar[Mapping[str, str]] = {
        "first": "first_operand",
        "option_too": "second_option",
        "bare": "without_operands",
    }

    program: Pattern | None = None
    """Its name, without the directory."""
    shape: Shape = "command"
    """`command`: a command; `recursion`: a function that multiplies itself; `endless`: an endless loop."""
    subcommand: Pattern | None = None
    """Its subcommand, as `push` of git, where the program's profile says that it has one."""
    first_operand: Pattern | None = None
    """The first operand."""
    option: Pattern | None = None
    """Some option, with its value as `name=value`."""
    second_option: Pattern | None = None
    """Some option besides."""
    operand: Pattern | None = None
    """Some operand."""
    path: Pattern | None = None
    """Some operand as a path, seen from where the command runs."""
    writes: Pattern | None = None
    """Some file that a redirection writes."""
    reads: Pattern | None = None
    """Some file that a redirection reads."""
    no_option: Pattern | None = None
    """No option is this."""
    no_operand: Pattern | None = None
    """No operand is this."""
    no_path: Pattern | None = None
    """No operand as a path is this."""
    without_operands: bool = False
    """There is no operand."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.shape == "command" and not (self.program or self.writes or self.reads):
            raise ValueError("a form needs a program, a file that is written or read, or a shape")
        return self

    def patterns(self) -> Iterator[str]:
        """All of them."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            if name not in ("shape", "without_operands") and value is not None:
                yield value


class Rule(Record):
    """One thing that is refused."""

    name: str
    """By which settings switch it, and which a refusal names."""
    category: str
    """A word for its kind, which a refusal names too."""
    advice: str
    """What to do instead, for the model."""
    forms: list[Form] = Field(min_length=1)
    """What it refuses: a command of any of these forms."""


class RuleBook(Record):
    """The file `rules.yaml`."""

    profiles: list[ProgramProfile]
    rules: list[Rule]


@cache
def rule_book() -> RuleBook:
    """The rules that are shipped."""
    text = files("paddock.sandbox.blocklist").joinpath("rules.yaml").read_text("utf-8")
    return RuleBook.model_validate(yaml.safe_load(text))
