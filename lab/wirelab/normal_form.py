"""What a program sent, in a form that is the same from run to run and from machine to machine.

Kept    keys, types, numbers, the order of items; within `tools` also the order of keys, which a prompt may show. Texts
        of ours as they are; words such as an enum has. JSON within a string is `{"json": ...}`.
Named   ids as `<key:n>` by first appearance under their key, dates, times, folders, the program's version.
Hidden  any other text is the program's own prose: `{"prose": characters, "sha": 12 hex digits}`, after what is volatile
        was named. Where it has texts of ours in it, `{"text": [...]}` with each part for itself.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from paddock.lab.wirelab.tap import TappedRequest
from paddock.types import JsonObject

SHA_DIGITS = 12
WORD_CHARACTERS = 40
"""The most that a word without spaces may have, to be kept as it is."""
OURS = re.compile(r"(?<![A-Za-z0-9-])lab-[a-z0-9-]+")
"""Words of scenarios; no program has them."""
WORD = re.compile(rf"[A-Za-z0-9_.:/+<>=,;@~*-]{{0,{WORD_CHARACTERS}}}")
_LONGEST_PART = 2000
"""Characters of a text of ours that is looked for within others."""
_PROSE_KEYS = frozenset({"description", "instructions", "definition"})
"""What stands there is prose, be it one word."""
_ID_KEY = re.compile(r"(?:^|[_-])id$|^prompt_cache_key$|^user$", re.IGNORECASE)
_ORDERED = "tools"
_ARGUMENTS = "arguments"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_DAY, _MONTH = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*", "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_VOLATILE = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"(?<!\d)\d{4}-\d\d-\d\d(?!\d)"), "<date>"),
    (re.compile(rf"{_DAY},? {_MONTH} \d{{1,2}},? \d{{4}}"), "<date>"),
)
_EPOCHS = ((1.5e9, 3e9), (1.5e12, 3e12))
"""Seconds and milliseconds of our age."""


class Normaliser:
    """Normalises the requests of one scenario: the same id has the same name in all of them."""

    def __init__(
        self,
        *,
        our_texts: Iterable[str],
        volatile: Sequence[str] = (),
        late: Sequence[str] = (),
        replacements: Mapping[str, str] | None = None,
    ) -> None:
        """`late`: keys that are left out. `replacements`: what stands for a folder or a version, by its text."""
        self._late = frozenset(late)
        self._our_texts = frozenset(our_texts)
        parts = sorted((text for text in self._our_texts if _is_part(text)), key=len, reverse=True)
        self._own = re.compile("|".join([*(re.escape(text) for text in parts), OURS.pattern]))
        self._volatile = [re.compile(pattern) for pattern in volatile]
        self._replacements = replacements or {}
        self._ids: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def request(self, sent: TappedRequest) -> JsonObject:
        try:
            body = self._value("", json.loads(sent.body), ordered=False) if sent.body else None
        except ValueError:
            body = {"bytes": len(sent.body)}
        return {
            "method": sent.method,
            "path": self._replace_volatile("", sent.path),
            "headers": sorted(sent.headers),
            "body": body,
        }

    def _value(self, key: str, value: Any, *, ordered: bool) -> Any:
        if isinstance(value, dict):
            pairs = value.items() if ordered else sorted(value.items())
            return {
                name: self._value(name, inner, ordered=ordered or name == _ORDERED)
                for name, inner in pairs
                if name not in self._late
            }
        if isinstance(value, list):
            return [self._value(key, inner, ordered=ordered) for inner in value]
        if isinstance(value, str):
            return self._text(key, value)
        if isinstance(value, int | float) and any(low < value < high for low, high in _EPOCHS):
            return "<time>"
        return value

    def _text(self, key: str, text: str) -> Any:
        if text in self._our_texts:
            return text
        if _ID_KEY.search(key) and text and not _UUID.search(text):
            return self._id(key, text)
        if text.startswith("{") and isinstance(inner := _json(text), dict):
            return self._inner(key, text, inner)
        clean = self._replace_volatile(key, text)
        if key not in _PROSE_KEYS and WORD.fullmatch(clean):
            return clean
        parts = list(self._parts(clean))
        return parts[0] if len(parts) == 1 else {"text": parts}

    def _inner(self, key: str, text: str, value: JsonObject) -> JsonObject:
        """Arguments that were written anew: in which order and, unless it is the shortest, in how many characters."""
        inner = {"json": self._value(key, value, ordered=key == _ARGUMENTS)}
        short = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return inner if key != _ARGUMENTS or text == short else {**inner, "characters": len(text)}

    def _parts(self, text: str) -> Iterator[Any]:
        at = 0
        for match in self._own.finditer(text):
            if match.start() > at:
                yield _prose(text[at : match.start()])
            yield match.group()
            at = match.end()
        if at < len(text) or not text:
            yield _prose(text[at:])

    def _replace_volatile(self, key: str, text: str) -> str:
        for original, name in self._replacements.items():
            text = text.replace(original, name)
        text = _UUID.sub(lambda match: self._id(key, match.group()), text)
        for pattern, name in _VOLATILE:
            text = pattern.sub(name, text)
        for pattern in self._volatile:
            text = pattern.sub(_without_group, text)
        return text

    def _id(self, key: str, text: str) -> str:
        if text not in self._ids:
            name = re.sub(r"[^a-z0-9]+", "-", key.lower()) or "id"
            self._counts[name] = self._counts.get(name, 0) + 1
            self._ids[text] = f"<{name}:{self._counts[name]}>"
        return self._ids[text]


def is_recordable(text: str, our_texts: Iterable[str] = ()) -> bool:
    """Whether a text may stand in a record: it is ours, or a word, or no words at all."""
    return text in our_texts or bool(WORD.fullmatch(text) or OURS.fullmatch(text)) or not _has_words(text)


def _is_part(text: str) -> bool:
    return bool(OURS.search(text) or text.startswith("/")) and len(text) <= _LONGEST_PART


def _has_words(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _prose(text: str) -> Any:
    if not _has_words(text) and len(text) <= WORD_CHARACTERS:
        return text
    return {"prose": len(text), "sha": hashlib.sha256(text.encode(errors="replace")).hexdigest()[:SHA_DIGITS]}


def _without_group(match: re.Match[str]) -> str:
    if not match.re.groups:
        return "<>"
    start, end = (at - match.start() for at in match.span(1))
    return f"{match.group()[:start]}<>{match.group()[end:]}"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
