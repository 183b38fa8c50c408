"""How often the pivot comparators accept labelled pairs, by label: `python -m benchmarks pivot_pairs`.

Shapes  `pivot/labelled_pairs.jsonl` in `PADDOCK_TEST_DATA`: S same effect, L same action to an engineer, N near miss,
        A attempt to be paid for something else. Figures: accepted in full, and paid in part, of all of a label;
        precision of what is accepted; the pairs that are judged against their label, with reason and detail.
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from paddock.resources_servers.pivot import compat, layered, semantic
from paddock.resources_servers.pivot.task import ActionComparison, read_expected

ACCEPTABLE = "SL"


def run() -> dict[str, Any]:
    folder = os.environ.get("PADDOCK_TEST_DATA")
    if not folder:
        sys.exit("PADDOCK_TEST_DATA: not set; it names the folder that holds pivot/labelled_pairs.jsonl")
    pairs = [json.loads(line) for line in Path(folder, "pivot", "labelled_pairs.jsonl").read_text().splitlines()]
    return {name: _figures(name, pairs) for name in ("semantic", "layered", "compat")}


def _compare(comparator: str, pair: dict[str, Any]) -> ActionComparison:
    expected = read_expected({"expected_action": pair["expected_action"]})
    response = {"status": "completed", "output": pair["response_output"]}
    if comparator == "semantic":
        return semantic.compare(expected, response, {"input": pair["history"], "tools": pair["tools"]})
    if comparator == "layered":
        return layered.compare(expected, response, layered.LayeredOptions())
    return compat.compare(expected, response, compat.CompatOptions())


def _figures(comparator: str, pairs: list[dict[str, Any]]) -> dict[str, Any]:
    total: Counter[str] = Counter()
    full: Counter[str] = Counter()
    partly: Counter[str] = Counter()
    wrong: list[dict[str, Any]] = []
    for pair in pairs:
        label = pair["label"]
        comparison = _compare(comparator, pair)
        total[label] += 1
        full[label] += comparison.reward == 1.0
        partly[label] += 0.0 < comparison.reward < 1.0
        if (label in ACCEPTABLE) != (comparison.reward == 1.0) and not (
            label not in ACCEPTABLE and not comparison.reward
        ):
            shown = {"label": label, "note": pair["note"], "reward": comparison.reward, "reason": comparison.reason}
            wrong.append({**shown, "expected": pair["expected_action"], "actual": pair["response_output"]})
    right = sum(full[label] for label in ACCEPTABLE)
    return {
        "accepted": {label: f"{full[label]} of {total[label]}" for label in total},
        "paid in part": dict(partly),
        "precision": right / max(1, full.total()),
        "wrong": wrong,
    }
