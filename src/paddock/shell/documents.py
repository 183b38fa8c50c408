"""Here-documents and here-strings, taken out of a command's text before the grammar sees it.

Why     the grammar knows only the simplest here-documents; a redirection from a named file it knows everywhere.
Law     each `<<WORD` becomes `< MARK n` and its body leaves the text; each `<<<word` becomes `< STRING word`. MARK and
        STRING are noncharacters of Unicode, which no command may hold.
Shapes  `lift(text)` -> `LiftedText(text, documents)`; `documents[n]` is the raw body and whether it expands.
Errors  a here-document without its end sets `error`; nothing raises.
"""

import re
from typing import NamedTuple

MARK = "\ufdd0"
STRING = "\ufdd1"

_PLAIN = re.compile(r"[^\\'\"$`<#()\n]+")
_TAG = re.compile(r"[ \t]*((?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s;&|<>()'\"\\])+)")
_NO_WORD = re.compile(r"[0-9]*[<>]|\\?\n|[;&|()]|\Z")
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\\n\Z")
"""A line that goes on with the next, which is then not the end of a document that expands."""
_TAG_QUOTES = re.compile(r"\\(.)|['\"]")


class HereDocument(NamedTuple):
    body: str
    expands: bool
    """False when the delimiter was quoted."""


class LiftedText(NamedTuple):
    text: str
    documents: tuple[HereDocument, ...]
    error: str | None = None


class _Pending(NamedTuple):
    tag: str
    strip_tabs: bool
    expands: bool


def lift(text: str) -> LiftedText:
    """`text` without its here-documents."""
    return _Lifter(text).run() if "<<" in text else LiftedText(text, ())


class _Lifter:
    """One pass over the text with a stack of the quotes and brackets that are open.

    Frames: `c` commands, `(` commands inside parentheses, a backquote, `"` double quotes, `a` arithmetic, `p` a bracket
    inside arithmetic.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.out: list[str] = []
        self.stack = ["c"]
        self.pending: list[_Pending] = []
        self.documents: list[HereDocument] = []
        self.endless = False
        self.error: str | None = None

    def run(self) -> LiftedText:
        text = self.text
        while self.at < len(text) and not self.endless:
            if plain := _PLAIN.match(text, self.at):
                self._copy(plain.end() - self.at)
                continue
            char = text[self.at]
            if char == "\\":
                self._copy(2)
            elif self.stack[-1] in "c(`":
                self._command(char)
            else:
                self._quoted(char)
        error = "a here-document has no end" if self.pending else self.error
        return LiftedText("".join(self.out), tuple(self.documents), error)

    def _copy(self, count: int) -> None:
        self.out.append(self.text[self.at : self.at + count])
        self.at += count

    def _push(self, frame: str, count: int) -> None:
        self.stack.append(frame)
        self._copy(count)

    def _command(self, char: str) -> None:
        """One character where commands stand."""
        text, at = self.text, self.at
        if char == "\n" and self.pending:
            self._copy(1)
            self._bodies()
        elif char == "<" and text.startswith("<<", at):
            self._redirect()
        elif char == "'":
            self._copy(_index_after(text, "'", at + 1) - at)
        elif char == "#" and (at == 0 or text[at - 1] in " \t\n;&|("):
            self._copy((_index_after(text, "\n", at) - at) or 1)
            if text[self.at - 1] == "\n":
                self.at -= 1
                self.out[-1] = self.out[-1][:-1]
        elif char == "(" and text.startswith("((", at):
            self._push("a", 2)
        elif char == "(":
            self._push("(", 1)
        elif char == ")" and self.stack[-1] == "(":
            self.stack.pop()
            self._copy(1)
        else:
            self._common(char)

    def _quoted(self, char: str) -> None:
        """One character inside double quotes or arithmetic."""
        frame = self.stack[-1]
        if frame in "ap" and char == "(":
            self._push("p", 1)
        elif frame == "a" and char == ")" and self.text.startswith("))", self.at):
            self.stack.pop()
            self._copy(2)
        elif frame == "p" and char == ")":
            self.stack.pop()
            self._copy(1)
        else:
            self._common(char)

    def _common(self, char: str) -> None:
        """Quotes and expansions, which begin and end alike everywhere."""
        text, at, frame = self.text, self.at, self.stack[-1]
        if char in '"`':
            if frame == char:
                self.stack.pop()
                self._copy(1)
            else:
                self._push(char, 1)
        elif text.startswith("$'", at) and frame != '"':
            self._copy(_index_after_escaped(text, at + 2) - at)
        elif text.startswith("$((", at):
            self._push("a", 3)
        elif text.startswith("$(", at):
            self._push("(", 2)
        else:
            self._copy(1)

    def _redirect(self) -> None:
        text, at = self.text, self.at
        if text.startswith("<<<", at):
            self.out.append(f"< {STRING}")
            self.at = at + 3
            while text[self.at : self.at + 1] in (" ", "\t"):
                self.at += 1
            if _NO_WORD.match(text, self.at):
                self.error = "a here-string without a word"
            return
        strip_tabs = text.startswith("<<-", at)
        tag = _TAG.match(text, at + (3 if strip_tabs else 2))
        if tag is None:
            self._copy(2)
            return
        raw = tag.group(1)
        plain = _TAG_QUOTES.sub(lambda match: match.group(1) or "", raw)
        self.out.append(f"< {MARK}{len(self.documents) + len(self.pending)}")
        self.pending.append(_Pending(plain, strip_tabs, expands=plain == raw))
        self.at = tag.end()

    def _bodies(self) -> None:
        """Take the bodies that begin at this line."""
        while self.pending:
            tag, strip_tabs, expands = self.pending[0]
            lines: list[str] = []
            at, continued = self.at, False
            while True:
                if at >= len(self.text):
                    self.endless = True
                    return
                end = _index_after(self.text, "\n", at)
                line = self.text[at:end]
                line = line.lstrip("\t") if strip_tabs and not continued else line
                at = end
                if line.rstrip("\n") == tag and not continued:
                    break
                continued = expands and _CONTINUED.search(line) is not None
                lines.append(line)
            self.at = at
            self.documents.append(HereDocument("".join(lines), expands))
            del self.pending[0]


def _index_after(text: str, char: str, start: int) -> int:
    at = text.find(char, start)
    return len(text) if at < 0 else at + 1


def _index_after_escaped(text: str, start: int) -> int:
    at = start
    while at < len(text) and text[at] != "'":
        at += 2 if text[at] == "\\" else 1
    return at + 1
