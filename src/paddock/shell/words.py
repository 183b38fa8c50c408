"""One word of the grammar's tree to a `Word`: quote removal as in bash, without expanding anything.

Source  bash manual, "Quoting", "ANSI-C Quoting", "Shell Expansions".
Law     characters that came from quotes are `Lit`; an unquoted `*`, `?`, `[...]`, `{a,b}` or leading `~` is `Active`.
        Quoted text is cut from the source by offsets, since the grammar drops blanks inside double quotes.
Errors  a construct that is not understood raises `Unsupported`; the caller makes the whole script an error.
"""

import re
from collections.abc import Iterator
from typing import Protocol

from tree_sitter import Node as Tree

from paddock.shell.syntax import Active, Arith, Lit, Param, Part, Script, Sub, Word


class Unsupported(ValueError):  # noqa: N818
    """The text cannot be given a tree that is sure to be right."""


class Source(Protocol):
    """The text under a tree, and the way back to scripts inside it."""

    def slice(self, start: int, end: int) -> str: ...
    def step(self, count: int = 1) -> None: ...
    def script(self, children: list[Tree]) -> Script: ...


EMPTY = Word(())
_DQ_ESCAPE = re.compile(r"\\([$`\"\\])|\\\n")
_DOC_ESCAPE = re.compile(r"\\([$`\\])|\\\n")
_ANSI = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|c)"
)
_ANSI_CHARS = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
_LONE_DOLLAR = re.compile(r"(?!\\\n)[^\w@*#?$!({`\[-]")
"""What a `$` in double quotes stands before where it expands nothing."""
_SIMPLE = re.compile(r"[\w./:@%+=^,-]*\Z")
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_RAW_PART = re.compile(r"\\(\n)|\\(.)|((?<=[=:])~)|([*?\[\]{}!^,.:=-])|([^\\*?\[\]{}!^,.:=~-]+|~)|\\", re.DOTALL)
"""A `~` after `=` or `:` is a home directory in an assignment, and in a word that looks like one."""
_RAW_TYPES = frozenset({"word", "number", "variable_name", "extglob_pattern", "regex", "test_operator", "{", "}", "$"})


class _Raw(str):
    """Unquoted source text, its backslashes still in place."""

    __slots__ = ()


def word(tree: Tree, source: Source) -> Word:
    """The word that `tree` stands for."""
    kind = tree.type
    if kind == "word" or kind == "number":
        text = source.slice(tree.start_byte, tree.end_byte)
        if _SIMPLE.match(text):
            return Word((Lit(text),))
        return _assemble([_Raw(text)])
    if kind == "raw_string":
        return literal(source.slice(tree.start_byte + 1, tree.end_byte - 1))
    made = _assemble(list(_pieces(tree, source)))
    braces = any(isinstance(part, Active) and "{" in part.text for part in made.parts)
    if braces and any(child.type == "simple_expansion" for child in tree.children):
        raise Unsupported("a name that braces may lengthen")
    return made


def literal(text: str) -> Word:
    return Word((Lit(text),)) if text else EMPTY


def concat(*words: Word) -> Word:
    return _merge([part for word in words for part in word.parts])


def quoted(tree: Tree, source: Source, *, document: bool = False) -> list[Part]:
    """The parts of a double-quoted string, or of a here-document that stands in double quotes."""
    parts: list[Part] = []
    escape = _DOC_ESCAPE if document else _DQ_ESCAPE
    at = tree.start_byte + 1
    for child in tree.children:
        if child.type in ('"', "string_content"):
            continue
        if child.type == "$" and _LONE_DOLLAR.match(
            source.slice(child.end_byte, min(child.end_byte + 2, tree.end_byte))
        ):
            continue
        start = child.start_byte
        lead = source.slice(start, child.end_byte)
        start += len(lead) - len(lead.lstrip())
        parts.append(Lit(_unescape(source.slice(at, start), escape)))
        parts.extend(_expansion(child, source, in_quotes=True))
        at = child.end_byte
    parts.append(Lit(_unescape(source.slice(at, tree.end_byte - 1), escape)))
    return parts


def document_text(body: str) -> str:
    """The text of a here-document that expands nothing but has backslashes."""
    return _unescape(body, _DOC_ESCAPE)


def _unescape(text: str, escape: re.Pattern[str]) -> str:
    return escape.sub(lambda match: match.group(1) or "", text) if "\\" in text else text


def _pieces(tree: Tree, source: Source) -> Iterator[Part | _Raw]:
    kind = tree.type
    if kind in _RAW_TYPES:
        yield _Raw(source.slice(tree.start_byte, tree.end_byte))
    elif kind == "raw_string":
        yield Lit(source.slice(tree.start_byte + 1, tree.end_byte - 1))
    elif kind == "string":
        yield Lit("")
        yield from quoted(tree, source)
    elif kind == "ansi_c_string":
        yield Lit(_ansi(source.slice(tree.start_byte + 2, tree.end_byte - 1)))
    elif kind in ("concatenation", "command_name"):
        at = tree.start_byte
        for child in tree.children:
            if child.start_byte != at:
                raise Unsupported("a word with a gap")
            if child.type in ("string", "raw_string") and source.slice(at - 1, at) == "$":
                raise Unsupported("a string to be translated")
            yield from _pieces(child, source)
            at = child.end_byte
    elif kind == "brace_expression":
        yield _Raw(source.slice(tree.start_byte, tree.end_byte))
    else:
        yield from _expansion(tree, source, in_quotes=False)


