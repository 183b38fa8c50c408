"""Actions: what tool calls ask for, whatever tools they are made with.

Source  the tools named in `paddock.tools.names`.
Shapes  one frozen record per kind of action. `rest` holds the arguments that matter and have no field of their own,
        without those that equal the tool's default; equal actions have equal `rest`. Paths are as given.
Errors  `InvalidCall` stands for a call that its tool would refuse.
"""

from dataclasses import dataclass, field
from typing import Literal

from paddock.edits import Edit as FileEdit
from paddock.types import Json, JsonObject

RefusalReason = Literal[
    "not_json", "not_object", "missing_argument", "wrong_type", "wrong_value", "unknown_argument", "bad_patch"
]


@dataclass(frozen=True, slots=True)
class CommandLimits:
    """The limits that a call of a shell tool sets; None: none, or the tool's default."""

    time_s: float | None = None
    """Seconds until the command is killed."""
    yield_s: float | None = None
    """Seconds until the tool returns the output so far."""
    output_tokens: float | None = None


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command line run by a shell."""

    command: str
    workdir: str | None = None
    """None: wherever the tool runs."""
    rest: JsonObject = field(default_factory=dict)
    limits: CommandLimits = CommandLimits()


@dataclass(frozen=True, slots=True)
class Stdin:
    """Text for a program that is already running; empty text waits for more of its output."""

    text: str
    session: Json = None
    """None: the tool has one session."""
    rest: JsonObject = field(default_factory=dict)
    limits: CommandLimits = CommandLimits()


@dataclass(frozen=True, slots=True)
class Edit:
    """Changes to files, in order."""

    edits: tuple[FileEdit, ...]
    rest: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadFile:
    """Reads a file, or a directory by a tool that shows both."""

    path: str
    first_line: int = 1
    """From 1."""
    last_line: int | None = None
    """The last line, included. None: to the end of the file or the tool's own limit."""
    rest: JsonObject = field(default_factory=dict)
    shows_folders: bool = field(default=True, compare=False)
    """Whether its tool lists a directory; False: it shows files alone, by its name."""

    @property
    def whole(self) -> bool:
        return self.first_line == 1 and self.last_line is None


@dataclass(frozen=True, slots=True)
class Search:
    """Searches text in files (`content`: the pattern is a regular expression) or files by name (`files`: a glob)."""

    pattern: str
    mode: Literal["content", "files"]
    path: str | None = None
    """None: wherever the tool runs."""
    include: str | None = None
    """Glob of the files to search; None: all."""
    literal: bool = False
    """True: the pattern is plain text."""
    rest: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ListFolder:
    """A directory listing."""

    path: str | None = None
    """None: wherever the tool runs."""
    rest: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of the task."""

    text: str | None = None
    """The final message; None: there is none."""
    rest: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Think:
    """A thought that changes nothing."""

    text: str | None = None
    rest: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UpdatePlan:
    """Shows the task list (`view`), or sets a new one (`plan`)."""

    command: Literal["view", "plan"]
    steps: int = 0
    """How many steps the new list has."""
    rest: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to the user."""

    questions: int = 1
    text: str | None = None
    """The questions, one below the other."""
    rest: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OtherCall:
    """A call of a tool that is in no table: only its name and arguments are known."""

    name: str
    arguments: JsonObject


Action = ShellCommand | Stdin | Edit | ReadFile | Search | ListFolder | Finish | Think | UpdatePlan | Ask | OtherCall


@dataclass(frozen=True, slots=True)
class InvalidCall:
    """A call that its tool would refuse."""

    reason: RefusalReason
    detail: str
