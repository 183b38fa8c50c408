"""Shell commands as trees: reading them, and judging whether two do the same and what one may do. Nothing is run here.

Source  the grammar of tree-sitter-bash; the bash manual; the manual pages of the commands in `tables` and `danger`.
Shapes  `parse` -> `Script`; `equivalent` -> `Equivalence`; `effects` -> `Effects`; each module states its own law.
Errors  no function here raises on any `str`: what is not understood is said so in the result.
"""

from paddock.shell.effects import Effects, effects, leaves_shell
from paddock.shell.equivalence import Equivalence, Reason, equivalent
from paddock.shell.memo import memo
from paddock.shell.parse import MAX_CHARS, parse
from paddock.shell.syntax import Redirect, Script, Simple, Statement, Word
from paddock.shell.walk import nodes, simple_commands, words

__all__ = [
    "MAX_CHARS",
    "Effects",
    "Equivalence",
    "Reason",
    "Redirect",
    "Script",
    "Simple",
    "Statement",
    "Word",
    "effects",
    "equivalent",
    "leaves_shell",
    "memo",
    "nodes",
    "parse",
    "simple_commands",
    "words",
]
