"""A line to every command that it would run, wherever it stands and whatever runs it.

Law     `commands` gives each command once, in the order of the text, whether it would run or not: those in lists,
        loops, substitutions, function bodies and here-documents that feed a shell; behind `sudo`, `env`, `timeout`,
        `xargs`, `find -exec`; in the text of `sh -c`, `eval`, `trap`, aliases; calls of functions and aliases that the
        line defines, with their arguments in place. A wrapper is a command too. Values that the line itself gives to
        variables are followed, and so is `cd`.
Limits  `MAX_FOUND` commands, `MAX_CALLS` calls of functions, aliases and texts, `MAX_DEPTH` of them inside each other,
        `MAX_HANDED` characters of such texts, `MAX_GIVEN` arguments, `MAX_VALUE` characters of a value.
Errors  none: text that is not valid bash is judged by what was understood of it and by its tokens (`tokens`).
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from posixpath import basename
from typing import Literal, NamedTuple

from paddock.sandbox.blocklist import shapes, tokens
from paddock.sandbox.blocklist.rendering import shown, text, texts
from paddock.sandbox.blocklist.wrapping import FED, inner, is_shell, reads_commands, shell_text
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

MAX_FOUND = 20_000
MAX_CALLS = 100
MAX_DEPTH = 8
MAX_HANDED = 100_000
MAX_VALUE = 256
MAX_GIVEN = 64

Shape = Literal["command", "recursion", "endless"]


class Found(NamedTuple):
    """One command."""

    words: tuple[str, ...]
    """Empty: redirections alone."""
    place: str
    """The directory it runs in; `.` is where the line starts."""
    writes: tuple[str, ...] = ()
    """Files that it opens to write, as spelled."""
    reads: tuple[str, ...] = ()
    shape: Shape = "command"
    """Other than `command`: `words` name a function that multiplies itself, or show an endless loop."""


class Feed(NamedTuple):
    """What stands on a command's standard input."""

    text: str | None = None
    """The text, where it is known."""
    shown: str = FED
    """How it is spelled where it becomes an operand."""


_NOTHING = Feed()
_BEFORE = re.compile(
    r"(?P<start>\A|[;&|({\n]|\b(?:if|then|elif|else|while|until|do)(?=[ \t]))"
    r"[ \t]*(?:(?:!|time(?:[ \t]+-p)?(?:[ \t]+--)?)[ \t]+)+(?=[^ \t\n-])"
)
"""`time` and `!`, which may stand before any pipeline, as often as one likes. The grammar takes `time` for a program,
and after either of them the first word of a loop or a group too."""
_EXECUTES = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"})
_ESCAPE = re.compile(r"\A\s*(?::?!|\\!)\s*")
"""How a line for a shell is typed into an editor, a notebook or a database client."""


class _Enough(Exception):  # noqa: N818
    """There are as many commands as are looked at."""


def commands(line: str, *, typed: bool = False) -> list[Found]:
    """`typed`: the line goes to a running program, so text that is no shell command may be another language's."""
    walker = _Walker(typed=typed)
    try:
        walker.line(_ESCAPE.sub("", line, count=1) if typed else line)
    except _Enough:
        pass
    except RecursionError:
        plain = _Walker(typed=typed)
        with suppress(_Enough):
            plain.tokens(line)
        return walker.found + plain.found
    return walker.found


