"""The parts of a pipeline and of a command's prefix that change nothing, taken away.

Law     a `cat` without operands passes its input on; `env NAME=value program` is an assignment before a program that is
        no builtin; a range of lines of a range of lines is a range of lines.
"""

import re
from collections.abc import Sequence

from paddock.shell.paths import Form
from paddock.shell.syntax import Assign, Lit, Node, Script, Simple, Statement, Word
from paddock.shell.tables import BUILTINS, READERS
from paddock.shell.text_tools import lines_of_lines
from paddock.shell.words import literal

NAME = re.compile(r"[A-Za-z_]\w*")

CAT = Simple((), (literal("cat"),))


def is_cat(node: Node) -> bool:
    """A stage that passes its input on."""
    if not isinstance(node, Simple) or node.assigns or node.redirects or not node.words:
        return False
    return [word.text for word in node.words] in (["cat"], ["cat", "-"])


def as_cat(script: Script) -> Script:
    """`< file` as a command substitution has it: `cat < file`."""
    node = script.statements[0].node if len(script.statements) == 1 else None
    if not isinstance(node, Simple) or node.assigns or node.words or script.statements[0].background:
        return script
    if [(redirect.fd, redirect.op) for redirect in node.redirects] != [(0, "<")]:
        return script
    return Script((Statement(Simple((), CAT.words, node.redirects)),))


def unwrap_env(node: Simple) -> tuple[tuple[Assign, ...], tuple[Word, ...]]:
    """Assignments and words, those of `env NAME=value ... program` included."""
    assigns, words = node.assigns, node.words
    if not words or words[0].text != "env":
        return assigns, words
    rest = list(words[1:])
    own: list[Assign] = []
    while rest and (text := rest[0].text) is not None and "=" in text:
        name, _, value = text.partition("=")
        if not NAME.fullmatch(name):
            return assigns, words
        own.append(Assign(name, Word((Lit(value),)) if value else Word(())))
        del rest[0]
    program = rest[0].text if rest else None
    if program is None or program.startswith("-") or program in BUILTINS:
        return assigns, words
    return (*assigns, *own), tuple(rest)


def join_stages(forms: Sequence[Form]) -> list[Form]:
    """Ranges of lines of ranges of lines as one; where all before only reads, stopping early cannot be seen."""
    out: list[Form] = []
    for form in forms:
        joined = lines_of_lines(form, out[-1]) if out else None
        if joined:
            out[-1] = joined
        else:
            quiet = bool(out) and all(map(_only_reads, out))
            out.append((*form[:4], False) if form[0] == "lines" and quiet else form)
    return out


def counts_lines(form: Form) -> bool:
    """Whether a stage treats all lines alike, so that the spelling of names in them cannot matter to it."""
    return form[0] in ("lines", "last lines") or form[:2] == ("wc", ("l",))


def aligns(form: Form) -> bool:
    """Whether a stage sets its numbers in columns, whose width tells a pipe from a file."""
    return form[0] == "wc" and isinstance(form[1], tuple) and len(form[1]) != 1


def _only_reads(form: Form) -> bool:
    """Whether a stage dies silently when the reader of its output goes away, having changed nothing."""
    if form[0] == "spelled" and isinstance(form[1], tuple):
        return _only_reads(form[1])
    if form[0] == "find":
        return isinstance(form[1], tuple) and isinstance(form[2], tuple) and "-delete" not in form[2]
    return form[0] in READERS
