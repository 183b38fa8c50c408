"""The commands of a script without what only decorates them, and what the decoration hides.

Law     a script is a row of bare commands that all run where each succeeds: statements, `&&` and groups in order. Left
        out is what `decoration` names: messages (`echo` of plain words or of `$?`, `pwd`, `true`), also behind `||`;
        `set -e` and its like; `2>&1` and `2>/dev/null`; pagers; `time`, `nice`, `timeout` and their like; variables
        that change only looks. A shell's `-c` or here-document is opened; a `cd` (also `cd D || exit`), an `export` and
        an `env` move into the commands behind them. `| head` and `| tail` become the lines that are shown.
None    everything else that decides what runs or where its output goes: loops, functions, variables, substitutions,
        other `||`, background, a directory that is not known by its text, or that holds nothing of what is named.
Errors  none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from paddock.resources_servers.pivot.semantic.intents.decoration import (
    PAGERS,
    NotBareError,
    git_looks,
    hides_nothing,
    is_assignment,
    is_bare_shell,
    is_message,
    only_looks,
    script_of,
    sets_looks,
    shown_lines,
    text_of,
    wrapper_words,
)
from paddock.resources_servers.pivot.semantic.paths import levels_above, resolve
from paddock.shell import Redirect, Script, Simple, Word, parse
from paddock.shell.syntax import AndOr, Assign, Block, Node, Pipeline

_MAX_COMMANDS = 32
_MAX_NESTED_SHELLS = 3
_SHELL_STATE = frozenset({
    "cd", "export", "set", "exit", "return", "source", ".", "eval", "exec", "alias", "unalias", "pushd", "popd",
    "unset", "declare", "typeset", "local", "readonly", "trap", "shopt", "hash", "enable", "builtin", "logout",
    "umask", "ulimit",
})  # fmt: skip
"""Commands that change the shell in which the others run."""


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
    except NotBareError:
        return None
    entered = {command.directory for command in commands if not _strays(command, directory)}
    if any(command.directory not in entered for command in commands):
        return None
    return tuple(commands) if 0 < len(commands) <= _MAX_COMMANDS else None


def _strays(command: BareCommand, start: str | None) -> bool:
    """Whether a command is in a directory for nothing: its absolute paths are elsewhere, so it need not even exist.

    A patch is made in the directory, wherever it is read from; a script of `sed` may look like a path.
    """
    where = command.directory
    if where is None or where == start or (start is not None and levels_above(where, start) is not None):
        return False
    program, *operands = command.stages[-1].words or ("",)
    if program in ("patch", "git") or (program == "sed" and operands and not operands[-1].startswith("/")):
        return False
    absolute = [word for stage in command.stages for word in stage.words[1:] if word.startswith("/")]
    return bool(absolute) and all(levels_above(where, resolve(path, None)) is None for path in absolute)


class _Walk:
    """Walks a script in the order in which it runs; `directory` and `environment` are those of the next command."""

    def __init__(self, directory: str | None) -> None:
        self.directory = directory
        self.environment: dict[str, str] = {}

    def script(self, script: Script, depth: int) -> list[BareCommand]:
        if script.error or len(script.statements) > _MAX_COMMANDS:
            raise NotBareError
        nodes: list[Node] = []
        for statement in script.statements:
            if statement.background:
                raise NotBareError
            nodes.extend(_conjuncts(statement.node))
        return [command for node in nodes for command in self.node(node, depth)]

    def node(self, node: Node, depth: int) -> list[BareCommand]:
        match node:
            case Simple():
                return [] if is_message(node) else self.simple(node, depth)
            case Pipeline(negated=False):
                return [self.pipeline(node, depth)]
            case Block() if all(map(hides_nothing, node.redirects)):
                outer = (self.directory, dict(self.environment))
                commands = self.script(node.body, depth)
                if node.kind == "(":
                    self.directory, self.environment = outer
                return commands
            case _:
                raise NotBareError

    def simple(self, node: Simple, depth: int) -> list[BareCommand]:
        stage, environment = self.stage(node)
        words = stage.words
        if words in ((), (":",), ("true",)) and not environment and not all(map(hides_nothing, node.redirects)):
            empty = BareCommand((Stage((":",)),), self.directory, tuple(sorted(self.environment.items())))
            return [_with_output(_with_input(empty, node.redirects), node.redirects)]
        if not words or words[0] in _SHELL_STATE:
            if environment or not all(map(hides_nothing, node.redirects)):
                raise NotBareError
            self.change_shell(stage)
            return []
        script = _inner_script(words, node)
        if script is not None:
            if depth >= _MAX_NESTED_SHELLS:
                raise NotBareError
            inner = _Walk(self.directory)
            inner.environment = {**self.environment, **environment}
            return inner.script(parse(script), depth + 1)
        command = BareCommand((stage,), self.directory, tuple(sorted({**self.environment, **environment}.items())))
        return [_with_output(_with_input(command, node.redirects), node.redirects)]

    def change_shell(self, stage: Stage) -> None:
        """Do what a command does to the shell: it moves, or sets what later commands see."""
        words = stage.words
        if not words:
            return
        if words[0] == "cd" and not stage.globs and len(words) == 2 and words[1][:1] not in ("", "-", "~"):
            entered = resolve(words[1], self.directory)
            self.directory = None if entered == "." else entered
        elif words[0] == "export" and len(words) > 1 and all(map(is_assignment, words[1:])) and not stage.globs:
            pairs = map(_pair, words[1:])
            self.environment.update((name, value) for name, value in pairs if not only_looks(name, value))
        elif not sets_looks(words):
            raise NotBareError

    def pipeline(self, node: Pipeline, depth: int) -> BareCommand:
        first, *rest = node.stages
        stages: list[Stage] = []
        last: tuple[Redirect, ...] = ()
        for part in rest:
            if not isinstance(part, Simple) or not all(map(hides_nothing, last)):
                raise NotBareError
            stage, environment = self.stage(part)
            last = part.redirects
            if not stage.words or environment or stage.words[0] in _SHELL_STATE or any(each.fd == 0 for each in last):
                raise NotBareError
            stages.append(stage)
        commands = self.node(first, depth) if isinstance(first, Simple | Block) else []
        if len(commands) != 1 or commands[0].output_path is not None:
            raise NotBareError
        command = commands[0]
        if (command.first_lines, command.last_lines) != (None, None):
            raise NotBareError
        return _without_tail(_with_output(replace(command, stages=(*command.stages, *stages)), last))

    def stage(self, node: Simple) -> tuple[Stage, dict[str, str]]:
        """Return a simple command's words without programs that only run others, and its own variables."""
        environment = dict(map(_assignment, node.assigns))
        read = [text_of(word) for word in node.words]
        texts = [text for text, _ in read]
        skipped = 0
        while (step := wrapper_words(texts[skipped:])) is not None:
            environment.update(_pair(word) for word in texts[skipped : skipped + step] if is_assignment(word))
            skipped += step
        looks = git_looks(texts[skipped:])
        kept = read[skipped : skipped + 1] + read[skipped + 1 + looks :]
        globs = frozenset(index for index, (_, is_glob) in enumerate(kept) if is_glob)
        environment = {name: value for name, value in environment.items() if not only_looks(name, value)}
        return Stage(tuple(text for text, _ in kept), globs), environment


