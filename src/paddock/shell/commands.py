"""The normal form of one command's words: what it does, without how it was spelled.

Shapes  `command_form(argv, context, stdin)` -> `CommandForm`: a form that starts with the command's name or with
        `exec`, which stands for a program of which nothing is known, its exact words and the directory it runs in.
Law     each rewrite here holds in every directory whose named inputs exist; `tests/shell` runs both sides of each.
"""

from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import NamedTuple

from paddock.shell import find, text_tools
from paddock.shell.form import CommandForm, FormContext, may_vanish, word_form
from paddock.shell.options import OptionArguments, read_options, table
from paddock.shell.paths import Form, base_name, join, matches, path_form, within
from paddock.shell.syntax import Active, Part, Word
from paddock.shell.tables import COMMANDS, PLAIN_NAMES, CommandSpec
from paddock.shell.words import literal


def command_form(argv: Sequence[Word], context: FormContext, stdin: Form | None = None) -> CommandForm:
    """`stdin` is the path form of the file that the command reads on standard input, where that is known."""
    words = plain_words(argv)
    name = words[0].text
    if name is None:
        return form_by_words(words, context)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(words, context, stdin)
    spec = COMMANDS.get(name) if " " not in name else None
    return form_by_table(name, spec, words[1:], context, stdin) if spec else form_by_words(words, context)


def plain_words(argv: Sequence[Word]) -> tuple[Word, ...]:
    """`argv` with names that stand for others, `python -m pytest` and `command` written out."""
    words = tuple(argv)
    name = words[0].text
    while name == "command" and len(words) > 1 and not (words[1].text or "-").startswith("-"):
        words = words[1:]
        name = words[0].text
    if name in PLAIN_NAMES:
        words = (*map(literal, PLAIN_NAMES[name]), *words[1:])
        name = words[0].text
    if name == "python" and len(words) > 2 and words[1].text == "-m" and words[2].text in ("pytest", "pip"):
        words = words[2:]
    return words


def form_by_words(words: Sequence[Word], context: FormContext) -> CommandForm:
    return CommandForm(("exec", context.directory, *(word_form(word, context) for word in words)))


def form_by_table(
    name: str, spec: CommandSpec, args: Sequence[Word], context: FormContext, stdin: Form | None = None
) -> CommandForm:
    """By the command's table; by its exact words where the table does not cover them."""
    arguments = read_options(
        args, table(spec.options), number=spec.number, number_position=spec.number_position, mixes=spec.mixes
    )
    if arguments is None:
        return form_by_words([*map(literal, name.split(" ")), *args], context)
    if as_lines := text_tools.rewrite(name, arguments, context, stdin):
        return as_lines
    files, tail, took = _operands(name, spec, arguments, context, stdin)
    if name == "ls" and [option.option.name for option in arguments.options if option.option.group == "format"] == [
        "1"
    ]:
        alone = [option for option in arguments.options if option.option.name != "1"]  # as it is without a terminal
        arguments = arguments._replace(options=alone)
    options = tuple(_options(arguments, context))
    where = () if spec.in_place else (context.directory,)
    spelled = _shown_operands(name, spec, arguments, context)
    if name == "ls" and {option.option.name for option in arguments.options} & {"C", "m", "x", "X", "v", "sort"}:
        tail = (*tail, *spelled)  # how long names are, or how they end, decides where they stand
    return CommandForm((name, *where, options, files, tail), spec.sure, took, spelled)


def _shown_operands(
    name: str, spec: CommandSpec, arguments: OptionArguments, context: FormContext
) -> tuple[Hashable, ...]:
    """The operands whose spelling shows in the output."""
    given = {option.option.name for option in arguments.options}
    if spec.prints_names == "never" or (spec.prints_names == "verbose" and not given & {"v", "c"}):
        return ()
    operands = arguments.operands or [literal(spec.default or "")]
    if name == "ls" and len(operands) == 1 and not given & {"d", "R"}:
        text = operands[0].text
        if text is not None and text.rpartition("/")[2] in ("", ".", ".."):
            return ()
    return tuple(word_form(word, context) for word in operands)


def _options(arguments: OptionArguments, context: FormContext) -> list[Hashable]:
    forms: list[Hashable] = []
    for option, value in arguments.options:
        if value is None:
            forms.append(option.name)
        elif option.takes == "path" and "://" not in (value.text or ""):
            forms.append((option.name, path_form(value, context.directory, context.part) or word_form(value, context)))
        else:
            forms.append((option.name, word_form(value, context)))
    return forms


