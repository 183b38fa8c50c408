"""Rows before they are whole: an own-format row may lack its lists of tests; runs will tell them.

Lists   missing, null or empty FAIL_TO_PASS, missing or null PASS_TO_PASS: to be derived. Rows of other forms have them.
Write   the lists go back where the row keeps them and as it keeps them (a list, or JSON text); a row that keeps them
        elsewhere (R2E-Gym's map, an `instance_dict`) can't lose a test here.
Errors  RowError names the key.
"""

import json
from typing import NamedTuple

from paddock.http import read_row
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.publishers import PublisherTools
from paddock.resources_servers.swe.rows import read
from paddock.resources_servers.swe.rows.families import OWN, family_of
from paddock.resources_servers.swe.rows.fields import names
from paddock.types import JsonObject

F2P, P2P = "FAIL_TO_PASS", "PASS_TO_PASS"
_ANY = "any"
"""Stands for a test while a row without one is read."""


class RowDraft(NamedTuple):
    """A row that may lack its lists of tests."""

    row: JsonObject
    instance: SweInstance
    """With the row's lists, empty where it has none."""
    has_targets: bool
    has_pass_to_pass: bool
    """The row has FAIL_TO_PASS, has PASS_TO_PASS."""


def read_draft(wire: JsonObject, tools: PublisherTools | None = None) -> RowDraft:
    """Read a row as a draft; RowError names the key that is wrong."""
    # Published rows have none: the agent makes the prompt.
    row = read_row({"responses_create_params": {"input": []}, **wire})
    if not _is_own(row.task):
        return RowDraft(wire, read(row, tools), has_targets=True, has_pass_to_pass=True)
    targets = names(wire, F2P) if _is_given(wire.get(F2P)) else []
    pass_to_pass = names(wire, P2P) if _is_given(wire.get(P2P)) else None
    task = {**row.task, F2P: targets or [_ANY], P2P: pass_to_pass or []}
    instance = read(row.model_copy(update={"task": task}))
    whole = instance.model_copy(update={"fail_to_pass": targets, "pass_to_pass": pass_to_pass or []})
    return RowDraft(wire, whole, has_targets=bool(targets), has_pass_to_pass=pass_to_pass is not None)


def with_lists(wire: JsonObject, fail_to_pass: list[str], pass_to_pass: list[str]) -> JsonObject:
    """Return the row with its lists."""
    if not _is_own(wire) and not (F2P in wire and P2P in wire):
        return wire
    return {**wire, F2P: _as_given(wire.get(F2P), fail_to_pass), P2P: _as_given(wire.get(P2P), pass_to_pass)}


def can_drop(wire: JsonObject) -> bool:
    """Say whether a test can be taken out of the row's lists."""
    return _is_own(wire) or (F2P in wire and P2P in wire)


def label(wire: JsonObject) -> str:
    """Return a name of the row for people."""
    params = wire.get("responses_create_params")
    inner = params.get("metadata") if isinstance(params, dict) else None
    for fields in (wire, inner if isinstance(inner, dict) else {}):
        for key in ("instance_id", "commit_hash"):
            if isinstance(fields.get(key), str) and fields[key]:
                return str(fields[key])
    return "row"


def _is_own(wire: JsonObject) -> bool:
    return family_of(wire).name == OWN if wire.get("test_command") is not None else False


def _is_given(value: object) -> bool:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return True
    return value is not None and value != ""


def _as_given(before: object, tests: list[str]) -> list[str] | str:
    return json.dumps(tests, ensure_ascii=False) if isinstance(before, str) else tests
