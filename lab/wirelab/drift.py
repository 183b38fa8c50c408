"""In what the requests of two versions of a program differ: each difference once, with the scenarios that have it.

Path    of a field as one would write it: `body.input[2].output`. A difference that is the same but for where in a list
        its item stands, or for the number of an id, is one; it is reported as it came first.
Order   of the keys counts within `tools` alone, as in a record.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from paddock.lab.wirelab.alignment import label, pairs
from paddock.lab.wirelab.records import RecordedRequest, ScenarioRecord, WireRecord

Kind = Literal["added", "removed", "changed"]
SHOWN = 160
"""Characters of a value in a report."""
_NUMBERED = re.compile(r"((?:item|call|handle)_lab|<[a-z-]+:)\d+")


class FieldPath(NamedTuple):
    """Where a field is."""

    exact: str
    loose: str
    """With what items are in place of their positions."""

    def key(self, name: str) -> "FieldPath":
        return FieldPath(f"{self.exact}.{name}", f"{self.loose}.{name}")

    def item(self, nth: int, kind: str) -> "FieldPath":
        return FieldPath(f"{self.exact}[{nth}{' ' + kind if kind else ''}]", f"{self.loose}[{kind or nth}]")

    def but(self, words: str) -> "FieldPath":
        return FieldPath(self.exact + words, self.loose + words)


class Difference(NamedTuple):
    """What one request has otherwise."""

    kind: Kind
    path: FieldPath
    before: str
    """As JSON; empty where there was nothing."""
    after: str

    @property
    def same_as(self) -> tuple[str, ...]:
        """Equal for differences that a report has once."""
        return (self.kind, self.path.loose, _NUMBERED.sub(r"\1", self.before), _NUMBERED.sub(r"\1", self.after))


class Drift(NamedTuple):
    """A difference, and where it is."""

    first: Difference
    requests: dict[str, list[int]]
    """Numbers (from 1) of requests by scenario; empty: it is the run's own."""


def differences(before: WireRecord, after: WireRecord) -> list[Drift]:
    """Those in most scenarios first."""
    drifts: dict[tuple[str, ...], Drift] = {}
    for name in [*before.runs, *(name for name in after.runs if name not in before.runs)]:
        for number, drift in _of_runs(before.runs.get(name), after.runs.get(name)):
            numbers = drifts.setdefault(drift.same_as, Drift(drift, {})).requests.setdefault(name, [])
            if number and number not in numbers:
                numbers.append(number)
    return sorted(drifts.values(), key=lambda drift: (-len(drift.requests), drift.first.path.loose, drift.first))


def report(before: WireRecord, after: WireRecord) -> str:
    """The differences as text, each once; empty where there is none."""
    drifts = differences(before, after)
    if not drifts:
        return ""
    both = [name for name in before.runs if name in after.runs]
    lines = [f"{_title(after)} against {_title(before)}: {len(drifts)} differences over scenarios: {len(both)}"]
    for drift in drifts:
        lines += [_line(drift.first), f"    in {_requests(drift.requests, both)}"]
    return "\n".join(lines) + "\n"


def _title(record: WireRecord) -> str:
    return f"{record.program} {record.version} ({record.dialect})"


def _line(item: Difference) -> str:
    values = f"{_cut(item.before)} -> {_cut(item.after)}" if item.kind == "changed" else _cut(item.after or item.before)
    return f"{item.kind:<8} {item.path.exact}: {values}"


def _requests(requests: Mapping[str, Sequence[int]], both: Sequence[str]) -> str:
    if len(both) > 1 and set(both) <= set(requests):
        return "all"
    return ", ".join(
        f"{name} ({' '.join(str(number) for number in numbers)})" if numbers else name
        for name, numbers in requests.items()
    )


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"


def _of_runs(before: ScenarioRecord | None, after: ScenarioRecord | None) -> Iterator[tuple[int, Difference]]:
    if before is None or after is None:
        present = before or after
        assert present is not None
        yield 0, _alone("removed" if after is None else "added", _path("scenario"), present.ended)
        return
    yield from ((0, difference) for difference in _compare_values(_path("ended"), before.ended, after.ended))
    for nth in range(max(len(before.requests), len(after.requests))):
        was = before.requests[nth] if nth < len(before.requests) else None
        now = after.requests[nth] if nth < len(after.requests) else None
        yield from ((nth + 1, difference) for difference in _of_requests(was, now))


def _of_requests(before: RecordedRequest | None, after: RecordedRequest | None) -> Iterator[Difference]:
    if before is None or after is None:
        present = before or after
        assert present is not None
        request = f"{present.method} {present.path}"
        yield _alone("removed" if after is None else "added", _path("request"), request)
        return
    for key in ("method", "path", "headers", "times", "body"):
        yield from _compare(_path(key), getattr(before, key), getattr(after, key), ordered=False)


def _compare(path: FieldPath, before: Any, after: Any, *, ordered: bool) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict) and not _is_prose(before) and not _is_prose(after):
        yield from _compare_objects(path, before, after, ordered=ordered)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _compare_lists(path, before, after, ordered=ordered)
    else:
        yield from _compare_values(path, before, after)


def _compare_values(path: FieldPath, before: Any, after: Any) -> Iterator[Difference]:
    if _text(before) != _text(after):
        yield Difference("changed", path, _text(before), _text(after))


def _compare_objects(
    path: FieldPath, before: dict[str, Any], after: dict[str, Any], *, ordered: bool
) -> Iterator[Difference]:
    for key in [*before, *(key for key in after if key not in before)]:
        inner = path.key(key)
        if key not in after:
            yield _alone("removed", inner, before[key])
        elif key not in before:
            yield _alone("added", inner, after[key])
        else:
            yield from _compare(inner, before[key], after[key], ordered=ordered or key == "tools")
    was, now = [key for key in before if key in after], [key for key in after if key in before]
    if ordered and was != now:
        yield Difference("changed", path.but(" (order of keys)"), _text(was), _text(now))


def _compare_lists(path: FieldPath, before: list[Any], after: list[Any], *, ordered: bool) -> Iterator[Difference]:
    if all(isinstance(item, str) for item in (*before, *after)):
        yield from _compare_words(path, before, after)
        return
    matched = pairs(before, after)
    for was, now in matched:
        if was is None and now is not None:
            yield _alone("added", path.item(now, label(after[now])), after[now])
        elif now is None and was is not None:
            yield _alone("removed", path.item(was, label(before[was])), before[was])
        elif was is not None and now is not None:
            yield from _compare(path.item(now, label(after[now])), before[was], after[now], ordered=ordered)
    common = [was for was, now in matched if was is not None and now is not None]
    if common != sorted(common):
        names = [label(before[was]) for was in common]
        yield Difference(
            "changed", path.but(" (order)"), _text([label(before[was]) for was in sorted(common)]), _text(names)
        )


def _compare_words(path: FieldPath, before: list[str], after: list[str]) -> Iterator[Difference]:
    yield from (_alone("removed", path.but("[]"), word) for word in before if word not in after)
    yield from (_alone("added", path.but("[]"), word) for word in after if word not in before)
    was, now = [word for word in before if word in after], [word for word in after if word in before]
    if was != now:
        yield Difference("changed", path.but(" (order)"), _text(was), _text(now))


def _path(name: str) -> FieldPath:
    return FieldPath(name, name)


def _is_prose(value: dict[str, Any]) -> bool:
    return value.keys() == {"prose", "sha"}


def _alone(kind: Kind, path: FieldPath, value: Any) -> Difference:
    return Difference(kind, path, _text(value), "") if kind == "removed" else Difference(kind, path, "", _text(value))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