class _Walker:
    def __init__(self, *, typed: bool) -> None:
        self.typed = typed
        self.found: list[Found] = []
        self.place = START
        self.variables: dict[str, tuple[str, ...]] = {}
        self.functions: dict[str, Function] = {}
        self.aliases: dict[str, str] = {}
        self.calls_left = MAX_CALLS
        self.chars_left = MAX_HANDED
        self.running: list[str] = []
        """Names and texts being followed now."""

    def line(self, line: str) -> None:
        script = _parse(line)
        if script.error is None or not self.typed:
            self.script(script)
        if script.error is not None:
            self.tokens(line)

    def tokens(self, line: str) -> None:
        for segment in tokens.segments(line):
            self.command(segment.words, segment.writes, segment.reads, Feed(segment.stdin))

    def script(self, script: Script, feed: Feed = _NOTHING) -> None:
        for statement in script.statements:
            self.node(statement.node, feed)

    def node(self, node: Node, feed: Feed) -> None:
        if isinstance(node, Simple):
            self.simple(node, feed)
        elif isinstance(node, Pipeline):
            self.pipeline(node, feed)
        elif isinstance(node, AndOr):
            self.node(node.first, feed)
            for _, each in node.rest:
                self.node(each, feed)
        elif isinstance(node, Function):
            self.functions[node.name] = node
            if shapes.multiplies(node):
                self.add(Found((node.name,), self.place, shape="recursion"))
            self.running.append(node.name)
            self.node(node.body, feed)
            self.running.pop()
        else:
            self.block(node, feed)

    def pipeline(self, node: Pipeline, feed: Feed) -> None:
        for stage in node.stages:
            place = self.place
            self.node(stage, feed)
            if len(node.stages) > 1:
                self.place = place
            feed = self.output(stage, feed)

    def output(self, stage: Node, feed: Feed) -> Feed:
        """What a stage hands to the next one."""
        if not isinstance(stage, Simple) or not stage.words:
            return _NOTHING
        words = texts(stage.words, self.variables) or [""]
        name, args = basename(words[0]), words[1:]
        spelled = f"$({shown(Script((Statement(stage),)))})"
        if name == "echo":
            options = [word for word in args[:1] if word in ("-n", "-e", "-ne", "-en")]
            return Feed(_unescaped(" ".join(args[len(options) :])), spelled)
        if name == "printf" and args:
            return Feed(_unescaped(_formatted(args[0], args[1:])), spelled)
        if name in ("cat", "tee"):
            documents = [text(each.target, self.variables) for each in stage.redirects if each.op == "<<"]
            passes = name == "tee" or not [word for word in args if not word.startswith("-")]
            return Feed(documents[-1] if documents else feed.text if passes else None, spelled)
        return Feed(None, spelled)

    def block(self, node: Block | Compound, feed: Feed) -> None:
        place = self.place
        feed = self.redirected(node.redirects, feed)
        if isinstance(node, Block):
            self.script(node.body, feed)
            if node.kind == "(":
                self.place = place
            return
        if shapes.endless(node):
            self.add(Found((*(part for part in node.parts[:1] if isinstance(part, str)),), self.place, shape="endless"))
        self.loop_variable(node)
        for part in node.parts:
            if isinstance(part, Script):
                self.script(part, feed)
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

    def redirected(self, redirects: Sequence[Redirect], feed: Feed) -> Feed:
        writes, reads = self.files(redirects)
        if writes or reads:
            self.add(Found((), self.place, writes, reads))
        return self.documents(redirects, feed)

    def documents(self, redirects: Sequence[Redirect], feed: Feed) -> Feed:
        for redirect in redirects:
            self.inside([redirect.target])
            if redirect.op == "<<":
                feed = Feed(text(redirect.target, self.variables))
            elif redirect.op == "<":
                feed = _NOTHING
        return feed

    def files(self, redirects: Sequence[Redirect]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        writes = [each.target for each in redirects if each.op in (">", ">>", ">|", "<>")]
        reads = [each.target for each in redirects if each.op in ("<", "<>")]
        return tuple(text(each, self.variables) for each in writes), tuple(text(each, self.variables) for each in reads)

    def inside(self, words: Sequence[Word]) -> None:
        """The scripts that stand inside words."""
        for word in words:
            for part in word.parts:
                scripts = (part.script,) if isinstance(part, Sub) else ()
                for script in part.scripts if isinstance(part, (Param, Arith)) else scripts:
                    place = self.place
                    self.script(script)
                    self.place = place

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

    def simple(self, node: Simple, feed: Feed) -> None:
        self.inside(node.words)
        for assign in node.assigns:
            if node.words:
                self.inside([assign.value] if isinstance(assign.value, Word) else assign.value)
            else:
                self.assign(assign)
        fed = self.documents(node.redirects, feed)
        writes, reads = self.files(node.redirects)
        words = texts(node.words, self.variables)
        if words or writes or reads:
            self.command(words, writes, reads, fed)

    def command(self, words: Sequence[str], writes: tuple[str, ...], reads: tuple[str, ...], feed: Feed) -> None:
        """One command of these words, and whatever it runs."""
        if not words:
            self.add(Found((), self.place, writes, reads))
            return
        if self.call(words, feed) or (self.typed and len(words) > 1 and words[1] in tokens.ASSIGNS):
            return
        for _ in range(2 * MAX_DEPTH):
            self.add(Found(tuple(words), self.place, writes, reads))
            self.builtin(words, feed)
            self.hand_over(words, feed)
            self.executed(words)
            behind = inner(words)
            if not behind:
                return
            words, writes, reads = self.with_input(behind, feed), (), ()

    def executed(self, words: Sequence[str]) -> None:
        for found in _executed(words):
            self.follow(" ".join(found[:20]), lambda found=found: self.command(found, (), (), _NOTHING))  # type: ignore[misc]

    def with_input(self, words: list[str], feed: Feed) -> list[str]:
        if words[-1] != FED:
            return words
        if feed.text is not None:
            return [*words[:-1], *feed.text.split()]
        return [*words[:-1], feed.shown if feed.shown.startswith("$(jobs") else FED]

    def call(self, words: Sequence[str], feed: Feed) -> bool:
        """Whether the first word is a function or an alias of this line, which is then followed."""
        name = words[0]
        if name in self.running or not (name in self.functions or name in self.aliases):
            return False
        if name in self.aliases:
            self.hand(name, " ".join([self.aliases[name], *map(_quoted, words[1:])]), feed)
            return True
        kept = self.variables
        self.variables = dict(kept)
        args = tuple(words[1:])
        if len(args) <= MAX_GIVEN and all(len(word) <= MAX_VALUE for word in args):
            self.variables.update({str(at): (word,) for at, word in enumerate(args, 1)}, **{"@": args, "*": args})
        self.follow(name, lambda: self.node(self.functions[name].body, feed))
        self.variables = kept
        return True

    def builtin(self, words: Sequence[str], feed: Feed) -> None:
        """What changes how later commands read."""
        name, args = words[0], words[1:]
        if name == "cd":
            target = args[0] if args else "~"
            self.place = join(self.place, target) if not target.startswith(("-", "~")) else target
        elif name == "read":
            for each in args:
                if each.isidentifier():
                    self.variables[each] = (feed.shown,)
        elif name == "alias":
            for each in args:
                alias, equals, value = each.partition("=")
                if equals:
                    self.hand(alias, value, _NOTHING)
                    self.aliases[alias] = value
        elif name in ("export", "declare", "local", "readonly", "typeset"):
            for each in args:
                variable, equals, value = each.partition("=")
                if equals and variable.isidentifier():
                    self.set(variable, value)

    def hand_over(self, words: Sequence[str], feed: Feed) -> None:
        """Text that a program gives to a shell."""
        handed = shell_text(words)
        if handed:
            self.hand(handed, handed, feed)
        elif feed.text and is_shell(basename(words[0])) and reads_commands(words):
            self.hand(feed.text, feed.text, _NOTHING)

    def hand(self, name: str, line: str, feed: Feed) -> None:
        def run() -> None:
            script = _parse(line)
            self.script(script, feed)
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

    def add(self, found: Found) -> None:
        if len(self.found) >= MAX_FOUND:
            raise _Enough
        self.found.append(found)


def _parse(line: str) -> Script:
    return parse(_BEFORE.sub(r"\g<start> ", line))


def _executed(words: Sequence[str]) -> Iterator[list[str]]:
    """The programs that `find` and `fd` run for what they find."""
    if basename(words[0]) not in ("find", "fd", "fdfind"):
        return
    at = 1
    while at < len(words):
        at += 1
        if words[at - 1] in _EXECUTES:
            rest = words[at:]
            end = next((index for index, each in enumerate(rest) if each in (";", "+")), len(rest))
            if end:
                yield list(rest[:end])
            at += end


def _quoted(word: str) -> str:
    """A word for a text that is read again; what expands in it still does."""
    return word if "$" in word else shlex.quote(word)


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t")


def _formatted(form: str, values: Sequence[str]) -> str:
    """`printf` of strings."""
    if "%s" not in form or len(form) * len(values) > MAX_HANDED:
        return form
    return "".join(form.replace("%s", value, 1) for value in values) if form.count("%s") == 1 else " ".join(values)
