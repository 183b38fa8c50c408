"""Terms of a text: what another text must mention to be about the same things.

Terms   a path, a file or a dotted name; a word with an underscore, a change of case or a digit within; a call `f()`; an
        option `--x`; a number of two digits or more; a word in backticks. Of a path only its last part counts.
Equal   a text mentions a term when it has all of the term's words, in any order and without case: `a/b_c.py` is
        mentioned by "b_c.py", and `Cache.get` by "`get` of `Cache`".
Left out  blocks of code, and single digits.
"""

import re

CODE_BLOCK = re.compile(r"^[ \t]*```.*?(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
_TOKEN = re.compile(r"[^\s`,;()\[\]{}<>\"'“”‘’|=]+(?:\(\))?")
_WORD_CHARS = re.compile(r"[^\W_](?:\w*[^\W_])?")
_IN_BACKTICKS = re.compile(r"`([^\s`]{2,80})`")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_SHAPES = re.compile(
    r"[~/]?(?:[\w.@+-]+/)+[\w.@+-]+|/[\w.@+-]+"  # a path
    r"|(?:[^\W\d_]\w+|_\w+)(?:\.\w{2,})+|\w{2,}\.(?:c|h|r|d|m|s)"  # a dotted name, a file
    r"|\w*[^\W_]_\w+|_+\w*[^\W_]\w*"  # snake_case
    r"|[a-z]+[A-Z]\w*|[A-Z]+[a-z]+[A-Z]\w*"  # a change of case
    r"|[A-Za-z]+-?\d\w*"  # S901
    r"|\w+\(\)"
    r"|--?[a-z][\w-]+"
    r"|[#$€£v]?\d[\d.:/-]*\d%?"  # a number, a date, a version
)
_ALTERNATIVE = re.compile(r"[a-z]+/[a-z]+")
"""`and/or` is no path."""
_MAX_CHARS = 100_000
_MAX_TERM_CHARS = 200


def terms_of(text: str) -> frozenset[frozenset[str]]:
    """Return the terms of a text, each as the set of its words."""
    prose = _THOUSANDS.sub("", CODE_BLOCK.sub("\n", text[:_MAX_CHARS]))
    quoted = set(_IN_BACKTICKS.findall(prose))
    plain = {token.rstrip(".:!?*").lstrip("*") for token in _TOKEN.findall(prose)}
    shaped = {token for token in plain if len(token) <= _MAX_TERM_CHARS and _has_shape(token)}
    found = (_words(token.rstrip("/").rpartition("/")[2]) for token in quoted | shaped)
    return frozenset(words for words in found if words)


def mentioned_words(text: str) -> frozenset[str]:
    """Return all words of a text in the form in which terms have them."""
    return _words(_THOUSANDS.sub("", text[:_MAX_CHARS]))


def _has_shape(token: str) -> bool:
    return bool(_SHAPES.fullmatch(token)) and not _ALTERNATIVE.fullmatch(token)


def _words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD_CHARS.findall(text))
