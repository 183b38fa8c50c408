"""Whether two looks at the tree by tools for that show the same: searches and listings.

Search  the same pattern (up to escapes that mean nothing, and a literal one equals the expression that matches it),
        the same file filter and other arguments, in the same place or at most `search_wider_levels` above it.
List    the same directory and arguments.
"""

import re

from paddock.resources_servers.pivot.semantic.match_results import SAME, MatchResult, clip, describe, differ
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.paths import levels_above, resolve
from paddock.tools import ListFolder, Search, same_json

_MEANINGLESS_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_PLAIN_PUNCTUATION = frozenset('"/:;=@%!,~_')
"""Characters that mean themselves in a regular expression, escaped or not."""
_SPECIAL = frozenset(r"\.^$*+?{}[]|()")


def _expression(search: Search) -> str:
    """Return the pattern as a regular expression without escapes that mean nothing."""
    if search.literal:
        return "".join("\\" + char if char in _SPECIAL else char for char in search.pattern)
    return _MEANINGLESS_ESCAPE.sub(
        lambda escape: escape[1] if escape[1] in _PLAIN_PUNCTUATION else escape[0], search.pattern
    )


def _files_searched(search: Search) -> tuple[str, str | None]:
    """Return a glob's pattern and directory, with the pattern's leading plain directories moved to the directory.

    Only in front of `**/`: elsewhere a tool may let a pattern without a slash match in every directory.
    """
    head, slash, tail = search.pattern.partition("/**/")
    if slash and not set(head) & set("*?[]{}!\\") and not head.startswith(("/", ".")):
        return "**/" + tail, f"{search.path}/{head}" if search.path else head
    return search.pattern, search.path


def compare_searches(expected: Search, actual: Search, options: SemanticOptions) -> MatchResult:
    if expected.mode != actual.mode:
        return differ("kind_differs", f"expected a search of {expected.mode}, came one of {actual.mode}")
    if expected.mode == "files":
        wanted, wanted_path = _files_searched(expected)
        given, given_path = _files_searched(actual)
    else:
        wanted, wanted_path = _expression(expected), expected.path
        given, given_path = _expression(actual), actual.path
    if wanted != given:
        return differ("pattern_differs", f"expected {clip(expected.pattern)}, came {clip(actual.pattern)}")
    if expected.include != actual.include:
        return differ("scope_differs", f"expected files {expected.include!r:.80}, came {actual.include!r:.80}")
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
