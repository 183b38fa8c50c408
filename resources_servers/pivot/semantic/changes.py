"""Whether two edits change the files alike, whatever tool they are made with.

Law     where the history shows a file's text, both edits are applied to it and the resulting texts compared
        (`paddock.edits.same_effect`); where it does not, the edits themselves are (`same_edit`). Both touch the same
        files. Equal edits are the same without looking.
Trust   a text is believed only when the expert's edit can be made on it: otherwise the file has changed since.
"""

from paddock.edits import Edit as FileEdit
from paddock.edits import EditError, Text, apply_known, same_edit, same_effect
from paddock.resources_servers.pivot.semantic.findings import SAME, Finding, describe, differ
from paddock.resources_servers.pivot.semantic.history import History
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.paths import resolved_edits
from paddock.tools import Edit, same_json


def compare_edits(expected: Edit, actual: Edit, history: History, options: SemanticOptions) -> Finding:
    if not same_json(expected.rest, actual.rest):
        return differ("arguments_differ", f"of {describe(expected)} other arguments differ")
    wanted = resolved_edits(expected, options.cwd)
    given = resolved_edits(actual, options.cwd)
    if wanted == given:
        return SAME
    if _paths(wanted) != _paths(given):
        return differ("path_differs", f"expected {describe(expected)}, came {describe(actual)}")
    texts = {path: text for path in _paths(wanted) if (text := _believed(path, wanted, history, options)) is not None}
    found = same_effect(wanted, given, texts) if texts else same_edit(wanted, given)
    if found.same:
        return SAME
    return differ("edit_differs", f"{describe(expected)} would come out otherwise: {found.detail or found.reason}")


def _paths(edits: list[FileEdit]) -> set[str]:
    return {edit.path for edit in edits}


def _believed(path: str, edits: list[FileEdit], history: History, options: SemanticOptions) -> Text | None:
    """The newest text of the file that the history shows and on which the expert's edits of it can be made."""
    own = [edit for edit in edits if edit.path == path]
    for text in history.texts(path, options.cwd):
        try:
            apply_known(own, {path: text})
        except EditError:
            continue
        return text
    return None
