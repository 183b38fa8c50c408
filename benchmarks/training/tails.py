"""Steps per minute when rollouts have a long tail: weights sent in flight, sent after a wait, and a synchronous loop.

The loop, the buffer and the batches are ours; rollouts, policy and engines are scripted and take the seconds of a
script, in virtual time, so that the figures are exact and a run of hours takes seconds. A rollout takes a log-normal
time, a group as long as the longest of its rollouts, however many run beside it; all ways have the same groups.
Floor   the synchronous loop (age 0): each step waits for the slowest of its own groups. `never_waiting` is what the
        policy could do at best: training and sending alone.
"""

import random
import time
from statistics import median
from typing import Any, NamedTuple

from paddock.training.core.order import all_rows
from paddock.training.core.settings import AsyncGrpoSettings, GroupSettings, GrpoSettings
from paddock.training.grpo.loop import Loop
from paddock.training.grpo.loop_records import LoopSettings, RunResult
from paddock.training.grpo.roles import GroupJob
from paddock.training.grpo.testing import ScriptedPolicy, ScriptedRollouts, ScriptedRun, now, virtually

STEPS = 40
PROMPTS = 16
MEMBERS = 8
MEDIAN_S = 30.0
"""Seconds of one rollout."""
SIGMAS = (0.5, 1.0)
"""Deviations of the logarithm: the 99th percentile is 3 and 10 times the median."""
TRAIN_S, SEND_S = 30.0, 3.0
TURNS = 8
SEEDS = range(3)


class LoopVariant(NamedTuple):
    """One way of sending weights."""

    age: int
    in_flight: bool


VARIANTS = {
    "synchronous": LoopVariant(0, in_flight=False),
    "waiting": LoopVariant(1, in_flight=False),
    "in_flight": LoopVariant(1, in_flight=True),
    "in_flight_age_4": LoopVariant(4, in_flight=True),
}


class RunFigures(NamedTuple):
    """The figures of one run."""

    steps_per_min: float
    wait_share: float
    """Of the policy's time; in the way that waits, for running rollouts to end too."""
    given_up_share: float
    """Share of the groups that were started."""
    cpu_ms: float
    """Of loop, buffer and batches per rollout, the script's part included."""


def measure() -> dict[str, Any]:
    return {
        "virtual": True,
        "prompts_per_step": PROMPTS,
        "members": MEMBERS,
        "median_s": MEDIAN_S,
        "train_s": TRAIN_S,
        "send_s": SEND_S,
        "never_waiting_steps_per_min": 60 / (TRAIN_S + SEND_S),
        "cases": [case for sigma in SIGMAS for case in _cases(sigma)],
    }


def _cases(sigma: float) -> list[dict[str, Any]]:
    runs_by_variant = {name: [_run(variant, sigma, seed) for seed in SEEDS] for name, variant in VARIANTS.items()}
    floor = runs_by_variant["synchronous"]
    return [
        {
            "sigma": sigma,
            "way": name,
            **{field: median(getattr(run, field) for run in runs) for field in RunFigures._fields},
            "ratio": median(run.steps_per_min / bare.steps_per_min for run, bare in zip(runs, floor, strict=True)),
        }
        for name, runs in runs_by_variant.items()
    ]


def _run(variant: LoopVariant, sigma: float, seed: int) -> RunFigures:
    def seconds(work: GroupJob) -> float:
        drawn = random.Random(f"{seed} {work.id}")
        return MEDIAN_S * max(drawn.lognormvariate(0.0, sigma) for _ in range(MEMBERS))

    grpo = GrpoSettings(
        num_prompts_per_step=PROMPTS,
        num_generations_per_prompt=MEMBERS,
        max_num_steps=STEPS,
        max_num_epochs=1_000_000,
        async_grpo=AsyncGrpoSettings(max_trajectory_age_steps=variant.age, in_flight_weight_updates=variant.in_flight),
    )
    settings = LoopSettings(grpo=grpo, groups=GroupSettings(), pools=all_rows(1000), max_length=64)

    async def run() -> tuple[RunResult, float]:
        world = ScriptedRun()
        rollouts = ScriptedRollouts(world, seconds=seconds, turns=TURNS, size=MEMBERS)
        policy = ScriptedPolicy(world, train_s=TRAIN_S, send_s=SEND_S)
        result = await Loop(settings, rollouts, policy, lambda _report: None, clock=now).run()
        return result, now()

    cpu = time.process_time()
    result, lasted_s = virtually(run())
    cpu = time.process_time() - cpu
    return RunFigures(
        steps_per_min=60 * result.steps / lasted_s,
        wait_share=result.wait_share,
        given_up_share=result.lost["slow"] / result.n_started,
        cpu_ms=cpu * 1e3 / (result.n_started * MEMBERS),
    )
