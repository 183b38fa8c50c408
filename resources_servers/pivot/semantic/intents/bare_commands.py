"""The commands of a script without what only decorates them, and what the decoration hides.

Law     a script is a row of bare commands that all run where each succeeds: statements, `&&` and groups in order. Left
        out are `set -e` and its like, `true`, an `echo` or `printf` of plain words (none that a harness may wait for)
        beside other commands, `|| true`,
        `2>&1`, `2>/dev/null`, a pager, `time`, `nice`, `stdbuf`, `command`, a `timeout` of `MIN_TIMEOUT_S` or more; a
        shell's `-c` is opened; a `cd` and an `env` move into the commands behind them. `| head` and `| tail` become the
        lines that are shown.
None    everything else that decides what runs or where its output goes: loops, functions, variables, substitutions,
        other `||`, background, a directory that is not known by its text, or that holds nothing of what is named.
Errors  none.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from paddock.resources_servers.pivot.semantic.paths import levels_above, resolve
from paddock.shell import Redirect, Script, Simple, Word, parse
from paddock.shell.syntax import Active, AndOr, Assign, Block, Lit, Node, Pipeline

MIN_TIMEOUT_S = 5.0
"""A shorter `timeout` may end what another would let finish."""
_MAX_COMMANDS = 32
_MAX_NESTED_SHELLS = 3
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
_PAGERS = frozenset({("cat",), ("cat", "-"), ("less",), ("less", "-R"), ("more",)})
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_SECONDS_OF = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LINE_COUNT = re.compile(r"-n?(\d+)|--lines=(\d+)")


@dataclass(frozen=True, slots=True)
class Stage:
    """One program of a pipeline and its words, the program's name first."""

    words: tuple[str, ...]
    globs: frozenset[int] = frozenset()
    """Indexes of the words that the shell may expand to names of files: their text is the pattern."""


@dataclass(frozen=True, slots=True)
class BareCommand:
    """One command, or a pipeline of several, in the directory where it runs."""

    stages: tuple[Stage, ...]
    directory: str | None
    """Absolute, or relative to where the tool runs; None: where the tool runs, which is not known."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables that are set for it, sorted by name."""
    stdin: str | None = None
    """The text of a here-document for the first stage; None: there is none."""
    output_path: str | None = None
    """The file that its output replaces, or is added to with `appends`, as written; None: it is shown."""
    appends: bool = False
    first_lines: int | None = None
    """Only so many lines of the output are shown, from its beginning (`| head`); None: all."""
    last_lines: int | None = None
    """Only so many lines of the output are shown, from its end (`| tail`); None: all."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words of a command of one stage; empty for a pipeline."""
        return self.stages[0].words if len(self.stages) == 1 else ()

    @property
    def is_plain(self) -> bool:
        """Whether it is one stage that shows all that it prints and reads no text of the script."""
        shown = (self.stdin, self.output_path, self.first_lines, self.last_lines) == (None,) * 4
        return shown and len(self.stages) == 1


def bare_commands(script_text: str, directory: str | None) -> tuple[BareCommand, ...] | None:
    """Return the commands of a script that starts in `directory` (None: unknown); None: it is more than a row of them.

    A script that only moves or decorates has none, and is None, too.
    """
    try:
        commands = _Walk(directory).script(parse(script_text), 0)
    except _NotBareError:
        return None
    if any(_strays(command, directory) for command in commands):
        return None
    return tuple(commands) if 0 < len(commands) <= _MAX_COMMANDS else None


def _strays(command: BareCommand, start: str | None) -> bool:
    """Whether a command enters a directory for nothing: its absolute paths are elsewhere, so it need not even exist."""
    where = command.directory
    if where is None or where == start or (start is not None and levels_above(where, start) is not None):
        return False
    absolute = [word for stage in command.stages for word in stage.words[1:] if word.startswith("/")]
    return bool(absolute) and all(levels_above(where, resolve(path, None)) is None for path in absolute)


class _NotBareError(Exception):
    """Something in the script decides what runs, or cannot be known from its text."""


