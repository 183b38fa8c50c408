"""Private copies of what clients tell: the client's strings, in containers of our own.

Law     a list begins with a copy where its canonical JSON begins with the copy's, and nowhere else: 1, 1.0 and true
        differ, the order of keys is nothing. What a client does to its own objects afterwards changes no copy.
Cost    of a copy: its containers, no text. Of a comparison: one pass; texts that are shared are not read.
Shapes  values that `orjson` writes; one that is no plain JSON is copied as what it is written as.
Errors  JSONEncodeError of `orjson` for a value that is no JSON.
"""

from collections.abc import Sequence
from operator import is_
from typing import Any, NamedTuple, Self

import orjson

from paddock.types import FixedList, JsonObject

_NUMBERS = (int, float, bool)


class Copied(NamedTuple):
    """A list, and what there is to look at beyond Python's own comparison, for which 1 and true are the same."""

    items: list[Any]
    """Not to be changed."""
    numbered: Sequence[int]
    """Indices of items that may hold a number or a boolean."""

    @classmethod
    def of_fixed(cls, given: FixedList) -> Self:
        """With the items themselves; each may hold a number."""
        return cls([*given], range(len(given)))

    def and_more(self, given: Sequence[Any]) -> Self:
        """With copies of what comes behind."""
        items, numbered = [*self.items], self.numbered
        for nth, item in enumerate(given, len(items)):
            copied, holds_number = _copied(item)
            items.append(copied)
            if holds_number:
                numbered = [*numbered, nth]
        return self._replace(items=items, numbered=numbered)

    def begins(self, given: list[Any]) -> bool:
        """Whether `given` begins with the very same items."""
        length = len(self.items)
        if len(given) >= length and all(map(is_, self.items, given)):
            return True  # nobody changes them: no client holds one that can be changed
        # Strings, nulls and containers are equal to their like alone: only what holds a number is looked at again.
        if len(given) < length or given[:length] != self.items:
            return False
        return all(canonical(given[nth]) == canonical(self.items[nth]) for nth in self.numbered)


NOTHING = Copied([], [])


def canonical(value: Any) -> bytes:
    """Canonical JSON: keys sorted."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def private(value: JsonObject) -> JsonObject:
    """A copy of an object."""
    copied: JsonObject = _copied(value)[0]
    return copied


def _copied(value: Any) -> tuple[Any, bool]:
    """The copy, and whether it holds a number."""
    kind = type(value)
    if kind is str or value is None:
        return value, False
    if kind is dict:
        fields = {key: _copied(each) for key, each in value.items()}
        return {key: copied for key, (copied, _) in fields.items()}, any(found for _, found in fields.values())
    if kind is list:
        members = [_copied(each) for each in value]
        return [copied for copied, _ in members], any(found for _, found in members)
    if kind in _NUMBERS:
        return value, True
    return _copied(orjson.loads(canonical(value)))