def _inner_script(words: tuple[str, ...], node: Simple) -> str | None:
    """Return the script that a command gives to a shell; None: it runs no shell."""
    redirects = [redirect for redirect in node.redirects if not hides_nothing(redirect)]
    text = script_of(words)
    if text is None and is_bare_shell(words) and len(redirects) == 1 and redirects[0].op == "<<":
        text = redirects.pop().target.text
    if text is not None and redirects:
        raise NotBareError
    return text


def _with_input(command: BareCommand, redirects: Sequence[Redirect]) -> BareCommand:
    for redirect in redirects:
        target = redirect.target.text
        if redirect.fd == 0 and redirect.op == "<<" and target is not None:
            command = replace(command, stdin=target)
        elif redirect.fd == 0 and redirect.op == "<" and target is not None:
            command = replace(command, stages=(Stage(("cat", target)), *command.stages))
        elif redirect.fd == 0:
            raise NotBareError
    return command


def _with_output(command: BareCommand, redirects: Sequence[Redirect]) -> BareCommand:
    for redirect in redirects:
        target = redirect.target.text
        if redirect.fd == 1 and redirect.op in (">", ">>", ">|") and target is not None:
            if command.output_path is not None:
                raise NotBareError
            command = replace(command, output_path=target, appends=redirect.op == ">>")
        elif redirect.fd != 0 and not hides_nothing(redirect):
            raise NotBareError
    return command


def _conjuncts(node: Node) -> Iterator[Node]:
    """Yield the commands of `a && b || true` that run where each succeeds."""
    if not isinstance(node, AndOr):
        yield node
        return
    yield from _conjuncts(node.first)
    before = node.first
    for operator, right in node.rest:
        if operator == "&&":
            yield from _conjuncts(right)
        elif not isinstance(right, Simple) or not (is_message(right) or (_runs("exit", right) and _runs("cd", before))):
            raise NotBareError
        before = right


def _runs(program: str, node: Node) -> bool:
    """Say whether a node is one command of this program, with literal words and nothing else."""
    if not isinstance(node, Simple) or node.assigns or node.redirects or not node.words:
        return False
    return node.words[0].text == program and all(word.text is not None for word in node.words)


def _assignment(assign: Assign) -> tuple[str, str]:
    if assign.append or not isinstance(assign.value, Word) or (assign.value.parts and assign.value.text is None):
        raise NotBareError
    return assign.name, assign.value.text or ""


def _pair(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, value


def _without_tail(command: BareCommand) -> BareCommand:
    """Take pagers and one `head` or `tail` from the end of a pipeline."""
    while len(command.stages) > 1 and command.output_path is None:
        words = command.stages[-1].words
        shorter = replace(command, stages=command.stages[:-1])
        if words in PAGERS:
            command = shorter
            continue
        count = shown_lines(words)
        if count is None or (command.first_lines, command.last_lines) != (None, None):
            return command
        command = replace(shorter, first_lines=count) if words[0] == "head" else replace(shorter, last_lines=count)
    return command
