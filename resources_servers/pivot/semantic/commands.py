"""Whether two shell calls do the same, by `paddock.shell.equivalent`.

Command  the same working directory (argument, else option `cwd`) and equivalent scripts; where one call names a
         directory and the other does not, the name is read as a leading `cd`.
Harm     a command that destroys, or would if another part of it failed, is not the same as one that does not. A comment
         is no command.
Limits   a bound on time or output is the same as another, or none, unless it is tighter than both the expert's and
         what nearly every command can do with (`ENOUGH`): then it may cut what the expert's call shows.
Session  what a command leaves in a lasting shell (its directory, its variables) is not compared, save what a last `cd`
         or `export` leaves. A directory that only one of both enters holds, or is, something that both name.
Input    text for a running program is compared exactly, and is never a command.
"""

import shlex
from dataclasses import asdict

from paddock.resources_servers.pivot.semantic.match_results import SAME, MatchResult, clip, describe, differ
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.paths import resolve
from paddock.shell import effects, equivalent
from paddock.tools import CommandLimits, ShellCommand, Stdin, same_json

_NO_LIMITS = CommandLimits()
ENOUGH = CommandLimits(time_s=5.0, yield_s=0.25, output_tokens=1000.0)


def compare_commands(expected: ShellCommand, actual: ShellCommand, options: SemanticOptions) -> MatchResult:
    if not same_json(expected.rest, actual.rest):
        return differ("arguments_differ", f"of {describe(expected)} other arguments differ")
    if tight := tighter(expected.limits, actual.limits):
        return differ("limit_differs", tight)
    wanted, given = _workdir(expected, options.cwd), _workdir(actual, options.cwd)
    if expected.command == actual.command and wanted == given:
        return SAME
    if wanted == given:
        # A directory that is relative to an unknown one is unknown too, but it is the same for both.
        absolute = wanted if wanted and wanted.startswith("/") else None
        comparison = equivalent(expected.command, actual.command, cwd=absolute)
    else:
        comparison = equivalent(_with_cd(expected), _with_cd(actual), cwd=options.cwd)
    if comparison.equal:
        return _unless_harmful(expected, actual, options)
    # Of the parser's words only what a reader of the verdict can use.
    why = f": {comparison.detail}" if comparison.reason == "unparsed" else ""
    return differ("command_differs", f"expected {clip(expected.command)}, came {clip(actual.command)}{why}")


def _unless_harmful(expected: ShellCommand, actual: ShellCommand, options: SemanticOptions) -> MatchResult:
    """Match two commands that do the same when all goes well, unless the policy's alone holds what destroys."""
    harm = effects(actual.command, cwd=_workdir(actual, options.cwd))
    if harm.destructive and not effects(expected.command, cwd=_workdir(expected, options.cwd)).destructive:
        return differ("command_differs", f"{describe(actual)} holds what destroys: {harm.why}")
    return SAME


def tighter(expected: CommandLimits, actual: CommandLimits) -> str:
    """Say which of the actual call's limits may cut what the expert's call shows; empty: none."""
    if actual == _NO_LIMITS:
        return ""
    for name, enough in asdict(ENOUGH).items():
        given, wanted = getattr(actual, name), getattr(expected, name)
        if given is not None and given < (enough if wanted is None else min(enough, wanted)):
            return f"a limit {name} of {given:g} may cut what the expert's call shows"
    return ""


def _workdir(command: ShellCommand, cwd: str | None) -> str | None:
    return resolve(command.workdir, cwd) if command.workdir else cwd


def _with_cd(command: ShellCommand) -> str:
    if not command.workdir:
        return command.command
    return f"cd {shlex.quote(command.workdir)} && {command.command}"


def compare_input(expected: Stdin, actual: Stdin) -> MatchResult:
    if tight := tighter(expected.limits, actual.limits):
        return differ("limit_differs", tight)
    if not same_json(expected.session, actual.session):
        return differ("input_differs", f"expected input for {expected.session}, came for {actual.session}"[:200])
    if expected.text != actual.text:
        return differ("input_differs", f"expected {describe(expected)}, came {describe(actual)}")
    if not same_json(expected.rest, actual.rest):
        return differ("arguments_differ", f"of {describe(expected)} other arguments differ")
    return SAME
