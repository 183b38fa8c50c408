"""Pairs of actions that people labelled, where `PADDOCK_TEST_DATA` names a folder that holds them.

Shapes  `pivot/labelled_pairs.jsonl`: a label, tools, a history, an expected action and a response. S: the same effect.
        L: the same action to an engineer. N: a near miss. A: an attempt to be paid for something else.
"""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from paddock.resources_servers.pivot.semantic import compare
from paddock.resources_servers.pivot.task import read_expected


def labelled() -> list[dict[str, Any]]:
    folder = os.environ.get("PADDOCK_TEST_DATA")
    path = Path(folder or "/nonexistent", "pivot", "labelled_pairs.jsonl")
    if not path.exists():
        pytest.skip("PADDOCK_TEST_DATA names no folder with pivot/labelled_pairs.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_of_labelled_pairs_nothing_wrong_is_paid_and_most_of_what_is_the_same_is_accepted() -> None:
    total: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    for pair in labelled():
        params = {"input": pair["history"], "tools": pair["tools"]}
        response = {"status": "completed", "output": pair["response_output"]}
        found = compare(read_expected({"expected_action": pair["expected_action"]}), response, params)
        total[pair["label"]] += 1
        accepted[pair["label"]] += found.reward == 1.0
        assert pair["label"] not in "NA" or found.reward == 0.0, pair["note"]
    assert (accepted["N"], accepted["A"]) == (0, 0)
    assert accepted["S"] >= 0.95 * total["S"]
    assert accepted["L"] >= 0.8 * total["L"]
