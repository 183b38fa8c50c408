"""How a template ends an answer: by a text that stands there whatever follows, or by the next message's own mark.

Source  an answer of marks is rendered with several things behind it; what is the same in all those texts is no part of
        what follows.
Law     a stop in what is the same ends the answer (`<|im_end|>`). Else, where a stop is the first that differs, stops
        are marks of the next messages (`<|user|>`), and the answer ends where the texts part. Else the first special
        token ends it, though no answer is sampled to it (`<|end|>` beside a stop `<|return|>`).
"""

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple


class TurnSuffix(NamedTuple):
    """Of an answer and what comes after it."""

    end_text: str
    """Ends the answer; empty: `text` does, as it begins with the next message's mark."""
    text: str
    """All that follows, the generation prompt included."""


class MessageEnd(NamedTuple):
    """Of one template's answers with calls, or of those without."""

    texts: tuple[str, ...]
    """The first of them ends the answer; empty: the next message's mark does."""
    own: str = ""
    """What is written of the answer behind its marks, where the next message's mark ends it."""
    marks: frozenset[str] = frozenset()
    """Stops that were found there: the one that ends answers, or those that are marks of next messages."""

    def ending(self, tail: str) -> TurnSuffix | None:
        """`tail`: all that is written behind the answer's marks. None: nothing ends the answer."""
        if not self.texts:
            return TurnSuffix("", tail[len(self.own) :]) if tail.startswith(self.own) else None
        places = [(tail.find(text), -len(text), text) for text in self.texts if text]
        found = min((place for place in places if place[0] >= 0), default=None)
        return None if found is None else TurnSuffix(found[2], tail[found[0] + len(found[2]) :])


def closing(ends: Iterable[MessageEnd]) -> frozenset[str]:
    """Stops that end answers whatever follows."""
    return frozenset[str]().union(*(end.marks for end in ends if end.texts))


def opening(ends: Iterable[MessageEnd]) -> frozenset[str]:
    """Stops that are marks of next messages alone."""
    ends = list(ends)
    return frozenset[str]().union(*(end.marks for end in ends)) - closing(ends)


def find_message_end(
    tails: Sequence[str], stop_texts: Sequence[str], special_texts: Sequence[str]
) -> MessageEnd | None:
    """`tails`: what is written behind an answer's marks, before messages of different roles."""
    splitter = _splitter([*stop_texts, *special_texts])
    pieces = [splitter.findall(tail) for tail in tails]
    columns = takewhile(lambda column: len(set(column)) == 1, zip(*pieces, strict=False))
    shared: list[str] = [column[0] for column in columns]
    stops = frozenset(stop_texts)
    closed = next((piece for piece in shared if piece in stops), None)
    if len(tails) < 2 or closed is not None:
        return MessageEnd(tuple(stop_texts), marks=frozenset([closed] if closed is not None else ()))
    opened = stops.intersection(one[len(shared)] for one in pieces if len(one) > len(shared))
    if opened:
        return MessageEnd((), "".join(shared), opened)
    special = next((piece for piece in shared if piece in special_texts), None)
    return None if special is None else MessageEnd((*stop_texts, special))


def _splitter(whole: Sequence[str]) -> "re.Pattern[str]":
    """Finds the pieces of a text: those of `whole`, and all other characters one by one."""
    longest_first = sorted(filter(None, whole), key=len, reverse=True)
    return re.compile("|".join([*map(re.escape, longest_first), "."]), re.DOTALL)
