"""Where a command's descriptors lead, after all its redirections: not how they were written.

Law     redirections apply from left to right. A file that is opened is opened once per redirection, in order, and
        `/dev/null` has no effect of its own. `merged` says that standard error already goes where standard output goes,
        as in a terminal or under a tool that shows both as one text.
Shapes  `Streams(opens, ends)`: the files as opened, and each descriptor that does not lead where it did.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from paddock.shell.form import FormContext, word_form
from paddock.shell.paths import Form, path_form
from paddock.shell.syntax import Redirect

_NULL: Form = ("path", "/dev/null", "")


class Streams(NamedTuple):
    opens: tuple[tuple[str, Form], ...] = ()
    ends: tuple[tuple[int, Hashable], ...] = ()

    def _input(self) -> Hashable:
        return next((end for fd, end in self.ends if fd == 0), None)

    def input_file(self) -> Form | None:
        """The file that is standard input, where nothing else opens it."""
        end = self._input()
        if not isinstance(end, tuple) or end[0] != "<" or not isinstance(end[1], tuple):
            return None
        return end[1] if self.without_input().avoids(end[1]) else None

    def input_text(self) -> str | None:
        """The literal text that is standard input."""
        end = self._input()
        return end[1] if isinstance(end, tuple) and end[0] == "text" and isinstance(end[1], str) else None

    def avoids(self, file: Form | None) -> bool:
        """Whether no redirection opens `file`."""
        return all(len(form) == 3 and form[0] == "path" and form != file for _, form in self.opens)

    def output_moved(self) -> bool:
        return any(fd == 1 for fd, _ in self.ends)

    def avoids_all(self, files: Form) -> bool:
        """Whether no redirection writes to one of `files`."""
        written = [form for op, form in self.opens if op != "<"]
        return not any(form in files or len(form) != 3 for form in written)

    def without_input(self) -> "Streams":
        end = self._input()
        opened = ("<", end[1]) if isinstance(end, tuple) and end[0] == "<" else None
        return Streams(
            tuple(file for file in self.opens if file != opened), tuple(file for file in self.ends if file[0] != 0)
        )

    def fed(self, file: Form, *, as_file: bool) -> "Streams":
        """With standard input from a `cat` of `file`; `as_file` where that is the same as from the file itself."""
        if as_file and self._input() is None and self.avoids(file):
            return Streams((("<", file), *self.opens), ((0, ("<", file, 0)), *self.ends))
        return Streams((("cat", file), *self.opens), self.ends)


def streams(redirects: Sequence[Redirect], context: FormContext, *, merged: bool) -> Streams:
    """The effect of `redirects`."""
    before: dict[int, Hashable] = {0: "in", 1: "out", 2: "out" if merged else "err"}
    ends = dict(before)
    opened = _OpenFiles()
    for redirect in redirects:
        ends[redirect.fd] = _end(redirect, ends, opened, context)
    opens = opened.files
    if len(opened.times) == len(opens):
        opens.sort(key=lambda file: file[0] != "<")
    return Streams(tuple(opens), tuple(sorted((fd, end) for fd, end in ends.items() if before.get(fd) != end)))


class _OpenFiles:
    """The files as they are opened, in order, and how often each is."""

    def __init__(self) -> None:
        self.files: list[tuple[str, Form]] = []
        self.times: Counter[Form] = Counter()

    def add(self, op: str, form: Form) -> int:
        """How often the file was opened before."""
        before = self.times[form]
        self.times[form] += 1
        self.files.append((op, form))
        return before


def _end(redirect: Redirect, ends: dict[int, Hashable], opened: _OpenFiles, context: FormContext) -> Hashable:
    text = redirect.target.text
    if redirect.op == "<<":
        return ("text", word_form(redirect.target, context))
    if redirect.op in ("<&", ">&"):
        if text == "-":
            return "closed"
        if text is not None and text.isascii() and text.isdecimal():
            end = ends.get(int(text), "closed")
            if end == "closed":
                opened.add("fails", (redirect.op, int(text)))
            return end
        return ("descriptor", redirect.op, word_form(redirect.target, context))
    form = path_form(redirect.target, context.directory, context.part, keep_slash=True)
    if form is None:
        form = ("word", context.directory, word_form(redirect.target, context))
    op = ">" if redirect.op == ">|" else str(redirect.op)
    if form == _NULL:
        return ("null", op == "<")
    return (op, form, opened.add(op, form))