def _operands(
    name: str, spec: CommandSpec, arguments: OptionArguments, context: FormContext, stdin: Form | None
) -> tuple[tuple[Hashable, ...], tuple[Hashable, ...], bool]:
    """Their forms, what else of their spelling matters, and whether standard input became one of them."""
    given = {pair.option.name for pair in arguments.options}
    operands = list(arguments.operands)
    if not operands and spec.default:
        operands = [literal(spec.default)]
    if any(may_vanish(word) for word in operands):
        return tuple(word_form(word, context) for word in operands), (context.directory,), False
    roles = [spec.first if index == 0 else spec.others for index in range(len(operands))]
    if arguments.dashes_at is not None and spec.first == spec.others == "text" and name.startswith("git"):
        roles[arguments.dashes_at :] = ["path"] * (len(operands) - arguments.dashes_at)
    forms: list[Hashable] = []
    tail: list[Hashable] = []
    for word, role in zip(operands, roles, strict=True):
        if role == "text":
            forms.append(word_form(word, context))
            continue
        form = _file(name, spec, word, context)
        if form is None:
            form, tail = ("word", word_form(word, context)), [context.directory]
        forms.append(form)
    free = spec.any_order is not None and spec.any_order in {"", *given}
    if free and not given & {"v", "i", "I"} and _are_independent(forms):
        forms.sort(key=repr)
    if (
        name == "ls"
        and len(forms) > 1
        and not given & {"U", "sort"}
        and all(word.text is not None for word in operands)
    ):
        forms = [form for _, form in sorted(zip(operands, forms, strict=True), key=lambda pair: pair[0].text or "")]
    if name.startswith("git") and arguments.dashes_at is not None and roles and roles[-1] == "text":
        tail.append("--")
    if stdin and spec.nameless and not operands:
        return (stdin,), tuple(tail), True
    return tuple(forms), tuple(tail), False


def _file(name: str, spec: CommandSpec, word: Word, context: FormContext) -> Form | None:
    if word.text == "-" and spec.filters:
        return ("stdin",)
    if name.startswith("git ") and (word.text or "").startswith(":"):
        return None
    if name == "pytest" and word.text and "::" in word.text:
        file, _, test = word.text.partition("::")
        return ("path", join(context.directory, file), test)
    return path_form(word, context.directory, context.part, keep_slash=spec.keep_slash)


def _are_independent(forms: Sequence[Hashable]) -> bool:
    """Whether all are literal paths and none lies below another."""
    literals = [form for form in forms if isinstance(form, tuple) and len(form) == 3 and isinstance(form[2], str)]
    paths = [form[1] for form in literals if form[0] == "path"]
    if len(paths) != len(forms) or any(not isinstance(path, str) or not path for path in paths):
        return False
    names = sorted(str(path) for path in paths)
    return not any(within(right, left) for left, right in pairwise(names))


def _echo(words: Sequence[Word], context: FormContext, stdin: Form | None) -> CommandForm:
    """`echo` and `printf` of literal text print it; the shell's own `echo` takes backslashes as they are."""
    texts = [word.text for word in words[1:]]
    looks = any(isinstance(part, Active) for word in words for part in word.parts)
    where = context.directory if looks else "any"
    exact = CommandForm(("exec", where, *(word_form(word, context) for word in words)), sure=True)
    if any(text is None for text in texts):
        return exact
    literals = [text for text in texts if text is not None]
    if words[0].text == "echo":
        newline = "\n"
        if literals[:1] == ["-n"]:
            newline, literals = "", literals[1:]
        if literals and literals[0].startswith("-") and set(literals[0][1:]) <= set("neE"):
            return exact
        return CommandForm(("print", " ".join(literals) + newline), sure=True)
    if len(literals) >= 2 and literals[0] in ("%s\\n", "%s\n"):
        return CommandForm(("print", "".join(text + "\n" for text in literals[1:])), sure=True)
    if len(literals) >= 2 and literals[0] == "%s":
        return CommandForm(("print", "".join(literals[1:])), sure=True)
    bare = literals[0].replace("\\n", "\n") if len(literals) == 1 else "%"
    if "%" in bare or "\\" in bare or bare.startswith("-"):
        return form_by_words(words, context)
    return CommandForm(("print", bare), sure=True)


def _test(words: Sequence[Word], context: FormContext, stdin: Form | None) -> CommandForm:
    """`[ x ]` is `test x`; of a single file test the path counts, else the exact words."""
    args = list(words[1:])
    if words[0].text == "[":
        if not args or args[-1].text != "]":
            return form_by_words(words, context)
        args.pop()
    flags = [word.text for word in args[:-1]]
    if flags and flags[:-1] in ([], ["!"]) and flags[-1] in ("-e", "-f", "-d", "-r", "-w", "-x", "-s"):
        path = path_form(args[-1], context.directory, context.part, keep_slash=True)
        if path and args[-1].text is not None:
            return CommandForm(("test", *flags, path))
    return CommandForm(("test", context.directory, *(word_form(word, context) for word in args)))


def _pwd(words: Sequence[Word], context: FormContext, stdin: Form | None) -> CommandForm:
    return CommandForm(("pwd", context.directory), sure=True) if len(words) == 1 else form_by_words(words, context)