def _expansion(tree: Tree, source: Source, *, in_quotes: bool) -> Iterator[Part]:
    kind = tree.type
    text = source.slice(tree.start_byte, tree.end_byte).lstrip()
    if kind == "simple_expansion":
        yield Param(text[1:], in_quotes)
    elif kind == "expansion":
        yield Param(text[2:-1], in_quotes, tuple(nested(tree, source)))
    elif kind == "arithmetic_expansion":
        inner = text[3:-2] if text.startswith("$((") else text[2:-1]
        yield Arith(inner, in_quotes, tuple(nested(tree, source)))
    elif kind == "command_substitution":
        if text.startswith("$`") or (text.startswith("`") and "\\" in text):
            raise Unsupported("backquotes with a backslash, or after a dollar sign")
        yield Sub("$(", source.script(tree.children[1:-1]), in_quotes)
    elif kind == "process_substitution":
        yield Sub("<(" if text.startswith("<") else ">(", source.script(tree.children[1:-1]), in_quotes)
    else:
        raise Unsupported(f"no word: {kind}")


def nested(tree: Tree, source: Source) -> Iterator[Script]:
    """Scripts of the command substitutions anywhere below `tree`, in order."""
    pending = list(reversed(tree.children))
    while pending:
        here = pending.pop()
        source.step()
        if here.type in ("command_substitution", "process_substitution"):
            yield source.script(here.children[1:-1])
        else:
            pending.extend(reversed(here.children))


def _ansi(text: str) -> str:
    def char(match: re.Match[str]) -> str:
        simple, octal, *hexes = match.groups()
        if simple:
            return _ANSI_CHARS[simple]
        digits = next((digits for digits in hexes if digits), None)
        code = int(octal, 8) if octal else int(digits or "0", 16)
        if not 0 < code < (0x80 if octal or hexes[0] else 0x110000):
            raise Unsupported("an escape for a byte that is no character, or for a control character by its letter")
        return chr(code)

    return _ANSI.sub(char, text)


def _assemble(pieces: list[Part | _Raw]) -> Word:
    """Join quoted parts and raw text, deciding over the whole word which raw characters expand."""
    raw = "".join(piece for piece in pieces if isinstance(piece, _Raw))
    bare = _bare(raw)
    if "\n" in bare or "$" in bare[:-1] or ("$" in bare and not (isinstance(pieces[-1], _Raw) and _bare(pieces[-1]))):
        raise Unsupported("a word that the grammar reads otherwise than bash")
    active = "*?"
    if "[" in bare and "]" in bare[bare.index("[") :]:
        active += "[]!^-:.="
    if "{" in bare and "}" in bare and ("," in bare or ".." in bare):
        active += "{},."
    parts: list[Part] = []
    for index, piece in enumerate(pieces):
        if not isinstance(piece, _Raw):
            parts.append(piece)
            continue
        text: str = piece
        if index == 0 and text.startswith("~"):
            name = re.match(r"~[\w.+-]*", text)
            length = name.end() if name else 1
            if (length < len(text) and text[length] in "/:") or (length == len(text) and len(pieces) == 1):
                parts.append(Active(text[:length]))
                text = text[length:]
        parts.extend(_split_raw(text, active))
    return _merge(parts)


def _bare(raw: str) -> str:
    """Unquoted text without what is escaped in it."""
    return _ESCAPED.sub("", raw)


def _split_raw(text: str, active: str) -> Iterator[Part]:
    for match in _RAW_PART.finditer(text):
        newline, escaped, tilde, special, plain = match.groups()
        if newline:
            continue
        if tilde:
            yield Active(tilde)
        elif special:
            yield Active(special) if special in active else Lit(special)
        else:
            yield Lit(escaped or plain or "\\")


def _merge(parts: list[Part]) -> Word:
    """Neighbouring literals become one, neighbouring active characters too; empty literals go where they say
    nothing."""
    merged: list[Part] = []
    empty = False
    for part in parts:
        last = merged[-1] if merged else None
        if isinstance(part, Lit):
            if not part.text:
                empty = True
                continue
            if isinstance(last, Lit):
                merged[-1] = Lit(last.text + part.text)
                continue
        elif isinstance(part, Active) and isinstance(last, Active) and not last.text.startswith("~"):
            merged[-1] = Active(last.text + part.text)
            continue
        merged.append(part)
    if empty and any(not isinstance(part, (Lit, Active)) and not part.quoted for part in merged):
        merged.append(Lit(""))  # `$x""` is one word even where `$x` is none
    return Word(tuple(merged))
