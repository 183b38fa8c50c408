"""Both comparators over pairs: how far `semantic` says what `executed` finds.

Law     `executed` is taken as the truth; a pair that it leaves to `semantic`, or whose expert's action does not run, is
        counted and left out.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from benchmarks.pivot_executed.pairs import ActionPair
from paddock.errors import RowError
from paddock.resources_servers.pivot import semantic
from paddock.resources_servers.pivot.executed.comparator import ExecutedComparator
from paddock.resources_servers.pivot.semantic import SemanticOptions
from paddock.resources_servers.pivot.task import ActionComparison, read_expected
from paddock.types.responses import make_response

_Counts = Counter[tuple[bool, bool]]
"""Pairs by what `semantic` says, and what `executed` finds."""
_SHOWN = 60


class ComparatorAgreement:
    """What came of the pairs so far."""

    def __init__(self) -> None:
        self._by_family: dict[str, _Counts] = {}
        self._by_intent: dict[str, _Counts] = {}
        self._disagreements: Counter[tuple[str, str, str, bool]] = Counter()
        self.left_out: Counter[str] = Counter()
        self.details: list[dict[str, Any]] = []
        """Each disagreement whole: rows of who ran it, for no report."""

    async def judge(self, pairs: Iterable[ActionPair], comparator: ExecutedComparator) -> None:
        """Judge pairs; those of one step one after the other, so that its expert's action runs once."""
        by_step: dict[tuple[str, str], list[ActionPair]] = {}
        for pair in pairs:
            by_step.setdefault((pair.start.image, json.dumps(pair.expected.arguments)), []).append(pair)
        await asyncio.gather(*(self._judge_all(own, comparator) for own in by_step.values()))

    async def _judge_all(self, pairs: Iterable[ActionPair], comparator: ExecutedComparator) -> None:
        for pair in pairs:
            await self._judge(pair, comparator)

    async def _judge(self, pair: ActionPair, comparator: ExecutedComparator) -> None:
        _, first, second, start = pair
        expected = read_expected({"expected_action": {key: first.call()[key] for key in ("type", "name", "arguments")}})
        response = make_response([second.call()], {}, model="m")
        task = {"snapshot": {"image": start.image, "workdir": start.workdir}, "cwd": start.workdir}
        params, options = {"input": start.history}, SemanticOptions()
        try:
            truth = await comparator.compare(expected, response, task, params, options)
        except RowError as error:
            self.left_out[error.kind] += 1
            return
        if truth.extras["judged_by"] != "executed":
            self.left_out["left to semantic"] += 1
            return
        claim = semantic.compare(expected, response, params, options, task)
        self._count(pair, claim, truth)

    def _count(self, pair: ActionPair, claim: ActionComparison, truth: ActionComparison) -> None:
        outcome = (claim.reward == 1.0, truth.reward == 1.0)
        self._by_family.setdefault(pair.family, Counter())[outcome] += 1
        intent = "near misses and other steps" if pair.actual.near_miss else "other forms"
        self._by_intent.setdefault(intent, Counter())[outcome] += 1
        if outcome[0] == outcome[1]:
            return
        self._disagreements[pair.family, pair.expected.means, pair.actual.means, outcome[0]] += 1
        self.details.append(
            {
                "family": pair.family,
                "accepted": outcome[0],
                "near_miss": pair.actual.near_miss,
                "means": [pair.expected.means, pair.actual.means],
                "expected": json.dumps(pair.expected.arguments),
                "actual": json.dumps(pair.actual.arguments),
                "semantic": f"{claim.reason}: {claim.detail}",
                "executed": f"{truth.reason}: {truth.detail}",
                "image": pair.start.image,
            }
        )

    def figures(self) -> dict[str, Any]:
        total: _Counts = Counter()
        for counts in self._by_family.values():
            total.update(counts)
        return {
            "all": _figures(total),
            **{name: _figures(counts) for name, counts in sorted(self._by_intent.items(), reverse=True)},
            **{family: _figures(counts) for family, counts in sorted(self._by_family.items())},
            "left out": dict(self.left_out),
            "disagreements": [
                {"family": family, "expected": first, "actual": second, "semantic": claims, "pairs": count}
                for (family, first, second, claims), count in self._disagreements.most_common()
            ],
            "wrongly accepted": [one for one in self.details if one["accepted"]][:_SHOWN],
        }


def _figures(counts: _Counts) -> dict[str, Any]:
    both, claimed, alike = counts[True, True], counts[True, False], counts[False, True]
    return {
        "pairs": counts.total(),
        "alike": both + alike,
        "wrongly accepted": claimed,
        "refused": alike,
        "precision": both / max(1, both + claimed),
        "recall": both / max(1, both + alike),
    }
