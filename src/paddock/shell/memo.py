"""What was found of a command, for as long as one judgement takes: each text is read once, and nothing kept beyond.

Law     `memo()` begins a judgement, unless one is under way in this context; `once` makes a value for a key at most
        once in it, and anew each time outside of any.
Errors  those of the maker; nothing is then kept for the key.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

_T = TypeVar("_T")

_FOUND: ContextVar[dict[Hashable, Any] | None] = ContextVar("found", default=None)


@contextmanager
def memo() -> Iterator[None]:
    """The span of one judgement."""
    if _FOUND.get() is not None:
        yield
        return
    token = _FOUND.set({})
    try:
        yield
    finally:
        _FOUND.reset(token)


def under_way() -> bool:
    """Whether a judgement is under way, whose values end with it."""
    return _FOUND.get() is not None


def once(key: Hashable, make: Callable[[], _T]) -> _T:
    """The value of `key`; a key belongs to one maker."""
    found = _FOUND.get()
    if found is None:
        return make()
    if key not in found:
        found[key] = make()
    value: _T = found[key]
    return value
