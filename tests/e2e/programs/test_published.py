"""The claim that a known fix of a published SWE-bench row, made through each program's own tools, is paid.

Rows are read where `PADDOCK_TEST_DATA` names a folder that holds them (`swe/instances.jsonl`).
"""

from pathlib import Path
from typing import Any

import pytest
from tests.e2e import test_native_published as native
from tests.e2e.programs import stand

INSTANCE = "pallets__flask-5063"
NO_EDITOR = ("mini_swe_agent",)
"""Their one tool is a shell."""
pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(INSTANCE not in native.ROWS, reason="PADDOCK_TEST_DATA names no folder with published rows"),
]


@pytest.mark.parametrize("harness", stand.PROGRAMS)
def test_each_program_solves_a_published_instance(harness: str, tmp_path: Path, play_fixes: Any) -> None:
    stand.require(harness)
    agents = {harness: {"harness": harness}}
    found = play_fixes(tmp_path, [native.ROWS[INSTANCE]], agents)
    problems = found[harness, INSTANCE].problems()
    by_shell = ("by no edit", "git apply") if harness in NO_EDITOR else ()
    assert [one for one in problems if not any(words in one for words in by_shell)] == []
