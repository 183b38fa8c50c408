"""Curves of training runs, and their means over seeds."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import orjson

ALL, PIVOT = "all", "pivot"
KIND_OF_STEP = ("easy", PIVOT, "hard", "easy")
"""The steps of a trajectory of `task.py`, by what the starting policy makes of them."""


class HeldOutReward(NamedTuple):
    """An answer to a held-out row, after some steps of training."""

    kind: str
    step: int
    reward: float


class RunCurves(NamedTuple):
    """One run: held-out rewards by step of training, and what its groups were worth."""

    rows: str
    """Which rows it was trained on."""
    seed: int
    held_out: Mapping[str, Mapping[int, float]]
    """Mean rewards by step: over `all` held-out rows, and over those of a kind."""
    alike: Sequence[float]
    """The share of groups without a spread, at each step of training."""
    rewards: Sequence[float]
    """The mean reward of each step's groups."""


def read_run(path: Path) -> RunCurves:
    """Read what `loop.py` wrote."""
    run = RunCurves(**orjson.loads(path.read_bytes()))
    curves = {kind: {int(step): mean for step, mean in curve.items()} for kind, curve in run.held_out.items()}
    return run._replace(held_out=curves)


def held_out_curves(answers: Iterable[HeldOutReward]) -> dict[str, dict[int, float]]:
    """Return the mean reward by step of training, over all answers of a validation and by kind of row."""
    rewards: defaultdict[str, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for answer in answers:
        for name in (ALL, answer.kind):
            rewards[name][answer.step].append(answer.reward)
    return {name: {step: fmean(found) for step, found in sorted(own.items())} for name, own in rewards.items()}


def compare(runs: Sequence[RunCurves]) -> dict[str, Any]:
    """Return the figures of all runs, and the curves of each with their means over seeds."""
    return {
        "runs": [_figures(run) for run in runs],
        "held_out": _table(runs, ALL),
        "held_out_pivots": _table(runs, PIVOT),
    }


def _figures(run: RunCurves) -> dict[str, Any]:
    ends = {name: list(curve.values())[-1] for name, curve in sorted(run.held_out.items())}
    return {"rows": run.rows, "seed": run.seed, "alike": fmean(run.alike), **ends}


def _table(runs: Sequence[RunCurves], kind: str) -> list[dict[str, Any]]:
    """A line per validation: the mean of each set of rows, then each run."""
    sets = list(dict.fromkeys(run.rows for run in runs))
    lines = []
    for step in runs[0].held_out[kind]:
        own = {(run.rows, run.seed): run.held_out[kind][step] for run in runs}
        means = {name: fmean(value for (rows, _), value in own.items() if rows == name) for name in sets}
        lines.append({"step": step, **means, **{f"{rows}-{seed}": value for (rows, seed), value in own.items()}})
    return lines
