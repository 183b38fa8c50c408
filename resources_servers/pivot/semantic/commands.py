"""Whether two shell calls do the same, by `paddock.shell.equivalent`.

Command  the same working directory (argument, else option `cwd`) and equivalent scripts; where one call names a
         directory and the other does not, the name is read as a leading `cd`.
Session  what a command leaves in a lasting shell (its directory, its variables) is not compared, save what a last `cd`
         or `export` leaves.
Input    text for a running program is compared exactly, and is never a command.
"""

import shlex

from paddock.resources_servers.pivot.semantic.findings import SAME, Finding, clip, describe, differ
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.paths import resolve
from paddock.shell import equivalent
from paddock.tools import Shell, Stdin, same_json


def compare_commands(expected: Shell, actual: Shell, options: SemanticOptions) -> Finding:
    if not same_json(expected.rest, actual.rest):
        return differ("arguments_differ", f"of {describe(expected)} other arguments differ")
    wanted, given = _workdir(expected, options.cwd), _workdir(actual, options.cwd)
    if expected.command == actual.command and wanted == given:
        return SAME
    if wanted == given:
        # A directory that is relative to an unknown one is unknown too, but it is the same for both.
        known = wanted if wanted and wanted.startswith("/") else None
        found = equivalent(expected.command, actual.command, cwd=known)
    else:
        found = equivalent(_entered(expected), _entered(actual), cwd=options.cwd)
    if found.equal:
        return SAME
    # Of the parser's words only what a reader of the verdict can use.
    why = f": {found.detail}" if found.reason == "unparsed" else ""
    return differ("command_differs", f"expected {clip(expected.command)}, came {clip(actual.command)}{why}")


def _workdir(command: Shell, cwd: str | None) -> str | None:
    return resolve(command.workdir, cwd) if command.workdir else cwd


def _entered(command: Shell) -> str:
    if not command.workdir:
        return command.command
    return f"cd {shlex.quote(command.workdir)} && {command.command}"


def compare_input(expected: Stdin, actual: Stdin) -> Finding:
    if not same_json(expected.session, actual.session):
        return differ("input_differs", f"expected input for {expected.session}, came for {actual.session}"[:200])
    if expected.text != actual.text:
        return differ("input_differs", f"expected {describe(expected)}, came {describe(actual)}")
    if not same_json(expected.rest, actual.rest):
        return differ("arguments_differ", f"of {describe(expected)} other arguments differ")
    return SAME
