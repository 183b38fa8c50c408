"""A cache for the length of one judgement: each text is parsed once, and nothing is kept afterwards.

Law     `memo()` begins a judgement, unless one is under way in this context; `once` makes a value for a key at most
        once in it, and anew each time outside of any.
Errors  those of the maker; nothing is then kept for the key.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

_T = TypeVar("_T")

_MEMO: ContextVar[dict[Hashable, Any] | None] = ContextVar("memo", default=None)


@contextmanager
def memo() -> Iterator[None]:
    """Begin a judgement, which ends with the block."""
    if _MEMO.get() is not None:
        yield
        return
    token = _MEMO.set({})
    try:
        yield
    finally:
        _MEMO.reset(token)


def under_way() -> bool:
    """Whether a judgement is under way, whose values end with it."""
    return _MEMO.get() is not None


def once(key: Hashable, make: Callable[[], _T]) -> _T:
    """The value of `key`; a key belongs to one maker."""
    values = _MEMO.get()
    if values is None:
        return make()
    if key not in values:
        values[key] = make()
    value: _T = values[key]
    return value
