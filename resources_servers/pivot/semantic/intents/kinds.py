"""What a kind of intents is: how it is read from a call of a tool and from a bare command, and when two are the same.

Shapes  `IntentKind` is a row of the table `KINDS`; a kind's module owns its record, its two readers and its rule.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from paddock.resources_servers.pivot.semantic.history import FileHistory
from paddock.resources_servers.pivot.semantic.intents.bare_commands import BareCommand
from paddock.resources_servers.pivot.semantic.match_results import MatchResult
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.tools import Action


class Surroundings(NamedTuple):
    """What a comparison knows beside the two calls."""

    history: FileHistory
    options: SemanticOptions


class IntentKind(NamedTuple):
    """One kind of intent: its record's class, its readers, its rule of sameness."""

    record: type[Any]
    """A frozen dataclass. Its paths are resolved; those of a directory that is not known are relative."""
    of_action: Callable[[Action, str | None], Any | None]
    """Read a call of a tool other than a shell, given the directory where it runs; None: it is not of this kind."""
    of_command: Callable[[BareCommand], Any | list[Any] | None]
    """Read a bare command; a list: it is for several things. None: it is not of this kind, or something in it is not
    known to be."""
    compare: Callable[[Any, Any, Surroundings], MatchResult]
    """Whether the second does what the first, which is the expert's, does."""
    changes: bool
    """Whether it may change files: then its place among others matters."""
    join: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    """Make as few records as say the same of those of one call that stand in a row; None: they are left as they are."""
