"""Records of the wire lab: what a program in one version and one dialect sent, scenario by scenario, as a file.

File    `harnesses/<name>/golden/<version>.<dialect>.json`. A request is told by what differs from the one before it,
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


class Asked(Record):
    """One request, normalised."""

    method: str
    path: str
    headers: list[str]
    """Names, sorted."""
    body: Any
    times: int = 1
    """How often it came, in a row."""


class Run(Record):
    """One scenario."""

    ended: JsonObject
    """`ended` and `turns` of the harness's Exit, or `failed`: the kind of its error."""
    requests: list[Asked]


class Transcripts(Record):
    """Of one program in one version and one dialect."""

    program: str
    version: str
    dialect: str
    settings: JsonObject = {}
    """Of the harness, beside its version and dialect."""
    runs: dict[str, Run]
    """By scenario."""


def file_of(folder: Path, version: str, dialect: str) -> Path:
    """Of a harness's folder."""
    return folder / FOLDER / f"{version}.{dialect}.json"


def write(record: Transcripts, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dumped(record))


def dumped(record: Transcripts) -> str:
    told = record.model_dump(mode="json")
    first: Any = None
    for run in told["runs"].values():
        before = first
        for nth, request in enumerate(run["requests"]):
            run["requests"][nth] = _folded(request, before, deep=True)
            before = request
            first = request if first is None else first
    return json.dumps(told, indent=1, ensure_ascii=True) + "\n"


def read(file: Path) -> Transcripts:
    try:
        told = json.loads(file.read_bytes())
        first: Any = None
        for run in told["runs"].values():
            before = first
            for nth, request in enumerate(run["requests"]):
                before = run["requests"][nth] = _unfolded(request, before, deep=True)
                first = before if first is None else first
        return Transcripts.model_validate(told)
    except FileNotFoundError:
        there = sorted(path.name for path in file.parent.glob("*.json"))
        found = f"there are {', '.join(there)}" if there else "there is none"
        raise ConfigError(f"{file}: no such record of the wire lab; {found}", kind="record_missing") from None
    except ValidationError as error:
        raise ConfigError(f"{file}: {describe(error)}", kind="record_invalid") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file}: no record of the wire lab: {error}", kind="record_invalid") from error


def repeated(requests: Iterable[JsonObject]) -> list[Asked]:
    """Those that come in a row as one."""
    found: list[Asked] = []
    for request in requests:
        one = Asked.model_validate(request)
        if found and found[-1].model_copy(update={"times": 1}) == one:
            found[-1] = found[-1].model_copy(update={"times": found[-1].times + 1})
        else:
            found.append(one)
    return found


def _folded(value: Any, before: Any, *, deep: bool = False) -> Any:
    """`deep`: a request, whose body is told so too."""
    if not isinstance(value, dict) or not isinstance(before, dict):
        return value
    same = [key for key in value if key in before and _equal(value[key], before[key])]
    told: JsonObject = {_SAME: same} if same else {}
    for key, inner in value.items():
        if key not in same:
            told[key] = _folded(inner, before.get(key)) if deep else _short(inner, before.get(key))
    return told


def _unfolded(told: Any, before: Any, *, deep: bool = False) -> Any:
    if not isinstance(told, dict) or not isinstance(before, dict):
        return told
    whole = {key: before[key] for key in told.get(_SAME, ())}
    for key, inner in told.items():
        if key != _SAME:
            whole[key] = _unfolded(inner, before.get(key)) if deep else _long(inner, before.get(key))
    return dict(sorted(whole.items()))


def _short(value: Any, before: Any) -> Any:
    if not isinstance(value, list) or not isinstance(before, list):
        return value
    kept = 0
    while kept < min(len(value), len(before)) and _equal(value[kept], before[kept]):
        kept += 1
    return {_KEPT: kept, _THEN: value[kept:]} if kept else value


def _long(told: Any, before: Any) -> Any:
    is_short = isinstance(told, dict) and told.keys() == {_KEPT, _THEN}
    return [*before[: told[_KEPT]], *told[_THEN]] if is_short else told


def _equal(one: Any, other: Any) -> bool:
    """Also in the order of keys, and 1 is not 1.0 or true."""
    return json.dumps(one) == json.dumps(other)
