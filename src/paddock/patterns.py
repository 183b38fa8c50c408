"""Regular expressions that come with a row: compiled once, and bounded in what they may take.

Law     a pattern that can't be used is the row's fault (RowError, with the key that holds it). One that takes longer
        than it may on a text raises PatternTooSlow: the text is the policy's, so who asks decides what that is
        worth, and it is nothing that a retry would mend.
Time    processor time of this process, as `regex` counts it: a machine that stalls ends no match. The interpreter is
        free for others while a text is searched. `bounded` tries on the event loop first, and only what takes longer
        than `ON_LOOP_CPU_S` there goes to a thread.
"""

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import regex

from paddock.errors import RowError

MAX_PATTERN_CHARS = 2000
MATCH_CPU_S = 0.5
"""Seconds of processor time that one search of a text may take."""
ON_LOOP_CPU_S = 0.005
MAX_CHARS_ON_LOOP = 16_384
"""Characters of a text that plain patterns of ours read in less than `ON_LOOP_CPU_S`."""

ResultT = TypeVar("ResultT")


class PatternTooSlow(Exception):  # noqa: N818 - no fault of anybody's in particular
    """A pattern took longer than `MATCH_CPU_S` on a text."""


def require_pattern(pattern: str, key: str, *, flags: int = 0) -> None:
    """RowError naming `key` where a pattern is too long or does not compile."""
    if len(pattern) > MAX_PATTERN_CHARS:
        raise RowError(f"{key}: a pattern of more than {MAX_PATTERN_CHARS} characters", kind="pattern_invalid")
    try:
        _compiled(pattern, flags)
    except regex.error as error:
        raise RowError(f"{key}: no regular expression: {error}", kind="pattern_invalid") from error


def captures(pattern: str, text: str, *, flags: int = 0, cpu_s: float = MATCH_CPU_S) -> list[str]:
    """What each match captures, stripped, in order: its first group that is not blank, else the whole match.

    Raises PatternTooSlow after `cpu_s`.
    """
    try:
        found = _compiled(pattern, flags).finditer(text, timeout=cpu_s, concurrent=True)
        return [_captured(match) for match in found]
    except TimeoutError as error:
        raise PatternTooSlow from error


async def bounded(search: Callable[[float], ResultT], text: str) -> ResultT:
    """Return what `search` finds in `text`; its argument goes to `captures` as `cpu_s`. Raises PatternTooSlow."""
    if len(text) <= MAX_CHARS_ON_LOOP:
        try:
            return search(ON_LOOP_CPU_S)
        except PatternTooSlow:
            pass
    return await asyncio.to_thread(search, MATCH_CPU_S)


def _captured(match: Any) -> str:
    groups = (group.strip() for group in match.groups() if isinstance(group, str))
    return next((group for group in groups if group), match.group().strip())


@lru_cache(maxsize=1024)
def _compiled(pattern: str, flags: int) -> Any:
    return regex.compile(pattern, flags)
