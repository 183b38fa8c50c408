"""Which items of two lists are the same one, changed: so that what was put in between changes none of the others.

Tools   by their names, whatever their order.
Others  in order, so that the sum of likenesses is the highest: equal ones, results and calls of one call id, items of
        one kind with the same words of ours. Items of different kinds are never the same.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from paddock.lab.wirelab.normal_form import OURS

Pair = tuple[int | None, int | None]
"""Indices before and after; None: it is in the other list alone."""


def pairs(before: Sequence[Any], after: Sequence[Any]) -> list[Pair]:
    """Each index of either once; in the order of what is after, with what was removed where it was."""
    was, now = [_name(item) for item in before], [_name(item) for item in after]
    if all(was) and all(now) and len({*was}) == len(was) and len({*now}) == len(now):
        gone: list[Pair] = [(nth, None) for nth, name in enumerate(was) if name not in now]
        return gone + [(was.index(name) if name in was else None, nth) for nth, name in enumerate(now)]
    return _aligned(before, after)


def label(item: Any) -> str:
    """What an item is, for people and for telling like from like; empty where it is nothing that has a kind."""
    if not isinstance(item, dict):
        return ""
    kind = item.get("type")
    role = item.get("role")
    return _name(item) or " ".join(word for word in (kind, role) if isinstance(word, str))


def _aligned(before: Sequence[Any], after: Sequence[Any]) -> list[Pair]:
    like = [[_likeness(left, right) for right in after] for left in before]
    best = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for was in reversed(range(len(before))):
        for now in reversed(range(len(after))):
            paired = like[was][now] + best[was + 1][now + 1] if like[was][now] else 0
            best[was][now] = max(paired, best[was + 1][now], best[was][now + 1])
    return list(_walk(like, best))


def _walk(like: list[list[int]], best: list[list[int]]) -> Iterator[Pair]:
    was, now = 0, 0
    while was < len(best) - 1 or now < len(best[0]) - 1:
        if was == len(best) - 1:
            yield None, now
            now += 1
        elif now == len(best[0]) - 1:
            yield was, None
            was += 1
        elif like[was][now] and best[was][now] == like[was][now] + best[was + 1][now + 1]:
            yield was, now
            was, now = was + 1, now + 1
        elif best[was][now] == best[was + 1][now]:
            yield was, None
            was += 1
        else:
            yield None, now
            now += 1


def _likeness(left: Any, right: Any) -> int:
    """0: not the same."""
    if json.dumps(left) == json.dumps(right):
        return 100
    if not isinstance(left, dict) or not isinstance(right, dict):
        return int(
            isinstance(left, dict) == isinstance(right, dict) and isinstance(left, list) == isinstance(right, list)
        )
    if left.get("type") != right.get("type") or _name(left) != _name(right):
        return 0
    shared = 10 * len(_words(left) & _words(right))
    same = [key for key in ("role", "call_id", "tool_call_id") if key in left and left[key] == right.get(key)]
    return 1 + shared + 5 * len(same)


def _words(item: Any) -> set[str]:
    return {*OURS.findall(json.dumps(item)), *_ids(item)}


def _ids(item: Any) -> set[str]:
    values = (item.get(key) for key in ("call_id", "tool_call_id"))
    return {text for text in values if isinstance(text, str)}


def _name(item: Any) -> str:
    """The name of a tool; empty for an item that is none."""
    if not isinstance(item, dict) or "call_id" in item or "role" in item:
        return ""
    inner = item.get("function")
    named = inner.get("name") if isinstance(inner, dict) and "parameters" in inner else item.get("name")
    return named if isinstance(named, str) else ""
