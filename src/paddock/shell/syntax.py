"""The tree of a shell command: frozen, hashable, without positions; equal trees are the same text up to spelling.

Source  the Shell Command Language of POSIX and the bash manual; only what bash does before it expands anything.
Shapes  `Script` > `Statement` > `Node` (`Simple`, `Pipeline`, `AndOr`, `Block`, `Compound`, `Function`) > `Word`.
Words   quotes and escapes are resolved: `Lit` is text as the program will see it, every other part still expands.
Errors  a script that is no valid bash has `error` set; its statements are then what could be recovered.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

RedirectOp = Literal["<", ">", ">>", ">|", "<>", "<&", ">&", "<<"]


@dataclass(frozen=True, slots=True)
class Lit:
    """Text that means itself."""

    text: str


@dataclass(frozen=True, slots=True)
class Active:
    """Unquoted pattern, brace or tilde characters, which expand to file names, words or a home directory."""

    text: str


@dataclass(frozen=True, slots=True)
class Param:
    """`$name` and `${...}`; `text` is what stands inside the braces."""

    text: str
    quoted: bool
    scripts: tuple["Script", ...] = ()
    """Command substitutions inside the braces."""


@dataclass(frozen=True, slots=True)
class Arith:
    """`$((...))`; `text` is what stands inside."""

    text: str
    quoted: bool
    scripts: tuple["Script", ...] = ()


@dataclass(frozen=True, slots=True)
class Sub:
    """Command and process substitution."""

    kind: Literal["$(", "<(", ">("]
    script: "Script"
    quoted: bool


Part: TypeAlias = Lit | Active | Param | Arith | Sub


@dataclass(frozen=True, slots=True)
class Word:
    """One word. No two `Lit` parts are neighbours; the empty word has no parts."""

    parts: tuple[Part, ...]
    text: str | None = field(init=False, compare=False)
    """The whole word where it is literal, else None."""

    def __post_init__(self) -> None:
        parts = self.parts
        first = parts[0] if parts else Lit("")
        object.__setattr__(self, "text", first.text if len(parts) <= 1 and isinstance(first, Lit) else None)


@dataclass(frozen=True, slots=True)
class Redirect:
    """`fd op target`. `<<` is a here-document or a here-string, its target the whole text that is read."""

    fd: int
    op: RedirectOp
    target: Word
    """After `<&` and `>&` a descriptor's number, or `-` to close."""


@dataclass(frozen=True, slots=True)
class Assign:
    name: str
    value: Word | tuple[Word, ...]
    """A tuple for an array."""
    append: bool = False


@dataclass(frozen=True, slots=True)
class Simple:
    """Assignments, words and redirections; no words: the assignments stay in the shell."""

    assigns: tuple[Assign, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Two or more stages, or one that is negated. `a |& b` is `a 2>&1 | b`."""

    stages: tuple["Node", ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class AndOr:
    """`first && x || y`: as in bash, both operators bind alike and to the left."""

    first: "Node"
    rest: tuple[tuple[Literal["&&", "||"], "Node"], ...]


@dataclass(frozen=True, slots=True)
class Block:
    """`( body )` or `{ body; }`."""

    kind: Literal["(", "{"]
    body: "Script"
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class Compound:
    """A loop, `if`, `case`, `[[` or `((`: keywords and operators as text, words and bodies as trees, in order."""

    kind: str
    parts: tuple["str | Word | Script | Assign", ...]
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    body: "Node"


Node: TypeAlias = Simple | Pipeline | AndOr | Block | Compound | Function


@dataclass(frozen=True, slots=True)
class Statement:
    node: Node
    background: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    statements: tuple[Statement, ...]
    error: str | None = None
    """Why this is no command that bash would run whole; None: it is one."""
