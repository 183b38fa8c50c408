"""Whether two listings by tools for that show the same: of the same directory, with the same arguments."""

from paddock.resources_servers.pivot.semantic.match_results import SAME, MatchResult, describe, differ
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.paths import resolve
from paddock.tools import ListFolder, same_json


def compare_lists(expected: ListFolder, actual: ListFolder, options: SemanticOptions) -> MatchResult:
    if resolve(expected.path, options.cwd) != resolve(actual.path, options.cwd):
        return differ("path_differs", f"expected {describe(expected)}, came {describe(actual)}")
    if not same_json(expected.rest, actual.rest):
        return differ("arguments_differ", f"of {describe(expected)} other arguments differ")
    return SAME
