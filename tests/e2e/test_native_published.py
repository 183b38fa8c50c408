"""Claims about native harnesses over published SWE-bench rows: fixes made with each harness's own tools are paid.

Rows are read where `PADDOCK_TEST_DATA` names a folder that holds them (`swe/instances.jsonl`).
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from paddock.types import JsonObject

HARNESSES = ("codeact", "codex", "opencode")
PATH = Path(os.environ.get("PADDOCK_TEST_DATA") or "/nowhere", "swe/instances.jsonl")
ROWS: dict[str, JsonObject] = (
    {row["instance_id"]: row for row in map(json.loads, PATH.read_text().splitlines())} if PATH.exists() else {}
)
QUICK = ("marshmallow-code__marshmallow-1343", "pallets__flask-5063")
"""Whose images are built, and whose tests run, in the shortest time."""
pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not ROWS, reason="PADDOCK_TEST_DATA names no folder with published rows (swe/instances.jsonl)"),
]


def check(folder: Path, play_fixes: Any, names: Iterable[str]) -> None:
    agents = {harness: {"harness": harness} for harness in HARNESSES}
    found = play_fixes(folder, [ROWS[name] for name in names], agents)
    pairs = {(harness, name) for harness in HARNESSES for name in names}
    assert {pair: solved.problems() for pair, solved in found.items()} == dict.fromkeys(pairs, ())


@pytest.mark.long
def test_each_harness_solves_published_instances_with_its_own_tools(tmp_path: Path, play_fixes: Any) -> None:
    check(tmp_path, play_fixes, QUICK)


@pytest.mark.long
def test_each_harness_solves_all_others(tmp_path: Path, play_fixes: Any) -> None:
    check(tmp_path, play_fixes, [name for name in ROWS if name not in QUICK])
