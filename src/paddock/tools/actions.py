"""What a tool call asks for, whatever tool it is made with.

Source  the tools named in `paddock.tools.names`.
Shapes  one frozen record per kind of action. `rest` holds the given arguments that matter and have no field of their
        own, without those that equal the tool's default; equal actions have equal `rest`. Paths are as given.
Errors  `Malformed` is what a call is that its tool would refuse.
"""

from dataclasses import dataclass, field
from typing import Literal

from paddock.edits import Edit as FileEdit
from paddock.types import Json, JsonObject

Refusal = Literal[
    "not_json", "not_object", "missing_argument", "wrong_type", "wrong_value", "unknown_argument", "bad_patch"
]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a call of a shell tool bounds; None: nothing, or the tool's own default."""

    time_s: float | None = None
    """Until the command is killed."""
    yield_s: float | None = None
    """Until the tool answers with what there is."""
    output_tokens: float | None = None


@dataclass(frozen=True, slots=True)
class Shell:
    """A command line run by a shell."""

    command: str
    workdir: str | None = None
    """None: wherever the tool runs."""
    rest: JsonObject = field(default_factory=dict)
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class Stdin:
    """Text for a program that is already running; empty text waits for more of its output."""

    text: str
    session: Json = None
    """None: the tool has one session."""
    rest: JsonObject = field(default_factory=dict)
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class Edit:
    """Changes to files, in order."""

    edits: tuple[FileEdit, ...]
    rest: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Read:
    """A look at a file, or at a directory by a tool that shows both."""

    path: str
    first_line: int = 1
    """From 1."""
    last_line: int | None = None
    """Included. None: to the end of the file or the tool's own limit."""
    rest: JsonObject = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        return self.first_line == 1 and self.last_line is None


@dataclass(frozen=True, slots=True)
class Search:
    """Text in files (`content`: the pattern is a regular expression) or files by name (`files`: a glob)."""

    pattern: str
    mode: Literal["content", "files"]
    path: str | None = None
    """None: wherever the tool runs."""
    include: str | None = None
    """Glob of the files to look in; None: all."""
    literal: bool = False
    """True: the pattern is plain text."""
    rest: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class List:
    """A directory listing."""

    path: str | None = None
    """None: wherever the tool runs."""
    rest: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of the task."""

    text: str | None = None
    """Last words; None: none given."""
    rest: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Think:
    """A thought that changes nothing."""

    text: str | None = None
    rest: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """A look at the task list, or a new one."""

    command: Literal["view", "plan"]
    steps: int = 0
    """How many steps the new list has."""
    rest: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to the user."""

    questions: int = 1
    rest: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Other:
    """A call of a tool that no table knows: its name and arguments are all there is."""

    name: str
    arguments: JsonObject


Action = Shell | Stdin | Edit | Read | Search | List | Finish | Think | Plan | Ask | Other


@dataclass(frozen=True, slots=True)
class Malformed:
    """A call that its tool would refuse."""

    reason: Refusal
    detail: str
