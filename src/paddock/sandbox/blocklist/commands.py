"""Finds every command that a line would run, wherever it stands in the line and whatever runs it.

Law     `commands` gives each command once, in the order of the text, whether it would run or not: those in lists,
        loops, substitutions, function bodies and here-documents that feed a shell; behind `sudo`, `env`, `timeout`,
        `xargs`, `find -exec`; in the text of `sh -c`, `eval`, `trap`, aliases; calls of functions and aliases that the
        line defines, with their arguments in place. A wrapper is a command too. Values that the line itself gives to
        variables are followed, and so is `cd`.
Limits  `MAX_COMMANDS` commands, `MAX_CALLS` calls of functions, aliases and texts, `MAX_DEPTH` of them nested,
        `MAX_SHELL_TEXT` characters of such texts, `MAX_ARGUMENTS` arguments, `MAX_VALUE` characters of a value.
Errors  none: text that is not valid bash is judged by what was understood of it and by its tokens (`tokens`).
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from posixpath import basename
from typing import Literal, NamedTuple

from paddock.sandbox.blocklist import shapes, tokens
from paddock.sandbox.blocklist.word_text import summary, text, texts
from paddock.sandbox.blocklist.wrappers import FROM_STDIN, inner, is_shell, reads_commands, shell_text
from paddock.shell import Redirect, Script, Simple, Word, parse
from paddock.shell.paths import START, join
from paddock.shell.syntax import (
    AndOr,
    Arith,
    Assign,
    Block,
    Compound,
    Function,
    Node,
    Param,
    Pipeline,
    Statement,
    Sub,
)

MAX_COMMANDS = 20_000
MAX_CALLS = 100
MAX_DEPTH = 8
MAX_SHELL_TEXT = 100_000
MAX_VALUE = 256
MAX_ARGUMENTS = 64

Shape = Literal["command", "recursion", "endless"]


class LineCommand(NamedTuple):
    """One command of a line."""

    words: tuple[str, ...]
    """Empty: redirections alone."""
    directory: str
    """The directory it runs in; `.` is where the line starts."""
    writes: tuple[str, ...] = ()
    """Files that it opens to write, as spelled."""
    reads: tuple[str, ...] = ()
    shape: Shape = "command"
    """Other than `command`: `words` name a function that multiplies itself, or show an endless loop."""


class StandardInput(NamedTuple):
    """What stands on a command's standard input."""

    text: str | None = None
    """The text, where it is known."""
    spelling: str = FROM_STDIN
    """How it is written where it becomes an operand."""


_NO_INPUT = StandardInput()
_BEFORE = re.compile(
    r"(?P<start>\A|[;&|({\n]|\b(?:if|then|elif|else|while|until|do)(?=[ \t]))"
    r"[ \t]*(?:(?:!|time(?:[ \t]+-p)?(?:[ \t]+--)?)[ \t]+)+(?=[^ \t\n-])"
)
"""`time` and `!`, which may stand before any pipeline, as often as one likes. The grammar takes `time` for a program,
and after either of them the first word of a loop or a group too."""
_EXECUTES = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"})
_ESCAPE = re.compile(r"\A\s*(?::?!|\\!)\s*")
"""How a line for a shell is typed into an editor, a notebook or a database client."""


class _TooManyCommands(Exception):  # noqa: N818
    """The line has `MAX_COMMANDS` commands; the rest is not looked at."""


def commands(line: str, *, typed: bool = False) -> list[LineCommand]:
    """`typed`: the line goes to a running program, so text that is no shell command may be another language's."""
    walker = _Walker(typed=typed)
    try:
        walker.line(_ESCAPE.sub("", line, count=1) if typed else line)
    except _TooManyCommands:
        pass
    except RecursionError:
        plain = _Walker(typed=typed)
        with suppress(_TooManyCommands):
            plain.tokens(line)
        return walker.line_commands + plain.line_commands
    return walker.line_commands


