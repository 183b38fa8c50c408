"""Rollouts that have a text somewhere in what is stored of them: task, messages, calls, results, patch, verdict.

Law     exact, upper and lower case as given; looked for in the file's bytes, as JSON writes the text. At most
        `MAX_FOUND` rollouts.
"""

import bisect
import mmap
from collections.abc import Sequence
from typing import Any

import orjson

from paddock.collect.results import MemberKey
from paddock.errors import RequestError
from paddock.viewer.web.run_log import RunLog

MAX_FOUND = 5000
MAX_TEXT = 1000


def search_rollouts(log: RunLog, text: str) -> dict[str, Any]:
    """Keys (`[group, member]`) of the rollouts with `text`, in the order of the file; `more`: there are further ones.
    RequestError: the text is empty or too long."""
    if not 0 < len(text) <= MAX_TEXT:
        raise RequestError(f"text: 1 to {MAX_TEXT} characters, not {len(text)}", kind="request_invalid")
    spans = sorted((span.start, span.end, key) for key, span in log.spans().items())
    starts = [start for start, _, _ in spans]
    once = orjson.dumps(text)[1:-1]
    # The arguments of calls are JSON in a string.
    needles = {once, orjson.dumps(once.decode())[1:-1]}
    found: set[int] = set()
    try:
        with log.rollouts.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for needle in needles:
                found |= _matching(data, needle, spans, starts)
    except (FileNotFoundError, ValueError):  # an empty file can't be mapped
        pass
    return {"found": [spans[nth][2] for nth in sorted(found)][:MAX_FOUND], "more": len(found) > MAX_FOUND}


def _matching(
    data: mmap.mmap, needle: bytes, spans: Sequence[tuple[int, int, MemberKey]], starts: list[int]
) -> set[int]:
    """Indices of the spans that have `needle` in them; at most one more than `MAX_FOUND`."""
    found: set[int] = set()
    at = data.find(needle)
    while at >= 0 and len(found) <= MAX_FOUND:
        nth = bisect.bisect_right(starts, at) - 1
        is_in = nth >= 0 and at < spans[nth][1]
        if is_in:
            found.add(nth)
        at = data.find(needle, spans[nth][1] if is_in else at + 1)
    return found
