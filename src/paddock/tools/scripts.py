"""Command lines that are one plain command, and the patches that some of them carry.

Source  Codex, whose models give patches to a shell: `apply_patch <<'EOF'`, `apply_patch PATCH`, each also behind
        `cd D &&`; the program itself takes such a command for its tool.
Shapes  `plain_command` gives the command's tree and the directory it is run in; `find_patch` the patch, as text.
Errors  none: both return None for another command, or for a patch with expansions in it.
"""

from typing import NamedTuple

from paddock.shell import Simple, parse
from paddock.shell.syntax import AndOr

PATCH_COMMANDS = ("apply_patch", "applypatch")


class PlainCommand(NamedTuple):
    """One simple command without assignments."""

    command: Simple
    folder: str | None
    """Operand of the `cd` before it; None: there is none."""


class ScriptPatch(NamedTuple):
    """A patch that a command gives to `apply_patch`."""

    text: str
    folder: str | None
    """The directory that the patch's paths are relative to; None: wherever the command runs."""


def plain_command(script: str) -> PlainCommand | None:
    tree = parse(script)
    if tree.error is not None or len(tree.statements) != 1 or tree.statements[0].background:
        return None
    node = tree.statements[0].node
    folder = None
    if isinstance(node, AndOr) and len(node.rest) == 1 and node.rest[0][0] == "&&":
        first = node.first
        if not isinstance(first, Simple) or first.assigns or first.redirects:
            return None
        folder = _operand_of("cd", first)
        if folder is None:
            return None
        node = node.rest[0][1]
    if not isinstance(node, Simple) or node.assigns or not node.words:
        return None
    return PlainCommand(node, folder)


def _operand_of(name: str, command: Simple) -> str | None:
    texts = [word.text for word in command.words]
    return texts[1] if len(texts) == 2 and texts[0] == name and texts[1] not in (None, "", "-") else None


def find_patch(script: str) -> ScriptPatch | None:
    if not any(name in script for name in PATCH_COMMANDS):
        return None
    plain = plain_command(script)
    if plain is None or plain.command.words[0].text not in PATCH_COMMANDS:
        return None
    operands, redirects = plain.command.words[1:], plain.command.redirects
    if len(operands) + len(redirects) != 1:
        return None
    if redirects and redirects[0].op != "<<":
        return None
    text = operands[0].text if operands else redirects[0].target.text
    return None if text is None else ScriptPatch(text, plain.folder)