class _Walker:
    def __init__(self, *, typed: bool) -> None:
        self.typed = typed
        self.line_commands: list[LineCommand] = []
        self.directory = START
        self.variables: dict[str, tuple[str, ...]] = {}
        self.functions: dict[str, Function] = {}
        self.aliases: dict[str, str] = {}
        self.calls_left = MAX_CALLS
        self.chars_left = MAX_SHELL_TEXT
        self.running: list[str] = []
        """Names and texts that are being followed, outermost first."""

    def line(self, line: str) -> None:
        script = _parse(line)
        if script.error is None or not self.typed:
            self.script(script)
        if script.error is not None:
            self.tokens(line)

    def tokens(self, line: str) -> None:
        for segment in tokens.segments(line):
            self.command(segment.words, segment.writes, segment.reads, StandardInput(segment.stdin))

    def script(self, script: Script, stdin: StandardInput = _NO_INPUT) -> None:
        for statement in script.statements:
            self.node(statement.node, stdin)

    def node(self, node: Node, stdin: StandardInput) -> None:
        if isinstance(node, Simple):
            self.simple(node, stdin)
        elif isinstance(node, Pipeline):
            self.pipeline(node, stdin)
        elif isinstance(node, AndOr):
            self.node(node.first, stdin)
            for _, part in node.rest:
                self.node(part, stdin)
        elif isinstance(node, Function):
            self.functions[node.name] = node
            if shapes.multiplies(node):
                self.add(LineCommand((node.name,), self.directory, shape="recursion"))
            self.running.append(node.name)
            self.node(node.body, stdin)
            self.running.pop()
        else:
            self.block(node, stdin)

    def pipeline(self, node: Pipeline, stdin: StandardInput) -> None:
        for stage in node.stages:
            directory = self.directory
            self.node(stage, stdin)
            if len(node.stages) > 1:
                self.directory = directory
            stdin = self.output(stage, stdin)

    def output(self, stage: Node, stdin: StandardInput) -> StandardInput:
        """The standard input of the next stage."""
        if not isinstance(stage, Simple) or not stage.words:
            return _NO_INPUT
        words = texts(stage.words, self.variables) or [""]
        name, args = basename(words[0]), words[1:]
        spelling = f"$({summary(Script((Statement(stage),)))})"
        if name == "echo":
            options = [word for word in args[:1] if word in ("-n", "-e", "-ne", "-en")]
            return StandardInput(_unescape(" ".join(args[len(options) :])), spelling)
        if name == "printf" and args:
            return StandardInput(_unescape(_format(args[0], args[1:])), spelling)
        if name in ("cat", "tee"):
            documents = [text(redirect.target, self.variables) for redirect in stage.redirects if redirect.op == "<<"]
            passes = name == "tee" or not [word for word in args if not word.startswith("-")]
            return StandardInput(documents[-1] if documents else stdin.text if passes else None, spelling)
        return StandardInput(None, spelling)

    def block(self, node: Block | Compound, stdin: StandardInput) -> None:
        directory = self.directory
        stdin = self.redirected(node.redirects, stdin)
        if isinstance(node, Block):
            self.script(node.body, stdin)
            if node.kind == "(":
                self.directory = directory
            return
        if shapes.endless(node):
            self.add(
                LineCommand(
                    (*(part for part in node.parts[:1] if isinstance(part, str)),), self.directory, shape="endless"
                )
            )
        self.loop_variable(node)
        for part in node.parts:
            if isinstance(part, Script):
                self.script(part, stdin)
            elif isinstance(part, Word):
                self.inside([part])
            elif isinstance(part, Assign):
                self.assign(part)

    def loop_variable(self, node: Compound) -> None:
        """`for p in $(pgrep x)` gives `p` that substitution; a list of words leaves it open."""
        words = [part for part in node.parts if isinstance(part, Word)]
        if node.kind != "for_statement" or not words or words[0].text is None:
            return
        self.variables.pop(words[0].text, None)
        if len(words) == 2 and any(isinstance(part, Sub) for part in words[1].parts):
            self.variables[words[0].text] = (text(words[1], self.variables),)

    def redirected(self, redirects: Sequence[Redirect], stdin: StandardInput) -> StandardInput:
        writes, reads = self.files(redirects)
        if writes or reads:
            self.add(LineCommand((), self.directory, writes, reads))
        return self.documents(redirects, stdin)

    def documents(self, redirects: Sequence[Redirect], stdin: StandardInput) -> StandardInput:
        for redirect in redirects:
            self.inside([redirect.target])
            if redirect.op == "<<":
                stdin = StandardInput(text(redirect.target, self.variables))
            elif redirect.op == "<":
                stdin = _NO_INPUT
        return stdin

    def files(self, redirects: Sequence[Redirect]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        writes = (redirect.target for redirect in redirects if redirect.op in (">", ">>", ">|", "<>"))
        reads = (redirect.target for redirect in redirects if redirect.op in ("<", "<>"))
        return tuple(text(word, self.variables) for word in writes), tuple(text(word, self.variables) for word in reads)

    def inside(self, words: Sequence[Word]) -> None:
        """The scripts that stand inside words."""
        for word in words:
            for part in word.parts:
                scripts = (part.script,) if isinstance(part, Sub) else ()
                for script in part.scripts if isinstance(part, (Param, Arith)) else scripts:
                    directory = self.directory
                    self.script(script)
                    self.directory = directory

    def assign(self, assign: Assign) -> None:
        values = (assign.value,) if isinstance(assign.value, Word) else assign.value
        self.inside(values)
        if isinstance(assign.value, Word) and not assign.append:
            self.set(assign.name, text(assign.value, self.variables))
        else:
            self.variables.pop(assign.name, None)

    def set(self, name: str, value: str) -> None:
        if len(value) > MAX_VALUE:
            self.variables.pop(name, None)
        else:
            self.variables[name] = (value,) if "$" in value else tuple(value.split())

    def simple(self, node: Simple, stdin: StandardInput) -> None:
        self.inside(node.words)
        for assign in node.assigns:
            if node.words:
                self.inside([assign.value] if isinstance(assign.value, Word) else assign.value)
            else:
                self.assign(assign)
        stdin = self.documents(node.redirects, stdin)
        writes, reads = self.files(node.redirects)
        words = texts(node.words, self.variables)
        if words or writes or reads:
            self.command(words, writes, reads, stdin)

    def command(
        self, words: Sequence[str], writes: tuple[str, ...], reads: tuple[str, ...], stdin: StandardInput
    ) -> None:
        """One command of these words, and whatever it runs."""
        if not words:
            self.add(LineCommand((), self.directory, writes, reads))
            return
        if self.call(words, stdin) or (self.typed and len(words) > 1 and words[1] in tokens.ASSIGNS):
            return
        for _ in range(2 * MAX_DEPTH):
            self.add(LineCommand(tuple(words), self.directory, writes, reads))
            self.builtin(words, stdin)
            self.hand_over(words, stdin)
            self.follow_exec(words)
            inner_words = inner(words)
            if not inner_words:
                return
            words, writes, reads = self.with_input(inner_words, stdin), (), ()

    def follow_exec(self, words: Sequence[str]) -> None:
        for program in _exec_programs(words):
            self.follow(" ".join(program[:20]), lambda program=program: self.command(program, (), (), _NO_INPUT))  # type: ignore[misc]

    def with_input(self, words: list[str], stdin: StandardInput) -> list[str]:
        if words[-1] != FROM_STDIN:
            return words
        if stdin.text is not None:
            return [*words[:-1], *stdin.text.split()]
        return [*words[:-1], stdin.spelling if stdin.spelling.startswith("$(jobs") else FROM_STDIN]

    def call(self, words: Sequence[str], stdin: StandardInput) -> bool:
        """Whether the first word is a function or an alias of this line, which is then followed."""
        name = words[0]
        if name in self.running or not (name in self.functions or name in self.aliases):
            return False
        if name in self.aliases:
            self.follow_text(name, " ".join([self.aliases[name], *map(_quote, words[1:])]), stdin)
            return True
        outer_variables = self.variables
        self.variables = dict(outer_variables)
        args = tuple(words[1:])
        if len(args) <= MAX_ARGUMENTS and all(len(word) <= MAX_VALUE for word in args):
            self.variables.update({str(at): (word,) for at, word in enumerate(args, 1)}, **{"@": args, "*": args})
        self.follow(name, lambda: self.node(self.functions[name].body, stdin))
        self.variables = outer_variables
        return True

    def builtin(self, words: Sequence[str], stdin: StandardInput) -> None:
        """Follow builtins that change how later commands are read."""
        name, args = words[0], words[1:]
        if name == "cd":
            target = args[0] if args else "~"
            self.directory = join(self.directory, target) if not target.startswith(("-", "~")) else target
        elif name == "read":
            for arg in args:
                if arg.isidentifier():
                    self.variables[arg] = (stdin.spelling,)
        elif name == "alias":
            for arg in args:
                alias, equals, value = arg.partition("=")
                if equals:
                    self.follow_text(alias, value, _NO_INPUT)
                    self.aliases[alias] = value
        elif name in ("export", "declare", "local", "readonly", "typeset"):
            for arg in args:
                variable, equals, value = arg.partition("=")
                if equals and variable.isidentifier():
                    self.set(variable, value)

    def hand_over(self, words: Sequence[str], stdin: StandardInput) -> None:
        """Follow text that a program gives to a shell."""
        shell_line = shell_text(words)
        if shell_line:
            self.follow_text(shell_line, shell_line, stdin)
        elif stdin.text and is_shell(basename(words[0])) and reads_commands(words):
            self.follow_text(stdin.text, stdin.text, _NO_INPUT)

    def follow_text(self, name: str, line: str, stdin: StandardInput) -> None:
        def run() -> None:
            script = _parse(line)
            self.script(script, stdin)
            if script.error is not None:
                self.tokens(line)

        if len(line) <= self.chars_left:
            self.chars_left -= len(line)
            self.follow(name, run)

    def follow(self, name: str, run: Callable[[], None]) -> None:
        if self.calls_left <= 0 or len(self.running) >= MAX_DEPTH or name in self.running:
            return
        self.calls_left -= 1
        self.running.append(name)
        run()
        self.running.pop()

    def add(self, command: LineCommand) -> None:
        if len(self.line_commands) >= MAX_COMMANDS:
            raise _TooManyCommands
        self.line_commands.append(command)


def _parse(line: str) -> Script:
    return parse(_BEFORE.sub(r"\g<start> ", line))


def _exec_programs(words: Sequence[str]) -> Iterator[list[str]]:
    """The programs that `find` and `fd` run for what they find."""
    if basename(words[0]) not in ("find", "fd", "fdfind"):
        return
    at = 1
    while at < len(words):
        at += 1
        if words[at - 1] in _EXECUTES:
            rest = words[at:]
            end = next((index for index, word in enumerate(rest) if word in (";", "+")), len(rest))
            if end:
                yield list(rest[:end])
            at += end


def _quote(word: str) -> str:
    """A word for a text that is read again; what expands in it still does."""
    return word if "$" in word else shlex.quote(word)


def _unescape(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t")


def _format(form: str, values: Sequence[str]) -> str:
    """`printf` of strings."""
    if "%s" not in form or len(form) * len(values) > MAX_SHELL_TEXT:
        return form
    return "".join(form.replace("%s", value, 1) for value in values) if form.count("%s") == 1 else " ".join(values)