class _Walk:
    """Walks a script in the order in which it runs; `directory` and `environment` are those of the next command."""

    def __init__(self, directory: str | None) -> None:
        self.directory = directory
        self.environment: dict[str, str] = {}

    def script(self, script: Script, depth: int) -> list[BareCommand]:
        if script.error or len(script.statements) > _MAX_COMMANDS:
            raise _NotBareError
        nodes: list[Node] = []
        for statement in script.statements:
            if statement.background:
                raise _NotBareError
            nodes.extend(_conjuncts(statement.node))
        commands = [command for node in nodes for command in self.node(node, depth)]
        shown = [command for command in commands if not _only_prints(command)]
        return shown or commands

    def node(self, node: Node, depth: int) -> list[BareCommand]:
        match node:
            case Simple():
                return self.simple(node, depth)
            case Pipeline(negated=False):
                return [self.pipeline(node)]
            case Block(redirects=()):
                outer = (self.directory, dict(self.environment))
                commands = self.script(node.body, depth)
                if node.kind == "(":
                    self.directory, self.environment = outer
                return commands
            case _:
                raise _NotBareError

    def simple(self, node: Simple, depth: int) -> list[BareCommand]:
        stage, environment = self.stage(node)
        words = stage.words
        if not words:
            self.environment.update(environment)
            return []
        if words[0] == "cd" and not stage.globs and len(words) == 2 and words[1][:1] not in ("-", "~"):
            self.directory = resolve(words[1], self.directory) if self._can_enter(words[1]) else None
            return []
        if words[0] == "export" and all("=" in word for word in words[1:]):
            self.environment.update(map(_pair, words[1:]))
            return []
        if (words[0] == "set" and len(words) > 1 and words[1][:1] in "-+") or words in (("true",), (":",)):
            return []
        if words[0] in ("cd", "export", "set", "exit", "source", ".", "eval", "exec", "alias", "pushd", "popd"):
            raise _NotBareError
        if posixpath.basename(words[0]) in _SHELLS and len(words) == 3 and words[1] in ("-c", "-lc", "-cl"):
            if node.redirects and not all(map(_hides_nothing, node.redirects)):
                raise _NotBareError
            if depth >= _MAX_NESTED_SHELLS:
                raise _NotBareError
            inner = _Walk(self.directory)
            inner.environment = {**self.environment, **environment}
            return inner.script(parse(words[2]), depth + 1)
        return [self._command((stage,), environment, node.redirects, node.redirects)]

    def pipeline(self, node: Pipeline) -> BareCommand:
        stages: list[Stage] = []
        environment: dict[str, str] = {}
        first: tuple[Redirect, ...] = ()
        last: tuple[Redirect, ...] = ()
        for index, part in enumerate(node.stages):
            if not isinstance(part, Simple):
                raise _NotBareError
            stage, own = self.stage(part)
            if not stage.words or (own and index):
                raise _NotBareError
            inner = part.redirects if index in (0, len(node.stages) - 1) else ()
            if any(not _hides_nothing(redirect) for redirect in part.redirects if redirect not in inner):
                raise _NotBareError
            environment = environment or own
            first = part.redirects if index == 0 else first
            last = part.redirects
            stages.append(stage)
        if any(redirect.fd == 1 for redirect in first) or any(redirect.fd == 0 for redirect in last):
            raise _NotBareError
        return _without_tail(self._command(tuple(stages), environment, first, last))

    def _command(
        self,
        stages: tuple[Stage, ...],
        environment: dict[str, str],
        first: Sequence[Redirect],
        last: Sequence[Redirect],
    ) -> BareCommand:
        command = BareCommand(stages, self.directory, tuple(sorted({**self.environment, **environment}.items())))
        for redirect in first:
            target = redirect.target.text
            if redirect.fd == 0 and redirect.op == "<<" and target is not None:
                command = replace(command, stdin=target)
            elif redirect.fd == 0 and redirect.op == "<" and target is not None:
                command = replace(command, stages=(Stage(("cat", target)), *command.stages))
            elif redirect.fd == 0:
                raise _NotBareError
        for redirect in last:
            target = redirect.target.text
            if redirect.fd == 1 and redirect.op in (">", ">>", ">|") and target is not None:
                command = replace(command, output_path=target, appends=redirect.op == ">>")
            elif redirect.fd != 0 and not _hides_nothing(redirect):
                raise _NotBareError
        return command

    def stage(self, node: Simple) -> tuple[Stage, dict[str, str]]:
        """Return a simple command's words without programs that only run others, and its own variables."""
        environment = dict(map(_assignment, node.assigns))
        texts: list[str] = []
        globs: set[int] = set()
        for index, word in enumerate(node.words):
            text, is_glob = _text_of(word)
            texts.append(text)
            if is_glob:
                globs.add(index)
        skipped = 0
        while (step := _wrapper_words(texts[skipped:])) is not None:
            environment.update(_pair(word) for word in texts[skipped : skipped + step] if _is_assignment(word))
            skipped += step
        kept = frozenset(index - skipped for index in globs if index >= skipped)
        return Stage(tuple(texts[skipped:]), kept), environment

    def _can_enter(self, path: str) -> bool:
        return path.startswith("/") or self.directory is not None


