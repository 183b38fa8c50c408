"""A line that is no valid bash, cut into what its commands would be.

Law     quotes and backslashes are taken away, an unmatched quote is ignored; operators, brackets, backquotes and line
        ends separate commands; keywords before a command and comments are dropped. A word that touches an opening
        bracket is a call or a definition in some language, not a program. Bodies of here-documents are left out, but
        for those that a shell reads. Errs on the side of seeing a command.
Errors  none: any `str` gives segments, in linear time.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from paddock.sandbox.blocklist.wrappers import is_shell
from paddock.shell.documents import MARK, lift

MAX_SEGMENTS = 20_000

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r]+)
      | '(?P<single>[^']*)'
      | "(?P<double>(?:[^"\\]|\\.)*)"
      | (?P<joined>\\\n)
      | \\(?P<escaped>.)
      | (?P<redirect>[0-9]*(?:&?>>?|>\||<>|<(?![<(])))
      | (?P<comment>(?<![^\s;&|(])\#[^\n]*)
      | (?P<open>[<>$]?\()
      | (?P<operator>[;&|\n`)]|[{}](?=\s|;|\Z))
      | (?P<quote>['"\\])
      | (?P<plain>[^\s'"\\;&|()`<>]+|.)""",
    re.VERBOSE | re.DOTALL,
)
_KEYWORDS = frozenset({"if", "then", "else", "elif", "fi", "while", "until", "do", "done", "!", "{", "}", "in", "case"})
ASSIGNS = frozenset({"=", "==", "!=", "+=", "-=", ":=", "=>"})
"""Second words of lines in other languages."""
_BRACES = re.compile(r"\{[^{},]+(?:,[^{},]*)+\}")


class Segment(NamedTuple):
    words: tuple[str, ...]
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    stdin: str | None = None


def segments(line: str) -> Iterator[Segment]:
    lifted = lift(line)
    tokenizer = _Tokenizer()
    for count, segment in enumerate(tokenizer.cut(lifted.text)):
        if count >= MAX_SEGMENTS:
            return
        documents = [read[1:] for read in segment.reads if read.startswith(MARK)]
        numbers = [int(read) for read in documents if read.isdecimal() and int(read) < len(lifted.documents)]
        bodies = [lifted.documents[number].body for number in numbers]
        shell = any(is_shell(word.rpartition("/")[2]) for word in segment.words)
        yield segment._replace(stdin=bodies[-1] if bodies and shell else None)


class _Tokenizer:
    def __init__(self) -> None:
        self.words: list[str] = []
        self.writes: list[str] = []
        self.reads: list[str] = []
        self.word: list[str] | None = None
        self.into: list[str] = self.words

    def cut(self, line: str) -> Iterator[Segment]:
        for match in _TOKEN.finditer(line):
            kind = match.lastgroup or ""
            if kind in ("single", "double", "escaped", "plain"):
                self.word = self.word or []
                self.word.append(match[kind])
            elif kind in ("blank", "redirect"):
                self.end_word()
                if kind == "redirect":
                    self.into = self.writes if ">" in match[kind] else self.reads
            elif kind in ("open", "operator"):
                if kind == "open" and self.word is not None:
                    self.word = None
                    self.words.clear()
                self.end_word()
                yield from self.end()
        self.end_word()
        yield from self.end()

    def end_word(self) -> None:
        if self.word is None:
            return
        word = "".join(self.word)
        self.word = None
        if self.into is self.words and not self.words and word in _KEYWORDS:
            return
        self.into.extend(word[1:-1].split(",") if _BRACES.fullmatch(word) else [word])
        self.into = self.words

    def end(self) -> Iterator[Segment]:
        words = self.words
        if not (len(words) > 1 and words[1] in ASSIGNS) and (words or self.writes or self.reads):
            while words and _is_assignment(words[0]):
                words = words[1:]
            yield Segment(tuple(words), tuple(self.writes), tuple(self.reads))
        self.words, self.writes, self.reads = [], [], []
        self.into = self.words


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()
