"""The `semantic` comparator: rewards an action that does what the expert's did, and only that.

Shapes  `compare` is pure: expected action, response and the row's request in, `Comparison` out; `reason` is a `Reason`.
        `SemanticOptions` are its knobs.
"""

from paddock.resources_servers.pivot.semantic.compare import compare, expected_problem, says_only
from paddock.resources_servers.pivot.semantic.match_results import Reason
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.place import row_cwd
from paddock.resources_servers.pivot.semantic.undecided import UndecidedPair, undecided_pair

__all__ = [
    "Reason",
    "SemanticOptions",
    "UndecidedPair",
    "compare",
    "expected_problem",
    "row_cwd",
    "says_only",
    "undecided_pair",
]
