"""Whether two looks at the tree by tools for that show the same: searches for files, and listings.

Search  the same pattern and other arguments, in the same place or at most `search_wider_levels` above it.
List    the same directory and arguments.
"""

from paddock.resources_servers.pivot.semantic.match_results import SAME, MatchResult, clip, describe, differ
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.paths import levels_above, resolve
from paddock.tools import ListFolder, Search, same_json


def _files_searched(search: Search) -> tuple[str, str | None]:
    """Return a glob's pattern and directory, with the pattern's leading plain directories moved to the directory.

    Only in front of `**/`: elsewhere a tool may let a pattern without a slash match in every directory.
    """
    head, slash, tail = search.pattern.partition("/**/")
    if slash and not set(head) & set("*?[]{}!\\") and not head.startswith(("/", ".")):
        return "**/" + tail, f"{search.path}/{head}" if search.path else head
    return search.pattern, search.path


def compare_file_searches(expected: Search, actual: Search, options: SemanticOptions) -> MatchResult:
    wanted, wanted_path = _files_searched(expected)
    given, given_path = _files_searched(actual)
    if wanted != given:
        return differ("pattern_differs", f"expected {clip(expected.pattern)}, came {clip(actual.pattern)}")
    if not same_json(expected.rest, actual.rest):
        return differ("arguments_differ", f"of {describe(expected)} other arguments differ")
    above = levels_above(resolve(given_path, options.cwd), resolve(wanted_path, options.cwd))
    if above is None or above > options.search_wider_levels:
        return differ("scope_differs", f"expected {describe(expected)}, came {describe(actual)}")
    return SAME


def compare_lists(expected: ListFolder, actual: ListFolder, options: SemanticOptions) -> MatchResult:
    if resolve(expected.path, options.cwd) != resolve(actual.path, options.cwd):
        return differ("path_differs", f"expected {describe(expected)}, came {describe(actual)}")
    if not same_json(expected.rest, actual.rest):
        return differ("arguments_differ", f"of {describe(expected)} other arguments differ")
    return SAME
