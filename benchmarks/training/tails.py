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

from paddock.training.core.settings import AsyncGrpoSettings, GroupSettings, GrpoSettings
from paddock.training.grpo.loop import Loop, LoopSettings, RunResult
from paddock.training.grpo.roles import GroupJob
from paddock.training.grpo.testing import ScriptedPolicy, ScriptedRollouts, ScriptedRun, now, virtually

STEPS = 40
PROMPTS = 16
MEMBERS = 8
MEDIAN_S = 30.0
"""Of one rollout."""
SIGMAS = (0.5, 1.0)
"""Of the logarithm: the 99th percentile is 3 and 10 times the median."""
TRAIN_S, SEND_S = 30.0, 3.0
TURNS = 8
SEEDS = range(3)


class Way(NamedTuple):
    age: int
    in_flight: bool


WAYS = {
    "synchronous": Way(0, in_flight=False),
    "waiting": Way(1, in_flight=False),
    "in_flight": Way(1, in_flight=True),
    "in_flight_age_4": Way(4, in_flight=True),
}


class Run(NamedTuple):
    steps_per_min: float
    wait_share: float
    """Of the policy's time; in the way that waits, for running rollouts to end too."""
    given_up_share: float
    """Of the groups that were begun."""
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
    found = {name: [_run(way, sigma, seed) for seed in SEEDS] for name, way in WAYS.items()}
    floor = found["synchronous"]
    return [
        {
            "sigma": sigma,
            "way": name,
            **{field: median(getattr(run, field) for run in runs) for field in Run._fields},
            "ratio": median(run.steps_per_min / bare.steps_per_min for run, bare in zip(runs, floor, strict=True)),
        }
        for name, runs in found.items()
    ]


def _run(way: Way, sigma: float, seed: int) -> Run:
    def seconds(work: GroupJob) -> float:
        drawn = random.Random(f"{seed} {work.id}")
        return MEDIAN_S * max(drawn.lognormvariate(0.0, sigma) for _ in range(MEMBERS))

    grpo = GrpoSettings(
        num_prompts_per_step=PROMPTS,
        num_generations_per_prompt=MEMBERS,
        max_num_steps=STEPS,
        max_num_epochs=1_000_000,
        async_grpo=AsyncGrpoSettings(max_trajectory_age_steps=way.age, in_flight_weight_updates=way.in_flight),
    )
    settings = LoopSettings(grpo=grpo, groups=GroupSettings(), n_rows=1000, max_length=64)

    async def run() -> tuple[RunResult, float]:
        world = ScriptedRun()
        rollouts = ScriptedRollouts(world, seconds=seconds, turns=TURNS, size=MEMBERS)
        policy = ScriptedPolicy(world, train_s=TRAIN_S, send_s=SEND_S)
        ended = await Loop(settings, rollouts, policy, lambda _told: None, clock=now).run()
        return ended, now()

    cpu = time.process_time()
    ended, lasted_s = virtually(run())
    cpu = time.process_time() - cpu
    return Run(
        steps_per_min=60 * ended.steps / lasted_s,
        wait_share=ended.wait_share,
        given_up_share=ended.lost["slow"] / ended.n_started,
        cpu_ms=cpu * 1e3 / (ended.n_started * MEMBERS),
    )