def _git(words: Sequence[Word], context: FormContext, stdin: Form | None) -> CommandForm:
    """A subcommand by its table; `-C` and `--no-pager` before it are taken off."""
    rest = list(words[1:])
    directory = context.directory
    while rest and rest[0].text in ("--no-pager", "-C"):
        if rest.pop(0).text == "-C":
            target = rest.pop(0).text if rest else None
            if not target:
                return form_by_words(words, context)
            directory = join(directory, target)
    inner = _OtherDirectory(context, directory)
    name = f"git {rest[0].text}" if rest and rest[0].text else ""
    spec = COMMANDS.get(name)
    if spec is None:
        return form_by_words([literal("git"), *rest], inner)
    meaning = form_by_table(name, spec, rest[1:], inner)
    sure = name in ("git status", "git diff") and not meaning.form[-1] and not meaning.form[-2]
    sure = sure and not any(option in ("exit-code", "quiet", "check") for option in _names(meaning.form))
    return CommandForm(meaning.form, sure)


def _names(form: Form) -> tuple[Hashable, ...]:
    options = form[2] if len(form) > 2 else ()
    return options if isinstance(options, tuple) else ()


class _OtherDirectory(NamedTuple):
    """`context`, in another directory."""

    outer: FormContext
    directory: str

    def part(self, part: Part) -> Hashable:
        return self.outer.part(part)


def _pip(words: Sequence[Word], context: FormContext, stdin: Form | None) -> CommandForm:
    if len(words) < 2 or words[1].text != "install":
        return form_by_words(words, context)
    return form_by_table("pip install", COMMANDS["pip install"], words[2:], context)


def _find(words: Sequence[Word], context: FormContext, stdin: Form | None) -> CommandForm:
    return find.normal(words[1:], context) or form_by_words(words, context)


def _grep(words: Sequence[Word], context: FormContext, stdin: Form | None) -> CommandForm:
    """Besides the table: patterns are one list, a recursive search has `.` for its default."""
    spec = COMMANDS["grep"]
    arguments = read_options(words[1:], table(spec.options), number=spec.number)
    patterns = text_tools.patterns(arguments, context) if arguments else None
    if arguments is None or patterns is None:
        return form_by_words(words, context)
    operands = patterns.files
    given = {option.option.name for option in patterns.options}
    if "d" in given and not operands:
        return form_by_words(words, context)
    if not operands and given & {"r", "R"}:
        operands = [literal(".")]
    rest = OptionArguments(patterns.options, [literal("-"), *operands], arguments.dashes_at)
    files, tail, _ = _operands("grep", spec, rest, context, None)
    spelled = _excluded(patterns, context)
    took = bool(stdin and not operands and not given & {"l", "L", "H"})
    if took:
        files = (*files, stdin)
    options = tuple(_options(rest, context))
    form = ("grep", patterns.form, options, files[1:], spelled, tail)
    one_file = len(operands) == 1 and not given & {"r", "R", "H", "l", "L"}
    names = () if one_file else tuple(word_form(word, context) for word in patterns.files)
    return CommandForm(form, took_input=took, spelled=names)


def _excluded(patterns: text_tools.Patterns, context: FormContext) -> tuple[Hashable, ...]:
    """What the globs that choose files say of the operands as spelled."""
    globs = [option for option in patterns.options if option.option.group == "glob" and option.value]
    texts = [(option.option.name, option.value.text or "/") for option in globs if option.value]
    folders = [text for name, text in texts if name == "exclude-dir"]
    depends = any("/" in text for _, text in texts)
    depends = depends or any(matches(base_name(word), text) for text in folders for word in patterns.files)
    return tuple(word_form(word, context) for word in patterns.files) if depends else ()


def _sed(words: Sequence[Word], context: FormContext, stdin: Form | None) -> CommandForm:
    """Besides the table: `-e x` is the operand `x`, and a range of lines is just that."""
    spec = COMMANDS["sed"]
    arguments = read_options(words[1:], table(spec.options))
    change = text_tools.edit(arguments) if arguments else None
    if arguments is None or change is None:
        return form_by_words(words, context)
    if as_lines := text_tools.edit_lines(change, context, stdin):
        return as_lines
    rest = OptionArguments(change.options, [literal(change.script), *change.files], arguments.dashes_at)
    files, tail, _ = _operands("sed", spec, rest, context, None)
    in_place = any(option.option.name == "i" for option in change.options)
    took = bool(stdin and not change.files and not in_place and text_tools.is_plain(change.script))
    if took:
        files = (*files, stdin)
    where = () if text_tools.is_plain(change.script) else (context.directory,)
    names = tuple(word_form(word, context) for word in change.files) if where else ()
    return CommandForm(("sed", tuple(_options(rest, context)), files, tail, *where), took_input=took, spelled=names)


_SPECIAL: dict[str, Callable[[Sequence[Word], FormContext, Form | None], CommandForm]] = {
    "echo": _echo,
    "printf": _echo,
    "test": _test,
    "[": _test,
    "pwd": _pwd,
    "git": _git,
    "pip": _pip,
    "find": _find,
    "grep": _grep,
    "sed": _sed,
}
