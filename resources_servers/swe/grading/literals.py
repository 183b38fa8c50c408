"""Another literal that looks like a given one: its prefix, quotes, base and form stay, its value does not. Pure.

Like    one of the same file with the same prefix and quotes, or as many digits: no letter of it is out of place.
Text    a letter or digit becomes another of its kind, or there is one more; where there is none, one more of the last.
Number  a digit becomes another, in its own base.
"""

import ast
import re
import warnings
from collections.abc import Sequence
from random import Random

_STRING = re.compile(rb"(?s)([A-Za-z]{0,2})(\"\"\"|'''|\"|')(.*)\2\Z")
_KINDS = (b"aeiou", b"bcdfghklmnprstvwz", b"0123456789", b"AEIOU", b"BCDFGHKLMNPRSTVWZ")
_TRIES = 12
_ONE_MORE = 0.25
"""Share of texts that get longer."""
_LONGER = 3
"""Characters, at most, between a text and one like it."""


def similar_literal(text: bytes, literals: Sequence[bytes], chance: Random) -> bytes | None:
    """Choose one of the literals that could stand for the text; None where there is none."""
    old, form_match = _value(text), _STRING.match(text)
    if isinstance(old, bool) or not isinstance(old, str | bytes | int | float):
        return None
    form = form_match[1] + form_match[2] if form_match else None
    fitting = []
    for literal in literals:
        same = _STRING.match(literal)
        new = _value(literal)
        if (same[1] + same[2] if same else None) != form or type(new) is not type(old) or new == old:
            continue
        if abs(len(literal) - len(text)) <= (_LONGER if form_match else 0) and b"\n" not in literal:
            fitting.append(literal)
    return chance.choice(fitting) if fitting else None


def changed_literal(text: bytes, chance: Random) -> bytes | None:
    """Make another literal of the same form; None where none is found."""
    old = _value(text)
    if old is None or old is ...:
        return None
    if isinstance(old, bool):
        return str(not old).encode()
    for _ in range(_TRIES):
        made = _string(text, chance) if isinstance(old, str | bytes) else _number(text, chance)
        new = None if made is None else _value(made)
        if new is not None and type(new) is type(old) and new != old:
            return made
    return None


def _value(text: bytes) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # escapes that Python warns of
        try:
            return ast.literal_eval("(" + text.decode() + ")")
        except (SyntaxError, ValueError, UnicodeDecodeError, MemoryError):
            return None


def _string(text: bytes, chance: Random) -> bytes | None:
    form_match = _STRING.match(text)
    if form_match is None:
        return None
    start, end = form_match.span(3)
    places = [at for at in range(start, end) if _kind(text[at]) and text[at - 1 : at] != b"\\"]
    if places and chance.random() >= _ONE_MORE:
        return _swapped(text, chance.choice(places), chance)
    last = text[end - 1 : end] if end > start else b"e"
    more = bytes([chance.choice(b"aeinst")]) if _kind(last[0]) else last
    return text[:end] + more + text[end:]


def _number(text: bytes, chance: Random) -> bytes | None:
    base = text[:2].lower()
    digits = {b"0x": b"0123456789abcdef", b"0o": b"01234567", b"0b": b"01"}.get(base, b"0123456789")
    first = 2 if base in (b"0x", b"0o", b"0b") else 0
    end = len(text) if first else len(re.match(rb"[^eEjJ]*", text)[0])  # type: ignore[index]
    places = [at for at in range(first, end) if text[at : at + 1].lower() in digits]
    if not places:
        return None
    at = chance.choice(places[:2] if b"." in text else places)  # further ones may be within a tolerance
    new = chance.choice([digit for digit in digits if digit != text[at]])
    return text[:at] + bytes([new]) + text[at + 1 :]


def _kind(letter: int) -> bytes | None:
    return next((kind for kind in _KINDS if letter in kind), None)


def _swapped(text: bytes, at: int, chance: Random) -> bytes:
    kind = _kind(text[at]) or b"e"
    new = chance.choice([letter for letter in kind if letter != text[at]])
    return text[:at] + bytes([new]) + text[at + 1 :]
