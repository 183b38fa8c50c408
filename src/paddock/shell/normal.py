"""The normal form of a whole command line: `normal_form(script, cwd)`; equal forms do the same.

Law     a `cd` that surely happens becomes the directory of what follows, an exported literal the environment of what
        follows, groups and harmless stages vanish. Whatever this cannot follow (functions, `set`, a `cd` that depends
        on another command's success, ...) makes the whole command's form its tree as written.
Shapes  `NormalForm(form, tracked)`; forms are nested tuples that begin with a tag.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Literal, NamedTuple

from paddock.shell.commands import command_form, form_by_words, plain_words
from paddock.shell.form import CommandForm, word_form
from paddock.shell.paths import START, Form, join
from paddock.shell.stages import CAT, NAME, aligns, as_cat, counts_lines, is_cat, join_stages, unwrap_env
from paddock.shell.streams import Streams, streams
from paddock.shell.syntax import (
    Active,
    AndOr,
    Assign,
    Block,
    Compound,
    Lit,
    Node,
    Param,
    Part,
    Pipeline,
    Script,
    Simple,
    Sub,
    Word,
)
from paddock.shell.tables import COMMANDS, FOLLOWS_SHELL, SHELL_NAMES, SHELL_STATE, STRUCTURE_NAMES

TRUE: Form = ("true",)
CHANGING = FOLLOWS_SHELL | SHELL_STATE | {"cd"}


Sink = Literal["shown", "counted", "read"]
"""Where standard output goes: to the reader of the whole command, as does standard error; through stages that only
count lines; or to anything that may look at how a path in it is spelled."""


class NormalForm(NamedTuple):
    form: Form
    tracked: bool
    """False: the form is the tree as written."""
    entered: frozenset[str] = frozenset()
    """The directories of each `cd` that became the directory of what follows."""


def normal_form(script: Script, cwd: str | None = None) -> NormalForm:
    """`cwd` is absolute, or None where it is not known."""
    normalizer = _Normalizer(join("/", cwd) if cwd and cwd.startswith("/") else START)
    try:
        form = normalizer.script(script, sink="shown")
    except _Untracked:
        return NormalForm(("as written", script), tracked=False)
    if normalizer.lasting or (form == TRUE and normalizer.changed):
        form = ("then in", normalizer.state, form)
    return NormalForm(form, tracked=True, entered=frozenset(normalizer.entered))


class _Untracked(Exception):  # noqa: N818
    """The script changes its shell in a way that is not followed."""


class _State(NamedTuple):
    directory: str
    exported: tuple[tuple[str, str], ...] = ()
    """Sorted by name."""


class _Normalizer:
    """Walks a script in the order in which it runs. `state` is the shell's, `certain` False where it may differ."""

    def __init__(self, directory: str) -> None:
        self.state = _State(directory)
        self.entered: set[str] = set()
        self.certain = True
        self.stateful = False
        self.changed = False
        """`state` is not, or not always, what it was at the beginning."""
        self.lasting = False
        """The last command is a `cd` or an `export`: what it leaves behind is all that it does."""
        self.folded = False
        """The last command's exit status shows in no form: `$?` must not be read."""
        self.sure = False
        """The last form made exits with 0 when its inputs exist."""

    @property
    def directory(self) -> str:
        if not self.certain:
            raise _Untracked
        return self.state.directory

    def script(self, script: Script, *, sink: Sink) -> Form:
        forms: list[Form] = []
        for statement in script.statements:
            before = self.state
            form = self.node(statement.node, sink=sink)
            if statement.background:
                if self.state != before:
                    raise _Untracked
                form, self.lasting, self.sure = ("background", form), False, False
            elif form[0] == "sequence":
                forms.extend(part for part in form[1:] if isinstance(part, tuple))
                continue
            forms.append(form)
        shown = [form for form in forms[:-1] if form != TRUE] + forms[-1:]
        if len(shown) == 1:
            return shown[0]
        return ("sequence", *shown) if shown else TRUE

    def node(self, node: Node, *, sink: Sink) -> Form:
        if isinstance(node, Simple):
            return self.simple(node, sink=sink).form
        if isinstance(node, Pipeline):
            return self.pipeline(node, sink=sink)
        if isinstance(node, AndOr):
            return self.and_or(node, sink=sink)
        if isinstance(node, Block):
            return self.block(node, sink=sink)
        if isinstance(node, Compound):
            return self.compound(node, sink=sink)
        raise _Untracked

    def and_or(self, node: AndOr, *, sink: Sink) -> Form:
        """A list whose first commands surely succeed loses them; a state that changes later is known only inside."""
        form = self.node(node.first, sink=sink)
        chain: list[Any] = list(form[1:]) if form[0] == "and or" else [form]
        sure, depends = self.sure, False
        for op, follower in node.rest:
            nonempty = chain != [TRUE]
            if op == "||" and not nonempty:
                continue
            before = self.state
            form = self.node(follower, sink=sink)
            if op == "||" and (depends or self.state != before):
                raise _Untracked
            depends = depends or (nonempty and self.state != before)
            if not nonempty:
                chain, sure = (list(form[1:]) if form[0] == "and or" else [form]), self.sure
            elif op == "||" or form != TRUE:
                flat = op == "&&" and form[0] == "and or" and "||" not in form[2::2]
                chain += ["&&", *form[1:]] if flat else [op, form]
                sure = False
        self.certain = self.certain and not depends
        self.sure = sure
        if self.lasting and chain != [TRUE]:
            chain += ["&&", ("then in", self.state)]
            self.lasting = False
        if len(chain) == 1:
            only: Form = chain[0]
            return only
        if chain[0][0] != "sequence":
            return ("and or", *chain)
        *before_last, last = chain[0][1:]
        return ("sequence", *before_last, ("and or", last, *chain[1:]))

    def pipeline(self, node: Pipeline, *, sink: Sink) -> Form:
        """Stages run in shells of their own, so none changes the state. Read from the last, which tells what it looks
        at."""
        before, folded = (self.state, self.certain), self.folded
        stages, stdin = self._without_cats(node.stages)
        meanings: list[CommandForm] = []
        into = sink
        while stages:
            stage = stages.pop()
            self.folded = folded
            meaning = self._stage(stage, stdin if not stages else None, sink=into)
            if len(node.stages) > 1:
                self.state, self.certain = before
            if stage == CAT and stages and not meanings and self._stage(stages[-1], None, sink="read").sure:
                continue
            meanings.append(meaning)
            into = "counted" if into != "read" and counts_lines(meaning.form) else "read"
        if self.state != before[0]:
            raise _Untracked
        self.lasting = False
        self.sure = meanings[0].sure and not node.negated
        forms = join_stages([meaning.form for meaning in reversed(meanings)])
        form: Form = forms[0] if len(forms) == 1 else ("pipeline", *forms)
        self.folded = form == TRUE
        return ("not", form) if node.negated else form

    def _without_cats(self, nodes: Sequence[Node]) -> tuple[list[Node], Form | None]:
        """Stages without inner `cat`s, a last one as `CAT`, and the file of a first stage `cat file`."""
        first, *rest = nodes
        stages = [first, *(stage for stage in rest[:-1] if not is_cat(stage)), *rest[-1:]]
        if rest and is_cat(stages[-1]):
            stages[-1] = CAT
        if rest and isinstance(stages[1], Simple) and (source := self._cat_source(first)):
            return stages[1:], source
        return stages, None

    def _stage(self, node: Node, stdin: Form | None, *, sink: Sink) -> CommandForm:
        if isinstance(node, Simple):
            return self.simple(node, sink=sink, stdin=stdin)
        certain = self.certain
        form = self.node(node, sink=sink)
        self.certain = certain
        return CommandForm(form, self.sure)

    def _cat_source(self, node: Node) -> Form | None:
        if not isinstance(node, Simple) or node.assigns or node.redirects or len(node.words) != 2:
            return None
        form = self.simple(node, sink="read").form
        if form[:3] != ("lines", 1, None) or form[3] == ("stdin",):
            return None
        return form[3] if isinstance(form[3], tuple) else None

    def block(self, node: Block, *, sink: Sink) -> Form:
        """`{ }` is its body; so is `( )`, unless the body changes the shell in ways that end with it."""
        before, certain, outer = self.state, self.certain, self.stateful
        self.stateful = False
        form = self.script(node.body, sink="read" if node.redirects else sink)
        if node.kind == "(":
            form = ("subshell", form) if self.stateful else form
            self.state, self.certain, self.stateful, self.lasting = before, certain, outer, False
        self.stateful = self.stateful or outer
        if not node.redirects:
            return form
        if self.state != before:
            raise _Untracked
        self.sure = self.lasting = self.folded = False
        return ("redirected", form, streams(node.redirects, self, merged=sink == "shown"))

    def compound(self, node: Compound, *, sink: Sink) -> Form:
        before, parts = self.state, list[Hashable]()
        inner: Sink = "read" if node.redirects else sink
        for part in node.parts:
            if isinstance(part, str):
                self._check_names(part)
                parts.append(part)
            elif isinstance(part, Word):
                parts.append(word_form(part, self))
            elif isinstance(part, Script):
                parts.append(self.script(part, sink=inner))
            else:
                parts.append(self._assign(part))
        if self.state != before:
            raise _Untracked
        self.sure = self.lasting = self.folded = False
        self.stateful = True
        return (node.kind, self.directory, *parts, streams(node.redirects, self, merged=sink == "shown"))

    def simple(self, node: Simple, *, sink: Sink, stdin: Form | None = None) -> CommandForm:
        self.lasting = False
        meaning = self._simple(node, sink=sink, stdin=stdin)
        self.sure = meaning.sure
        self.folded = meaning.form == TRUE
        return meaning

    def _simple(self, node: Simple, *, sink: Sink, stdin: Form | None) -> CommandForm:
        assigns, words = unwrap_env(node)
        name = words[0].text if words else None
        if (
            any(assign.name in SHELL_NAMES or assign.name.startswith("LC_") for assign in assigns)
            or name in FOLLOWS_SHELL
        ):
            raise _Untracked
        if name in ("command", "time") and any(word.text is None or word.text in CHANGING for word in words[1:]):
            raise _Untracked
        where = streams(node.redirects, self, merged=sink == "shown")
        if not assigns and (not words or (name in ("true", ":") and len(words) == 1)):
            return CommandForm(("with", TRUE, (), where)) if where != Streams() else CommandForm(TRUE, sure=True)
        if not words:
            return CommandForm(self._set(assigns, where))
        if name in ("cd", "export") and not assigns and where == Streams():
            (self._cd if name == "cd" else self._export)(words)
            return CommandForm(TRUE, sure=True)
        if name in SHELL_STATE or name in ("cd", None):
            if self.state.exported or name == "cd":
                raise _Untracked
            self.stateful = True
        meaning = self._run(assigns, words, where, stdin, sink)
        self.certain = self.certain and name is not None
        return meaning

    def _run(
        self, assigns: Sequence[Assign], words: Sequence[Word], where: Streams, stdin: Form | None, sink: Sink
    ) -> CommandForm:
        opened = where.input_file()
        meaning = command_form(words, self, opened or (stdin if where.avoids(stdin) else None))
        if meaning.form[0] in ("lines", "last lines") and not where.avoids_all(meaning.form):
            meaning = form_by_words(words, self)
        if meaning.took_input:
            where = where.without_input() if opened else where
        elif stdin is not None:
            spec = COMMANDS.get(plain_words(words)[0].text or "")
            where = where.fed(stdin, as_file=spec is not None and spec.filters and not aligns(meaning.form))
        text = where.input_text()
        if text is not None and meaning.form[:4] == ("lines", 1, None, ("stdin",)):
            meaning, where = CommandForm(("print", text), sure=True), where.without_input()
        environment = self._environment(assigns) if meaning.form[0] != "print" else ()
        form = meaning.form
        if meaning.spelled and (sink == "read" or where.output_moved()):
            form = ("spelled", form, meaning.spelled)
        if environment or where != Streams():
            form = ("with", form, environment, where)
        return CommandForm(form, meaning.sure and not where.opens)

    def _environment(self, assigns: Sequence[Assign]) -> tuple[Hashable, ...]:
        if all(
            isinstance(assign.value, Word) and assign.value.text is not None and not assign.append for assign in assigns
        ):
            own = {assign.name: assign.value.text for assign in assigns if isinstance(assign.value, Word)}
            return tuple(sorted({**dict(self.state.exported), **own}.items()))
        return (*self.state.exported, *(self._assign(assign) for assign in assigns))

    def _set(self, assigns: Sequence[Assign], where: Streams) -> Form:
        if any(assign.name in dict(self.state.exported) for assign in assigns):
            raise _Untracked
        self.stateful = self.stateful or bool(assigns)
        return ("set", *(self._assign(assign) for assign in assigns), where)

    def _assign(self, assign: Assign) -> Hashable:
        values = (assign.value,) if isinstance(assign.value, Word) else assign.value
        return (
            assign.name,
            assign.append,
            isinstance(assign.value, Word),
            tuple(word_form(value, self) for value in values),
        )

    def _cd(self, words: Sequence[Word]) -> None:
        target = words[1].text if len(words) == 2 else None
        if not target or target.startswith("-"):
            raise _Untracked
        self.state = self.state._replace(directory=join(self.directory, target))
        self.entered.add(self.state.directory)
        self.changed = self.lasting = True

    def _export(self, words: Sequence[Word]) -> None:
        exported = dict(self.state.exported)
        for word in words[1:]:
            name, equals, value = (word.text or "").partition("=")
            if not equals or not NAME.fullmatch(name) or name in SHELL_NAMES or name.startswith("LC_"):
                raise _Untracked
            exported[name] = value
        if len(words) == 1:
            raise _Untracked
        self.state = self.state._replace(exported=tuple(sorted(exported.items())))
        self.changed = self.lasting = True

    def _check_names(self, text: str) -> None:
        """A variable whose value the normal form has folded away must not be read."""
        names = set(NAME.findall(text))
        if names & STRUCTURE_NAMES or (self.folded and (text.startswith("?") or "$?" in text or "${?" in text)):
            raise _Untracked
        if not self.changed:
            return
        if text.startswith("!") or names & {"PWD", "OLDPWD"} or names & {name for name, _ in self.state.exported}:
            raise _Untracked

    def part(self, part: Part) -> Hashable:
        if isinstance(part, Lit):
            return part.text
        if isinstance(part, Active):
            return ("active", part.text)
        if isinstance(part, Sub):
            script = as_cat(part.script) if part.kind == "$(" else part.script
            return ("output", part.kind, part.quoted, self._subshell(script))
        self._check_names(part.text)
        kind = "parameter" if isinstance(part, Param) else "arithmetic"
        return (kind, part.text, part.quoted, tuple(self._subshell(script) for script in part.scripts))

    def _subshell(self, script: Script) -> Form:
        """The form of a substitution: a shell of its own."""
        saved = (self.state, self.certain, self.changed, self.stateful, self.sure, self.folded)
        form = self.script(script, sink="read")
        if self.lasting:
            raise _Untracked
        self.state, self.certain, self.changed, self.stateful, self.sure, self.folded = saved
        return form
