"""Shell commands as trees: reading them, and judging whether two do the same and what one may do. Nothing is run here.

Source  the grammar of tree-sitter-bash; the bash manual; the manual pages of the commands in `tables` and `danger`.
Shapes  `parse` -> `Script`; `equivalent` -> `Equivalence`; `effects` -> `Effects`; each module states its own law.
Errors  no function here raises on any `str`: what is not understood is said so in the result. Where a budget is in
        force (`limited`), BudgetError.
"""

from paddock.shell.effects import Effects, effects, leaves_shell
from paddock.shell.equivalence import Equivalence, Reason, equivalent
from paddock.shell.memo import BudgetError, StepBudget, limited, memo, once, take
from paddock.shell.parse import MAX_CHARS, parse
from paddock.shell.python_code import parse_python
from paddock.shell.syntax import Redirect, Script, Simple, Statement, Word
from paddock.shell.walk import nodes, simple_commands, words

__all__ = [
    "MAX_CHARS",
    "BudgetError",
    "Effects",
    "Equivalence",
    "Reason",
    "Redirect",
    "Script",
    "Simple",
    "Statement",
    "StepBudget",
    "Word",
    "effects",
    "equivalent",
    "leaves_shell",
    "limited",
    "memo",
    "nodes",
    "once",
    "parse",
    "parse_python",
    "simple_commands",
    "take",
    "words",
]
