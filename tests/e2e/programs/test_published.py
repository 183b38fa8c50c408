"""The claim that known fixes, made through each program's own tools, are paid: of our bugs, and of a published row of
SWE-bench.

Published rows are read where `PADDOCK_TEST_DATA` names a folder that holds them (`swe/instances.jsonl`).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.e2e import test_native_published as native
from tests.e2e.programs import calc_fixture
from tests.sampling import few

from paddock.types import JsonObject

INSTANCE = "pallets__flask-5063"
NO_EDITOR = ("mini_swe_agent",)
"""Their one tool is a shell."""
OURS = Path(__file__).parents[3] / "resources_servers" / "swe" / "data" / "example.jsonl"
IN_THE_DEMO = ("codex_cli", "opencode_cli")
NOT_IN_IT = [name for name in calc_fixture.PROGRAMS if name not in IN_THE_DEMO]
FEW = ("claude_code",)
pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(1200)]


def problems(harness: str, rows: Sequence[JsonObject], folder: Path, play_fixes: Any) -> list[str]:
    calc_fixture.require(harness)
    found = play_fixes(folder, rows, {harness: {"harness": harness}})
    assert len(found) == len(rows)
    by_shell = ("by no edit", "git apply") if harness in NO_EDITOR else ()
    problems = (f"{name}: {one}" for (_, name), solved in found.items() for one in solved.problems())
    return [one for one in problems if not any(words in one for words in by_shell)]


@pytest.mark.skipif(INSTANCE not in native.ROWS, reason="PADDOCK_TEST_DATA names no folder with published rows")
@pytest.mark.parametrize("harness", few((*calc_fixture.PROGRAMS, *calc_fixture.LONG), FEW, pytest.mark.long))
def test_each_program_solves_a_published_instance(harness: str, tmp_path: Path, play_fixes: Any) -> None:
    assert problems(harness, [native.ROWS[INSTANCE]], tmp_path, play_fixes) == []


@pytest.mark.long
@pytest.mark.parametrize("harness", (*NOT_IN_IT, *calc_fixture.LONG))
def test_each_program_solves_the_bugs_of_the_demo(harness: str, tmp_path: Path, play_fixes: Any) -> None:
    rows = [json.loads(line) for line in OURS.read_text().splitlines()]
    assert problems(harness, rows, tmp_path, play_fixes) == []
