"""In what the requests of two versions of a program differ: each difference once, with the scenarios that have it.

Path    of a field as one would write it: `body.input[2].output`. Items of a list are matched first: what was put in
        between changes none of the others. Tools are matched by name.
Order   of the keys counts within `tools` alone, as in a record.
"""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from paddock.wirelab.records import Asked, Run, Transcripts

Kind = Literal["added", "removed", "changed"]
SHOWN = 160
"""Characters of a value in a report."""


class Difference(NamedTuple):
    """One, in one request."""

    kind: Kind
    path: str
    before: str
    """As JSON; empty where there was nothing."""
    after: str


def differences(before: Transcripts, after: Transcripts) -> dict[Difference, dict[str, list[int]]]:
    """Each with the numbers (from 1) of the requests that have it, by scenario; 0: the run, not a request."""
    found: dict[Difference, dict[str, list[int]]] = {}
    for name in [*before.runs, *(name for name in after.runs if name not in before.runs)]:
        for number, one in _of_runs(before.runs.get(name), after.runs.get(name)):
            numbers = found.setdefault(one, {}).setdefault(name, [])
            if number not in numbers:
                numbers.append(number)
    return found


def report(before: Transcripts, after: Transcripts) -> str:
    """The differences as text, each told once; empty where there is none."""
    found = differences(before, after)
    if not found:
        return ""
    head = f"{after.program} {after.version} ({after.dialect}) against {before.version} ({before.dialect})"
    lines = [f"{head}: {len(found)} differences"]
    both = [name for name in before.runs if name in after.runs]
    for one, places in sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0].path, pair[0])):
        lines.append(_line(one))
        lines.append(f"    in {_places(places, both)}")
    return "\n".join(lines) + "\n"


def _line(one: Difference) -> str:
    if one.kind == "changed":
        return f"{one.kind:8}{one.path}: {_cut(one.before)} -> {_cut(one.after)}"
    return f"{one.kind:8}{one.path}: {_cut(one.after or one.before)}"


def _places(places: Mapping[str, Sequence[int]], both: Sequence[str]) -> str:
    if len(both) > 1 and set(both) <= set(places):
        return f"all {len(both)} scenarios"
    told = []
    for name, numbers in places.items():
        asked = [str(number) for number in numbers if number]
        told.append(f"{name} {', '.join(asked)}" if asked else name)
    return "; ".join(told)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"


def _of_runs(before: Run | None, after: Run | None) -> Iterator[tuple[int, Difference]]:
    if before is None or after is None:
        one, kind = (after, "added") if before is None else (before, "removed")
        yield 0, _whole(kind, "scenario", one.ended if one else None)  # type: ignore[arg-type]
        return
    for difference in _compare("ended", before.ended, after.ended, ordered=False):
        yield 0, difference
    for number, (was, now) in enumerate(_pairs(before.requests, after.requests), 1):
        if was is None or now is None:
            kind_of: Kind = "added" if was is None else "removed"
            request = now or was
            assert request is not None
            yield number, _whole(kind_of, "request", {"method": request.method, "path": request.path})
            continue
        for key in ("method", "path", "headers", "times", "body"):
            for difference in _compare(key, getattr(was, key), getattr(now, key), ordered=False):
                yield number, difference


def _pairs(before: Sequence[Asked], after: Sequence[Asked]) -> Iterator[tuple[Asked | None, Asked | None]]:
    for nth in range(max(len(before), len(after))):
        yield (before[nth] if nth < len(before) else None), (after[nth] if nth < len(after) else None)


def _compare(path: str, before: Any, after: Any, *, ordered: bool) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict) and not _is_prose(before) and not _is_prose(after):
        yield from _compare_objects(path, before, after, ordered=ordered)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _compare_lists(path, before, after, ordered=ordered)
    elif _text(before) != _text(after):
        yield Difference("changed", path, _text(before), _text(after))


def _compare_objects(
    path: str, before: dict[str, Any], after: dict[str, Any], *, ordered: bool
) -> Iterator[Difference]:
    for key in [*before, *(key for key in after if key not in before)]:
        inner = f"{path}.{key}"
        if key not in after:
            yield _whole("removed", inner, before[key])
        elif key not in before:
            yield _whole("added", inner, after[key])
        else:
            yield from _compare(inner, before[key], after[key], ordered=ordered or key == "tools")
    was, now = [key for key in before if key in after], [key for key in after if key in before]
    if ordered and was != now:
        yield Difference("changed", f"{path} (order of keys)", _text(was), _text(now))


def _compare_lists(path: str, before: list[Any], after: list[Any], *, ordered: bool) -> Iterator[Difference]:
    if all(isinstance(one, str) for one in (*before, *after)):
        yield from (_whole("removed", f"{path}[]", one) for one in before if one not in after)
        yield from (_whole("added", f"{path}[]", one) for one in after if one not in before)
        if sorted(before) == sorted(after) and before != after:
            yield Difference("changed", f"{path} (order)", _text(before), _text(after))
        return
    matcher = difflib.SequenceMatcher(None, [_key(one) for one in before], [_key(one) for one in after], autojunk=False)
    for kind, low, high, low_after, high_after in matcher.get_opcodes():
        for nth in range(max(high - low, high_after - low_after)):
            was, now = low + nth, low_after + nth
            if was >= high:
                yield _whole("added", f"{path}[{_place(after, now)}]", after[now])
            elif now >= high_after:
                yield _whole("removed", f"{path}[{_place(before, was)}]", before[was])
            elif kind == "equal" or _key(before[was]) == _key(after[now]) or not _name(before[was]):
                yield from _compare(f"{path}[{_place(after, now)}]", before[was], after[now], ordered=ordered)
            else:
                yield _whole("removed", f"{path}[{_place(before, was)}]", before[was])
                yield _whole("added", f"{path}[{_place(after, now)}]", after[now])


def _key(one: Any) -> str:
    """What makes an item of a list the same: its name where it has one, and is no call; else all of it."""
    return _name(one) or json.dumps(one, sort_keys=True)


def _name(one: Any) -> str:
    if not isinstance(one, dict) or "call_id" in one:
        return ""
    inner = one.get("function")
    named = inner.get("name") if isinstance(inner, dict) else one.get("name")
    return named if isinstance(named, str) else ""


def _place(items: Sequence[Any], nth: int) -> str:
    return _name(items[nth]) or str(nth)


def _is_prose(one: dict[str, Any]) -> bool:
    return one.keys() == {"prose", "sha"}


def _whole(kind: Kind, path: str, value: Any) -> Difference:
    return Difference(kind, path, _text(value), "") if kind == "removed" else Difference(kind, path, "", _text(value))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
