"""opencode's `apply_patch`: a patch of several files, checked as a whole before a file is touched.

Grammar  that of `paddock.edits.parse_codex_patch`, which is stricter than the program: text between files is refused.
         What stands before the first marker and after the last is not looked at. New lines in a file with CRLF get it.
Paths    relative ones start at the workdir. Files keep their byte order mark.
Errors   ToolError in the program's words, with the reason as `paddock.edits` gives it.
"""

from collections.abc import Iterator, Mapping, Sequence
from posixpath import join, normpath, relpath

from paddock.edits import Delete, Edit, EditError, Hunks, PatchError, Write, apply, parse_codex_patch
from paddock.harness import Workspace
from paddock.harnesses.opencode.errors import ToolError
from paddock.harnesses.opencode.text_edit import BOM

BEGIN, END = "*** Begin Patch", "*** End Patch"
FAILED = "apply_patch verification failed: "


async def apply_patch(workspace: Workspace, text: str) -> str:
    """Apply a patch to the workspace; return the text for the model. Raises ToolError."""
    if not text:
        raise ToolError("patchText is required")
    edits = [_resolved(edit, workspace.workdir) for edit in _parsed(text)]
    before = {edit.path: await _text_of(workspace, edit) for edit in _read_first(edits)}
    try:
        after = apply(edits, {path: text.removeprefix(BOM) for path, text in before.items()})
    except EditError as error:
        raise ToolError(f"{FAILED}Error: {error.message}") from error
    for edit in edits:
        await _make(workspace, edit, before, after)
    lines = [_summary_line(edit, workspace.workdir) for edit in edits]
    return "\n".join(["Success. Updated the following files:", *lines])


def _parsed(text: str) -> Sequence[Edit]:
    lines = text.split("\n")
    bare = [line.strip() for line in lines]
    if not (BEGIN in bare and END in bare and bare.index(BEGIN) < bare.index(END)):
        raise ToolError(f"{FAILED}Error: Invalid patch format: missing Begin/End markers")
    try:
        edits = parse_codex_patch("\n".join(lines[bare.index(BEGIN) : bare.index(END) + 1]))
    except PatchError as error:
        raise ToolError(f"{FAILED}Error: {error.message}") from error
    if not edits:
        raise ToolError("patch rejected: empty patch")
    return edits


def _resolved(edit: Edit, workdir: str) -> Edit:
    def full(path: str) -> str:
        return normpath(join(workdir, path))

    match edit:
        case Write(path, content):
            return Write(full(path), content)
        case Delete(path):
            return Delete(full(path))
        case Hunks(path, hunks, move_to):
            return Hunks(full(path), hunks, full(move_to) if move_to is not None else None)
    raise AssertionError(f"{type(edit).__name__} is nothing that such a patch says")


def _read_first(edits: Sequence[Edit]) -> Iterator[Edit]:
    """Those whose file has to be there: no earlier part of the patch makes it."""
    made: set[str] = set()
    for edit in edits:
        if not isinstance(edit, Write) and edit.path not in made:
            yield edit
        made.add(edit.path)
        if isinstance(edit, Hunks) and edit.move_to:
            made.add(edit.move_to)


async def _text_of(workspace: Workspace, edit: Edit) -> str:
    try:
        return (await workspace.read(edit.path)).decode(errors="replace")
    except OSError as error:
        deleted = isinstance(edit, Delete)
        why = (
            f"NotFound: FileSystem.readFile ({edit.path})" if deleted else f"Failed to read file to update: {edit.path}"
        )
        raise ToolError(FAILED + why) from error


async def _make(workspace: Workspace, edit: Edit, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    target = edit.move_to or edit.path if isinstance(edit, Hunks) else edit.path
    if target in after and not isinstance(edit, Delete):
        mark = BOM if before.get(edit.path, "").startswith(BOM) else ""
        await workspace.write(target, (mark + after[target]).encode())
    if edit.path not in after:
        await workspace.exec(["rm", "-f", "--", edit.path])


def _summary_line(edit: Edit, workdir: str) -> str:
    path = edit.move_to or edit.path if isinstance(edit, Hunks) else edit.path
    letter = {Write: "A", Delete: "D"}.get(type(edit), "M")
    return f"{letter} {relpath(path, workdir)}"
