"""What a command may do, judged on its parsed words: never by looking for names in its text.

Law     destructive: it may delete or overwrite what cannot be had back, stop processes or the machine, publish, or run
        what it downloads. Writing, appending and moving files is `writes` and no more; a named file that a task may
        well have made itself (below the working directory, or in /tmp) may be removed. A program of which nothing is
        known is not destructive and not only reading. All commands in the text count, whether they would run or not.
Limits  a script in a file, a name that an expansion yields and code built at run time are not seen.
Errors  none: text that is not valid bash is judged by what was understood of it, and never reads only.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from posixpath import basename
from typing import NamedTuple

from paddock.shell.danger import (
    DOWNLOADERS,
    PYTHONS,
    READS_ONLY,
    SHELLS,
    STEERS,
    WRAPPERS,
    Harm,
    HarmContext,
    ScriptText,
)
from paddock.shell.harm import is_system, judge
from paddock.shell.memo import once
from paddock.shell.parse import parse
from paddock.shell.paths import START, join
from paddock.shell.python_code import python_harm
from paddock.shell.syntax import (
    Active,
    Block,
    Compound,
    Function,
    Lit,
    Node,
    Pipeline,
    Redirect,
    Script,
    Simple,
    Sub,
    Word,
)
from paddock.shell.tables import CHANGES_SHELL
from paddock.shell.walk import nodes, simple_commands

_MAX_HANDED = 8
"""How many levels of shells inside shells are judged."""


class Effects(NamedTuple):
    """What a command may do."""

    destructive: bool
    writes: bool
    """It may change files; true of everything destructive."""
    reads_only: bool
    """True: all of its commands are known, and none changes a file."""
    why: str
    """Why it has the worst of its effects; empty when it only reads."""


def effects(command: str, *, cwd: str | None = None) -> Effects:
    """`cwd`: the absolute path of the directory that the command starts in, None: unknown."""
    return once(("effects", command, cwd), lambda: _effects(command, cwd))


def _effects(command: str, cwd: str | None) -> Effects:
    directory = join("/", cwd) if cwd and cwd.startswith("/") else START
    script = parse(command)
    harms = list(_harms(script, HarmContext(directory, directory), _MAX_HANDED))
    if script.error and "\\\n" in command:
        harms.extend(_harms(parse(command.replace("\\\n", "")), HarmContext(directory, directory), _MAX_HANDED))
    if script.error:
        harms.append(Harm("unknown", script.error))
    for level in ("destroys", "writes", "unknown"):
        worst = next((harm for harm in harms if harm.level == level), None)
        if worst is not None:
            return Effects(level == "destroys", level != "unknown", reads_only=False, why=worst.why)
    return Effects(destructive=False, writes=False, reads_only=True, why="")


def leaves_shell(command: str) -> bool:
    """Whether the shell that runs `command` may be another one afterwards: another directory, variable, option or job.

    False only where it is known not to be; what a subshell does to itself counts too.
    """
    return once(("leaves shell", command), lambda: _leaves_shell(parse(command)))


def _leaves_shell(script: Script) -> bool:
    return (
        bool(script.error)
        or any(statement.background for statement in script.statements)
        or any(
            isinstance(node, Function) or (isinstance(node, Simple) and _changes_shell(node)) for node in nodes(script)
        )
    )


def _changes_shell(node: Simple) -> bool:
    texts = [word.text for word in node.words]
    if not texts:
        return bool(node.assigns)
    if texts[0] == "printf":
        return any(text is None or text.startswith("-v") for text in texts[1:])
    return not CHANGES_SHELL.isdisjoint(texts[:2]) or texts[0] is None


def _harms(script: Script, context: HarmContext, depth: int) -> Iterator[Harm]:
    if depth <= 0:
        yield Harm("unknown", "too many shells inside shells")
        return
    for node in nodes(script):
        if isinstance(node, Function):
            yield from _fork_bomb(node)
            continue
        if isinstance(node, Pipeline):
            yield from _pipeline(node, context, depth)
        if isinstance(node, (Simple, Block, Compound)):
            yield from (_redirect(redirect, context) for redirect in node.redirects)
        if isinstance(node, Simple) and node.words:
            yield from _simple(node, context, depth)
            context = _after_cd(node, context)


def _after_cd(node: Simple, context: HarmContext) -> HarmContext:
    """Where what follows runs, if this is a `cd`; one that may lead anywhere leads to the root."""
    if node.words[0].text != "cd":
        return context
    target = node.words[1].text if len(node.words) > 1 else None
    return context._replace(here=join(context.here, target) if target and not target.startswith("-") else "/")


def _simple(node: Simple, context: HarmContext, depth: int) -> Iterator[Harm]:
    if any(assign.name in STEERS or assign.name.startswith(("GIT_", "LD_")) for assign in node.assigns):
        yield Harm("unknown", "a variable that may make a program run another")
    harm = judge([word.text for word in node.words], context)
    if isinstance(harm, ScriptText):
        yield from _harms(parse(harm.text), context, depth - 1)
        yield from (Harm("unknown", "what is not valid bash") for _ in [0] if parse(harm.text).error)
    else:
        yield harm
    runner = _interpreter(node)
    if not runner:
        return
    if any(_downloads(part.script) for word in node.words for part in word.parts if isinstance(part, Sub)):
        yield Harm("destroys", "it runs what it downloads")
    for option, word in pairwise(node.words):
        if word.text is None and (option.text or "").startswith("-") and (option.text or "").endswith("c"):
            yield from _code(runner, _interpreter_text(word, runner), context, depth)
    yield from _documents(node, runner, context, depth)


def _documents(node: Simple, runner: str, context: HarmContext, depth: int) -> Iterator[Harm]:
    for redirect in node.redirects:
        if redirect.op == "<<":
            yield from _code(runner, _interpreter_text(redirect.target, runner), context, depth)


def _interpreter_text(word: Word, runner: str) -> str:
    """The text that an interpreter is given, with a variable for each expansion in it."""
    unknown = "unknown" if runner == "python" else "$unknown"
    return "".join(part.text if isinstance(part, (Lit, Active)) else unknown for part in word.parts)


def _code(runner: str, text: str, context: HarmContext, depth: int) -> Iterator[Harm]:
    """Text on the standard input of an interpreter."""
    harm = python_harm(text) if runner == "python" else ScriptText(text)
    if isinstance(harm, ScriptText):
        yield from _harms(parse(harm.text), context, depth - 1)
    else:
        yield harm


def _pipeline(node: Pipeline, context: HarmContext, depth: int) -> Iterator[Harm]:
    """What one stage hands to an interpreter in the next."""
    for left, right in zip(node.stages, node.stages[1:], strict=False):
        runner = _interpreter(right) if isinstance(right, Simple) else ""
        if not runner:
            continue
        if _downloads(left):
            yield Harm("destroys", "it runs what it downloads")
        if isinstance(left, Simple):
            yield from _documents(left, runner, context, depth)
        if isinstance(left, Simple) and left.words and left.words[0].text in ("echo", "printf"):
            texts = [word.text or "" for word in left.words[1:]]
            yield from _code(runner, " ".join(texts), context, depth)


def _interpreter(node: Simple) -> str:
    """`shell` or `python` where the command is one, behind its wrappers too; else empty."""
    for word in node.words:
        name = basename(word.text or "-")
        if name in SHELLS or name in ("eval", "source", "."):
            return "shell"
        if name in PYTHONS:
            return "python"
        if name not in WRAPPERS and not name.startswith("-") and "=" not in name:
            return ""
    return ""


def _downloads(tree: Script | Node) -> bool:
    return any(word.text in DOWNLOADERS for command in simple_commands(tree) for word in command.words[:1])


def _redirect(redirect: Redirect, context: HarmContext) -> Harm:
    if redirect.op not in (">", ">>", ">|", "<>"):
        return READS_ONLY
    text = redirect.target.text
    path = join(context.here, text) if text else None
    if path in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"):
        return READS_ONLY
    if path and redirect.op != ">>" and is_system(path, context):
        return Harm("destroys", f"it overwrites {path}")
    return Harm("writes", f"it writes {text or 'a file that an expansion names'}")


def _fork_bomb(node: Function) -> Iterator[Harm]:
    """A function that starts itself more than once, or in the background."""
    calls = sum(1 for command in simple_commands(node.body) if _names(command.words) == node.name)
    if calls > 1:
        yield Harm("destroys", "a function that multiplies itself")


def _names(words: Sequence[Word]) -> str | None:
    return words[0].text if words else None