def _conjuncts(node: Node) -> Iterator[Node]:
    """Yield the commands of `a && b || true` that run where each succeeds."""
    if not isinstance(node, AndOr):
        yield node
        return
    yield from _conjuncts(node.first)
    for operator, right in node.rest:
        if operator == "&&":
            yield from _conjuncts(right)
        elif not (isinstance(right, Simple) and not right.redirects and _name(right) in ("true", ":", "echo")):
            raise _NotBareError


def _name(node: Simple) -> str | None:
    return node.words[0].text if node.words else None


_MARKER = re.compile(r"[A-Z0-9]+(?:_[A-Z0-9]+)+")
"""A word that a harness may wait for in what is printed, as `COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT`."""


def _only_prints(command: BareCommand) -> bool:
    if not command.is_plain or command.words[0] not in ("echo", "printf"):
        return False
    if any(_MARKER.search(word) for word in command.words):
        raise _NotBareError
    return True


def _text_of(word: Word) -> tuple[str, bool]:
    """Return a word's text, and whether the shell may expand it to names of files."""
    if word.text is not None:
        return word.text, False
    if not all(isinstance(part, Lit | Active) for part in word.parts):
        raise _NotBareError
    return "".join(part.text for part in word.parts if isinstance(part, Lit | Active)), bool(word.parts)


def _assignment(assign: Assign) -> tuple[str, str]:
    if assign.append or not isinstance(assign.value, Word) or (assign.value.parts and assign.value.text is None):
        raise _NotBareError
    return assign.name, assign.value.text or ""


def _is_assignment(word: str) -> bool:
    return re.match(r"[A-Za-z_]\w*=", word) is not None


def _pair(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, value


def _hides_nothing(redirect: Redirect) -> bool:
    """Whether a redirection only moves or drops what a command prints as errors."""
    target = redirect.target.text
    return redirect.fd == 2 and ((redirect.op == ">&" and target == "1") or target == "/dev/null")


def _wrapper_words(words: Sequence[str]) -> int | None:
    """Count the leading words of a program that only runs the words behind it; None: the first word is none."""
    match words:
        case ["time" | "command", rest, *_] if not rest.startswith("-"):
            return 1
        case ["env", rest, *_] if not rest.startswith("-"):
            return 1 + next((i for i, word in enumerate(words[1:]) if not _is_assignment(word)), 0)
        case ["nice", "-n", _, _, *_]:
            return 3
        case ["nice", rest, *_] if not rest.startswith("-"):
            return 1
        case ["stdbuf", option, _, *_] if option.startswith("-"):
            return 2
        case ["timeout", duration, _, *_] if (found := _DURATION.fullmatch(duration)) is not None:
            if float(found[1]) * _SECONDS_OF[found[2]] < MIN_TIMEOUT_S:
                raise _NotBareError
            return 2
        case _:
            return None


def _without_tail(command: BareCommand) -> BareCommand:
    """Take pagers and one `head` or `tail` from the end of a pipeline."""
    while len(command.stages) > 1 and command.output_path is None:
        words = command.stages[-1].words
        shorter = replace(command, stages=command.stages[:-1])
        if words in _PAGERS:
            command = shorter
            continue
        count = _shown_lines(words)
        if count is None or (command.first_lines, command.last_lines) != (None, None):
            return command
        command = replace(shorter, first_lines=count) if words[0] == "head" else replace(shorter, last_lines=count)
    return command


def _shown_lines(words: tuple[str, ...]) -> int | None:
    match words:
        case ("head" | "tail",):
            return 10
        case ("head" | "tail", "-n" | "--lines", count) if count.isdigit():
            return int(count)
        case ("head" | "tail", option) if (found := _LINE_COUNT.fullmatch(option)) is not None:
            return int(found[1] or found[2])
        case _:
            return None
