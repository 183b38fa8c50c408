"""The normal form of one command, as the modules that make it share it.

Shapes  a form is a tuple that begins with a tag; equal forms do the same. `FormContext` says where a command stands.
"""

from collections.abc import Hashable
from typing import NamedTuple, Protocol

from paddock.shell.paths import Form
from paddock.shell.syntax import Active, Lit, Part, Word


class FormContext(Protocol):
    """Where a command stands."""

    @property
    def directory(self) -> str: ...
    def part(self, part: Part) -> Hashable: ...


class CommandForm(NamedTuple):
    """What one command does, and what a list or pipeline around it must know."""

    form: Form
    sure: bool = False
    """True: it exits with 0 when its inputs exist."""
    took_input: bool = False
    """True: the file on standard input is part of the form."""
    spelled: tuple[Hashable, ...] = ()
    """The words whose spelling shows in what it prints: they count where that is read by another command."""


def word_form(word: Word, context: FormContext) -> Hashable:
    """The word itself: a string where it is literal."""
    return word.text if word.text is not None else tuple(map(context.part, word.parts))


def may_vanish(word: Word) -> bool:
    """Whether the word may expand to no word, or to several that are no names of existing files."""
    return word.text is None and any(not isinstance(part, (Lit, Active)) and not part.quoted for part in word.parts)
