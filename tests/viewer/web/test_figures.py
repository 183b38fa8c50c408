"""Claims about the figures that the page makes of rows, in a real browser."""

from pathlib import Path
from typing import Any

import pytest
from tests.viewer.web.test_page import ServedView, browser, large_run, page, runs
from tests.viewer.web.test_page import pytestmark as in_chromium

__all__ = ["browser", "large_run", "page", "runs"]

pytestmark = [pytest.mark.slow, *in_chromium]

TOOL_USE = """async ([rows]) => (await import("/assets/rows.js")).toolUse(rows)"""


def test_tools_are_summed_over_the_rollouts_that_called_them(page: Any, runs: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"reward": 1.0, "tools": {"bash": 3, "edit": 1}},
        {"reward": 0.0, "tools": {"bash": 1}},
        {"reward": None, "tools": {"bash": 2}},
    ]
    with ServedView(page, runs) as view:
        page.goto(view.url)
        assert page.evaluate(TOOL_USE, [rows]) == [
            {"name": "bash", "count": 3, "reward": 0.5, "calls": 2},
            {"name": "edit", "count": 1, "reward": 1, "calls": 1},
        ]


PROGRESS = """async ([rows]) => (await import("/assets/rows.js")).progress(rows)"""


def test_curves_are_over_the_clock_where_each_rollout_says_when_it_ended(page: Any, runs: Path) -> None:
    rows: list[dict[str, float | None]] = [
        {"order": 0, "reward": 1.0, "ended_at": 30.0},
        {"order": 1, "reward": None, "ended_at": 20.0},
        {"order": 2, "reward": 0.0, "ended_at": 10.0},
    ]
    with ServedView(page, runs) as view:
        page.goto(view.url)
        found = page.evaluate(PROGRESS, [rows])
        assert found["timed"]
        assert found["rewards"] == {"xs": [10, 30], "ys": [0, 0.5]}
        assert found["failures"] == {"xs": [10, 20, 30], "ys": [0, 1, 1]}
        assert found["ended"] == {"xs": [10, 20, 30], "ys": [1, 2, 3]}
        rows[0]["ended_at"] = None
        found = page.evaluate(PROGRESS, [rows])
        assert not found["timed"]
        assert found["rewards"] == {"xs": [1, 3], "ys": [1, 0.5]}
