"""Records of the wire lab: what a program in one version and one dialect sent, scenario by scenario, as a file.

File    `harnesses/<name>/golden/<version>.<dialect>.json`. A request is written as what differs from the one before it,
        the first of a scenario by what differs from the first of all: `same` names keys of it, and of its body, that
        are as they were; a list that begins as it did is `{"kept": items, "then": [...]}`. Reading gives it whole.
Law     reading what was written gives the same; equal records are equal files.
Errors  ConfigError: no such record, or one that can't be read.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from paddock.errors import ConfigError, describe
from paddock.types import JsonObject, Record

FOLDER = "golden"
_SAME, _KEPT, _THEN = "same", "kept", "then"


class RecordedRequest(Record):
    """One request, normalised."""

    method: str
    path: str
    headers: list[str]
    """Names, sorted."""
    body: Any
    times: int = 1
    """How often it came, in a row."""


class ScenarioRecord(Record):
    """What a program sent in one scenario."""

    ended: JsonObject
    """`ended` and `turns` of the harness's Exit, or `failed`: the kind of its error."""
    requests: list[RecordedRequest]


class WireRecord(Record):
    """What one program sent, in one version and one dialect."""

    program: str
    version: str
    dialect: str
    settings: JsonObject = {}
    """The harness's settings, beside its version and dialect."""
    runs: dict[str, ScenarioRecord]
    """What was sent, by scenario."""


def record_file(folder: Path, version: str, dialect: str) -> Path:
    """The file of a record below a harness's folder."""
    return folder / FOLDER / f"{version}.{dialect}.json"


def write_record(record: WireRecord, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dump_record(record))


def dump_record(record: WireRecord) -> str:
    written = record.model_dump(mode="json")
    first: Any = None
    for run in written["runs"].values():
        before = first
        for nth, request in enumerate(run["requests"]):
            run["requests"][nth] = _fold(request, before, deep=True)
            before = request
            first = request if first is None else first
    return json.dumps(written, indent=1, ensure_ascii=True) + "\n"


def read_record(file: Path) -> WireRecord:
    try:
        written = json.loads(file.read_bytes())
        first: Any = None
        for run in written["runs"].values():
            before = first
            for nth, request in enumerate(run["requests"]):
                before = run["requests"][nth] = _unfold(request, before, deep=True)
                first = before if first is None else first
        return WireRecord.model_validate(written)
    except FileNotFoundError:
        names = sorted(path.name for path in file.parent.glob("*.json"))
        hint = f"there are {', '.join(names)}" if names else "there is none"
        raise ConfigError(f"{file}: no such record of the wire lab; {hint}", kind="record_missing") from None
    except ValidationError as error:
        raise ConfigError(f"{file}: {describe(error)}", kind="record_invalid") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file}: no record of the wire lab: {error}", kind="record_invalid") from error


def merge_repeats(requests: Iterable[JsonObject]) -> list[RecordedRequest]:
    """The requests, with equal ones in a row as one that came several times."""
    merged: list[RecordedRequest] = []
    for request in requests:
        recorded = RecordedRequest.model_validate(request)
        if merged and merged[-1].model_copy(update={"times": 1}) == recorded:
            merged[-1] = merged[-1].model_copy(update={"times": merged[-1].times + 1})
        else:
            merged.append(recorded)
    return merged


def _fold(value: Any, before: Any, *, deep: bool = False) -> Any:
    """A value as what differs from the one before it. `deep`: a request, whose body is folded too."""
    if not isinstance(value, dict) or not isinstance(before, dict):
        return value
    same = [key for key in value if key in before and _equal(value[key], before[key])]
    folded: JsonObject = {_SAME: same} if same else {}
    for key, inner in value.items():
        if key not in same:
            folded[key] = _fold(inner, before.get(key)) if deep else _short(inner, before.get(key))
    return folded


def _unfold(folded: Any, before: Any, *, deep: bool = False) -> Any:
    if not isinstance(folded, dict) or not isinstance(before, dict):
        return folded
    whole = {key: before[key] for key in folded.get(_SAME, ())}
    for key, inner in folded.items():
        if key != _SAME:
            whole[key] = _unfold(inner, before.get(key)) if deep else _long(inner, before.get(key))
    return dict(sorted(whole.items()))


def _short(value: Any, before: Any) -> Any:
    if not isinstance(value, list) or not isinstance(before, list):
        return value
    same = 0
    while same < min(len(value), len(before)) and _equal(value[same], before[same]):
        same += 1
    return {_KEPT: same, _THEN: value[same:]} if same else value


def _long(folded: Any, before: Any) -> Any:
    is_short = isinstance(folded, dict) and folded.keys() == {_KEPT, _THEN}
    return [*before[: folded[_KEPT]], *folded[_THEN]] if is_short else folded


def _equal(left: Any, right: Any) -> bool:
    """Also in the order of keys, and 1 is not 1.0 or true."""
    return json.dumps(left) == json.dumps(right)
