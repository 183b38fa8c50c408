"""Calls of shell tools: a command line, or text for a program that already runs; patches that command lines carry.

Source  execute_bash and terminal (OpenHands), shell, shell_command, exec_command and write_stdin (Codex), bash. Codex's
        models give patches to a shell: `apply_patch <<'EOF'`, `apply_patch PATCH`, each also behind `cd D &&`.
Rules   an argv array is the script of its `bash -c` (`-lc` alike: a login shell is taken to do the same), else its
        words quoted. A command that gives a patch to `apply_patch` is an edit, as in Codex. `is_input`: the command is
        input for the program that runs. An empty command waits for more output, where the tool has a session; elsewhere
        it is refused.
Limits  `timeout` is in the unit that the row's schema names; where it names none, in milliseconds from 1000 on and in
        seconds below.
Patches `plain_command` gives the tree of a line that is one plain command, and the directory that it is run in;
        `find_patch` the patch, as text. Both are None for another command, or for a patch with expansions in it.
"""

import posixpath
import re
import shlex
from pathlib import PurePosixPath
from typing import NamedTuple

from paddock.shell import Simple, parse
from paddock.shell.syntax import AndOr
from paddock.tools.actions import CommandLimits, Edit, ShellCommand, Stdin
from paddock.tools.arguments import ROLES, BadArgumentError, CallArguments, properties_of
from paddock.tools.names import fold
from paddock.tools.patches import patch_edits
from paddock.types import Json

SESSION_SHELLS = frozenset({"execute_bash", "run_bash", "bash_exec", "shell_run", "terminal"})
"""Shell tools with one lasting session, whose output an empty command shows."""

PATCH_COMMANDS = ("apply_patch", "applypatch")

_UNIT = re.compile(r"\bmilliseconds?\b|\bms\b|\bseconds?\b|\bsecs?\b", re.IGNORECASE)
_FROM_MILLISECONDS = 1000
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
_SCRIPT_FLAGS = frozenset({("-c",), ("-lc",), ("-cl",), ("-l", "-c")})


def shell_action(call: CallArguments) -> ShellCommand | Stdin | Edit:
    command = call.value("command")
    is_input = call.flag("is_input")
    if isinstance(command, list):
        command = script_of(command)
    if command is None:
        raise BadArgumentError("missing_argument", f"no command (one of {', '.join(ROLES['command'])})")
    if not isinstance(command, str):
        raise BadArgumentError("wrong_type", f"command is a {type(command).__name__}, not a string")
    workdir, limits = call.optional_text("workdir") or None, _limits(call)
    if is_input:
        return Stdin(command, None, call.rest(), limits)
    patch = find_patch(command)
    if patch is not None:
        return Edit(patch_edits(patch.text, posixpath.join(workdir or "", patch.folder or "")), call.rest())
    if command.strip():
        return ShellCommand(command, workdir, call.rest(), limits)
    if fold(call.name) not in SESSION_SHELLS:
        raise BadArgumentError("missing_argument", "command is empty")
    return Stdin("", None, call.rest(), limits)


def _limits(call: CallArguments) -> CommandLimits:
    timeout = call.limit("timeout")
    times = [None if timeout is None else timeout * _unit_s(call, timeout), call.limit("timeout_s")]
    times.append(_of_milliseconds(call.limit("timeout_ms")))
    return CommandLimits(
        time_s=min((time for time in times if time is not None), default=None),
        yield_s=_of_milliseconds(call.limit("yield_time_ms")),
        output_tokens=call.limit("max_output_tokens"),
    )


def _of_milliseconds(value: float | None) -> float | None:
    return None if value is None else value / 1000


def _unit_s(call: CallArguments, value: float) -> float:
    """The unit of `timeout`, in seconds."""
    timeout = properties_of(call.schema or {}).get("timeout")
    description = timeout.get("description") if isinstance(timeout, dict) else None
    if isinstance(description, str) and (unit := _UNIT.search(description)):
        return 0.001 if unit[0].lower().startswith("m") else 1.0
    return 0.001 if value >= _FROM_MILLISECONDS else 1.0


def stdin_action(call: CallArguments) -> Stdin:
    session = call.value("session")
    if session is None:
        raise BadArgumentError("missing_argument", "no session_id")
    if isinstance(session, bool) or not isinstance(session, int | float | str):
        raise BadArgumentError("wrong_type", f"session_id is a {type(session).__name__}, not a number")
    limits = _limits(call)
    return Stdin(call.optional_text("chars") or "", session, call.rest(), limits)


def script_of(argv: list[Json]) -> str:
    """The command line that runs what an argv array runs."""
    words = [word for word in argv if isinstance(word, str)]
    if not words or len(words) != len(argv):
        raise BadArgumentError("wrong_type" if argv else "missing_argument", "command is no list of strings")
    if PurePosixPath(words[0]).name in _SHELLS and tuple(words[1:-1]) in _SCRIPT_FLAGS:
        return words[-1]
    return shlex.join(words)


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
