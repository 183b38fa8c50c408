"""Listings: which entries of which directory are shown.

Law     two listings are the same where they are of the same directory, show the same entries (files, directories, names
        of a pattern) and go as deep. A tool's own depth is one level or two: its listing is the same as one of either.
        All files of a tree say which directories it has.
Looks   sizes, owners, colours, order; names with a dot in front, unless an option of the expert's does only that
        (`ls -a`). Left out may be what tools leave behind (`__pycache__`, `.git`).
Cut     the first `ENOUGH` entries of one directory, or `ENOUGH_OF_TREE` of a tree, in order of names, are as good as
        all.
Path    an editor's view without a range is a listing where the path's name looks like no file's (`views`).
File    a path whose name has a file's suffix lists itself, however deep; with a slash behind it lists nothing.
Errors  None: something else is done, or a part of it is not known.
"""

from dataclasses import dataclass, replace

from paddock.resources_servers.pivot.semantic.intents.bare_commands import BareCommand
from paddock.resources_servers.pivot.semantic.intents.kinds import IntentKind, Surroundings
from paddock.resources_servers.pivot.semantic.intents.listing_programs import ListedEntries, listed_by
from paddock.resources_servers.pivot.semantic.intents.views import has_suffix, is_file_name
from paddock.resources_servers.pivot.semantic.match_results import SAME, MatchResult, clip, differ
from paddock.resources_servers.pivot.semantic.paths import resolve
from paddock.tools import Action, ListFolder, ReadFile

ENOUGH = 20
ENOUGH_OF_TREE = 100
_TOOL_DEPTHS = (1, 2)


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries of a directory that are shown."""

    listed: ListedEntries
    """With its path resolved."""
    by_tool: bool = False
    """True: how deep it goes is the tool's choice."""
    most: int | None = None
    """Only so many are shown, and that is not enough; None: all, or enough."""


def _of_action(action: Action, cwd: str | None) -> Listing | None:
    match action:
        case ReadFile(whole=True, shows_folders=True) if not action.rest and not is_file_name(action.path):
            return Listing(ListedEntries(resolve(action.path, cwd)), by_tool=True)
        case ListFolder(rest={"depth": int(depth), **others}) if not others and depth > 0:
            return Listing(ListedEntries(resolve(action.path, cwd), depth))
        case ListFolder() if not action.rest:
            return Listing(ListedEntries(resolve(action.path, cwd)), by_tool=True)
        case _:
            return None


def _of_command(command: BareCommand) -> list[Listing] | None:
    first, *others = command.stages
    listed = listed_by(first)
    if listed is None or command.environment or command.output_path is not None or command.stdin is not None:
        return None
    if command.last_lines is not None or any(stage.words not in (("sort",), ("sort", "-u")) for stage in others):
        return None
    most = command.first_lines
    if most is not None and (len(listed) > 1 or not listed[0].sorted_by_name):
        return None
    if most is not None and most >= (ENOUGH if listed[0].depth in (0, 1) else ENOUGH_OF_TREE):
        most = None
    return [Listing(_resolved(one, command.directory), most=most) for one in listed]


def _resolved(listed: ListedEntries, directory: str | None) -> ListedEntries:
    path = resolve(listed.path, directory)
    if not has_suffix(path) or listed.pattern is not None:
        return replace(listed, path=path)
    return replace(listed, path=f"{path}/" if listed.path.endswith("/") else path, depth=1)


def _compare(expected: Listing, actual: Listing, surroundings: Surroundings) -> MatchResult:
    wanted, given = expected.listed, actual.listed
    if wanted.path != given.path:
        return differ("path_differs", f"expected {clip(wanted.path)}, came {clip(given.path)}")
    if not _as_deep(expected, actual):
        return differ("scope_differs", f"expected {wanted.depth} levels of {clip(wanted.path)}, came {given.depth}")
    of_tree = wanted.depth is None and "directories" not in (wanted.entries, given.entries)
    if (wanted.entries != given.entries and not of_tree) or wanted.pattern != given.pattern:
        return differ("pattern_differs", f"of {clip(wanted.path)} other entries are listed")
    if (wanted.hidden == "asked" and given.hidden == "no") or expected.most != actual.most:
        return differ("lines_differ", f"of {clip(wanted.path)} fewer or more entries are listed")
    return SAME


def _as_deep(expected: Listing, actual: Listing) -> bool:
    depths = expected.listed.depth, actual.listed.depth
    if expected.by_tool or actual.by_tool:
        return all(depth in _TOOL_DEPTHS for depth in depths)
    return depths[0] == depths[1]


LISTINGS = IntentKind(Listing, _of_action, _of_command, _compare, changes=False)
